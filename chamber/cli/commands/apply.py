"""`chamber diff` and `chamber apply`: pools, teams and the table of PriorityClasses as a file declares them."""

import sys
from dataclasses import dataclass, field

import click

from chamber.cli import declared
from chamber.cli.client import Client, Json, connect, segment
from chamber.cli.declared import NEW_SHARE, Plan
from chamber.cli.output import Column, Form, Row, output_option, show, text
from chamber.cli.status import Exit, Failure


def _value(key: str) -> Column:
    def value(row: Row) -> str:
        found = row[key]
        if isinstance(found, dict):
            found = [f"{name}={text(part)}" for name, part in found.items()]
        if found in (None, []):
            return "none" if row["field"] else ""
        return text(found)

    return Column(key.capitalize(), value)


CHANGES = [
    Column("Kind", lambda row: row["kind"]),
    Column("Name", lambda row: row["name"]),
    Column("Field", lambda row: row["field"]),
    _value("before"),
    _value("after"),
]

file_option = click.option(
    "-f",
    "--file",
    required=True,
    help="YAML or JSON with pools, teams, priority_classes; - reads standard input.",
)


@click.command()
@file_option
@click.option("--check", is_flag=True, help="Exit with status 1 where something differs.")
@output_option
def diff(file: str, check: bool, form: Form) -> None:
    """Show what `chamber apply` would change, and change nothing."""
    wanted = declared.read(file)
    with connect() as client:
        plan, _ = _plan(client, wanted)
    show(plan.changes, form, CHANGES, name="name", empty="Nothing differs.")
    if check and plan.changes:
        sys.exit(Exit.FAILED)


@click.command()
@file_option
@output_option
def apply(file: str, form: Form) -> None:
    """Make pools, teams and the table of PriorityClasses as a file says, and show what was changed.

    What the file does not name stays as it is; nothing is taken away but PriorityClasses that are null. Limits and
    shares are saved as one change, or none. Teams and pools that are made, and teams that are moved, are so before
    that, one by one.
    """
    wanted = declared.read(file)
    with connect() as client:
        plan, now = _plan(client, wanted)
        done: list[str] = []
        try:
            _carry_out(client, plan, now, done)
        except Failure as failure:
            hint = f"Done before that: {', '.join(done)}."
            raise (failure.with_hint(hint) if done else failure) from failure
    show(plan.changes, form, CHANGES, name="name", empty="Nothing differs.")


@dataclass(frozen=True, slots=True)
class Present:
    """Pools and teams as they are, by slug, and the rules of the root, by which its PriorityClasses have priorities."""

    pools: dict[str, Json]
    teams: dict[str, Json]
    root: str = ""
    rules: Json = field(default_factory=dict)


def _plan(client: Client, wanted: declared.Declared) -> tuple[Plan, Present]:
    """Return what is to be done, and what there is."""
    pools = {pool["slug"]: pool for pool in client.rows("pools/")}
    teams = {team["slug"]: team for team in client.rows("teams/")}
    now = Present(pools, teams)
    if wanted.priority_classes:
        root = next((slug for slug, team in teams.items() if team["parent"] is None), None)
        if root is None:
            raise Failure(
                "Only who sees the whole organisation may declare priority_classes.", Exit.NOT_FOUND
            )
        now = Present(pools, teams, root, client.get(f"teams/{segment(root)}/rules/"))
    classes = now.rules["own"]["priority_classes"] if now.root else None
    return declared.compare(wanted, pools=pools, teams=teams, classes=classes), now


def _carry_out(client: Client, plan: Plan, now: Present, done: list[str]) -> None:
    """Do it, each part on the version that was read; add to `done` what was done."""
    pools, teams = now.pools, now.teams
    for body in plan.new_pools:
        client.post("pools/", body)
        done.append(f"pool {body['slug']} made")
    for slug, body in plan.pools.items():
        client.edit("PATCH", f"pools/{segment(slug)}/", body, version=pools[slug]["version"])
        done.append(f"pool {slug} changed")
    for body in plan.new_teams:
        teams[body["slug"]] = client.post("teams/", body)
        done.append(f"team {body['slug']} made")
    for slug, parent in plan.moves.items():
        version = teams[slug]["version"]
        teams[slug] = client.edit("POST", f"teams/{segment(slug)}/move/", {"parent": parent}, version=version)
        done.append(f"team {slug} moved")
    if plan.edits:
        client.post("team-edits/", {"edits": [_edit(teams[slug], edit) for slug, edit in plan.edits.items()]})
        done.append("limits and shares saved")
    if plan.priority_classes is not None:
        body = now.rules["own"] | {"priority_classes": plan.priority_classes}
        client.edit("PUT", f"teams/{segment(now.root)}/rules/", body, version=now.rules["version"])
        done.append("priority classes saved")


def _edit(team: Json, edit: Json) -> Json:
    """Return an edit as the API takes it, with the versions on which it was made."""
    versions = {share["pool"]: share["version"] for share in team["pools"]}
    shares = [
        {"pool": pool, "version": versions.get(pool, NEW_SHARE["version"]), **share}
        for pool, share in edit["shares"].items()
    ]
    return {**edit, "team": team["slug"], "version": team["version"], "shares": shares}
