"""`chamber diff` and `chamber apply`: pools, teams, tiers, job classes and sign-in as a file declares them."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import click

from chamber.cli import declared
from chamber.cli.client import Client, Json, connect, segment
from chamber.cli.declared import NEW_CLASS, NEW_SHARE, NEW_TEAM, ApplyPlan
from chamber.cli.manifests import File
from chamber.cli.output import Column, OutputFormat, Row, output_option, show, text
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
    help="YAML or JSON with pools, teams, tiers, job_classes, sign_in; - reads standard input.",
)


@click.command()
@file_option
@click.option("--check", is_flag=True, help="Exit with status 1 where something differs.")
@output_option
def diff(file: str, check: bool, form: OutputFormat) -> None:
    """Show what `chamber apply` would change, and change nothing.

    What `chamber apply` would refuse is refused, by the same checks, with the line of each mistake and a status that is
    not 0. Nodes that another pool would pick are counted. To read is enough: values that can be in no pool and no team
    are refused whoever asks. A change that you may not make is shown, and said, but not checked against what teams
    above have to give or what the pool's nodes have; whoever may make it learns that.
    """
    wanted = declared.read(file)
    with wanted.file.told_at_least(), connect() as client:
        plan, now = _plan(client, wanted)
        _send(client, wanted.file, plan, now, dry_run=True)
    show(plan.changes, form, CHANGES, name="name", empty="Nothing differs.")
    if check and plan.changes:
        sys.exit(Exit.FAILED)


@click.command()
@file_option
@output_option
def apply(file: str, form: OutputFormat) -> None:
    """Make pools, teams, tiers, job classes and sign-in as a file says, and show what was changed.

    What the file does not name stays as it is; nothing is taken away. All is changed, or nothing.
    """
    wanted = declared.read(file)
    with wanted.file.told_at_least(), connect() as client:
        plan, now = _plan(client, wanted)
        _send(client, wanted.file, plan, now, dry_run=False)
    show(plan.changes, form, CHANGES, name="name", empty="Nothing differs.")


@dataclass(frozen=True, slots=True)
class Present:
    """Pools, teams, tiers and job classes as they are, by slug; sign-in."""

    pools: dict[str, Json]
    teams: dict[str, Json]
    tiers: dict[str, Json] = field(default_factory=dict)
    classes: dict[str, Json] = field(default_factory=dict)
    sign_in: Json = field(default_factory=dict)


def _plan(client: Client, wanted: declared.DeclaredFile) -> tuple[ApplyPlan, Present]:
    """Return what is to be done, and what there is."""
    pools = {pool["slug"]: pool for pool in client.rows("pools/")}
    teams = {team["slug"]: team for team in client.rows("teams/")}
    now = Present(pools, teams)
    if wanted.tiers:
        now = replace(now, tiers={tier["slug"]: tier for tier in client.rows("tiers/")})
    if wanted.job_classes:
        now = replace(now, classes={row["slug"]: row for row in client.rows("classes/")})
    if wanted.sign_in:
        now = replace(now, sign_in={**client.get("sign-in/"), "groups": _group_roles(client)})
    narrowed = {
        team["slug"]: _classes_of(client, team["slug"])
        for team in wanted.teams
        if team["job_classes"] and team["slug"] in teams
    }
    plan = declared.compare(
        wanted,
        pools=pools,
        teams=teams,
        tiers=now.tiers,
        classes=now.classes,
        narrowed=narrowed,
        sign_in=now.sign_in,
    )
    return plan, now


def _classes_of(client: Client, team: str) -> dict[str, Json]:
    """Return what holds of the job classes in a team, and what it says itself, by class."""
    return {row["slug"]: row for row in client.rows(f"teams/{segment(team)}/classes/")}


def _group_roles(client: Client) -> dict[tuple[str, str, str], str]:
    """Return the roles of providers' groups, by provider, group and team."""
    rows = client.rows("sign-in/groups/")
    return {(row["provider"], row["group"], row["team"]): row["role"] for row in rows}


def _send(client: Client, file: File, plan: ApplyPlan, now: Present, *, dry_run: bool) -> None:
    """Have the server make all changes, or only check them; add what nodes move, and say what the server warns of.

    Where the file names what is not there, the rest of it is only checked, so that all is told at once.
    """
    if not plan.changes and not plan.problems:
        return
    try:
        answer = client.post("declared/", _body(plan, now, dry_run=dry_run or bool(plan.problems)))
    except Failure as failure:
        fields = {**failure.fields, **plan.problems}
        _tell_rights(filter(None, [fields.pop("not_allowed", "")]))
        if not fields:
            raise
        status = Exit.USAGE if file.problems else Exit(failure.exit_code)
        raise file.failure(fields, status, http_status=failure.http_status) from failure
    if plan.problems:
        raise file.failure(plan.problems, Exit.USAGE if file.problems else Exit.NOT_FOUND)
    for move in answer["nodes"]:
        plan.note("nodes", f"{move['nodes']:,}", "pool", move["before"], move["after"])
    not_allowed = answer.get("not_allowed", [])
    if plan.picks_nodes and not answer["nodes"] and not not_allowed:
        click.echo("No node changes its pool.", err=True)
    for warning in answer["warnings"]:
        click.echo(f"Warning: {warning}", err=True)
    _tell_rights(not_allowed)


def _tell_rights(missing: Iterable[str]) -> None:
    for number, sentence in enumerate(missing):
        if number == 0:
            click.echo("Applying it needs rights that you do not have:", err=True)
        click.echo(f"  {sentence}", err=True)


def _body(plan: ApplyPlan, now: Present, *, dry_run: bool) -> Json:
    """Return a plan as the API takes it, with the versions that were read."""
    body: Json = {
        "dry_run": dry_run,
        "new_pools": plan.new_pools,
        "pools": [
            {**body, "pool": slug, "version": now.pools[slug]["version"]} for slug, body in plan.pools.items()
        ],
        "new_teams": plan.new_teams,
        "moves": [
            {"team": slug, "parent": parent, "version": now.teams[slug]["version"]}
            for slug, parent in plan.moves.items()
        ],
        "edits": [_edit(slug, now.teams.get(slug, NEW_TEAM), edit) for slug, edit in plan.edits.items()],
    }
    for kind, items, there in (
        ("tiers", plan.tiers, now.tiers),
        ("job_classes", plan.job_classes, now.classes),
    ):
        if items:
            body[kind] = [
                {"slug": slug, "version": there.get(slug, NEW_CLASS)["version"], **item}
                for slug, item in items.items()
            ]
    if plan.narrowings:
        body["narrowings"] = plan.narrowings
    if plan.sign_in is not None:
        body["sign_in"] = {**plan.sign_in, "version": now.sign_in["version"]}
    return body


def _edit(slug: str, team: Json, edit: Json) -> Json:
    """Return an edit as the API takes it, with the versions on which it was made."""
    versions = {share["pool"]: share["version"] for share in team["pools"]}
    shares = [
        {"pool": pool, "version": versions.get(pool, NEW_SHARE["version"]), **share}
        for pool, share in edit["shares"].items()
    ]
    return {**edit, "team": slug, "version": team["version"], "shares": shares}
