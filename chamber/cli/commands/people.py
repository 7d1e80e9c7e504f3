"""`chamber people list, show, add, role, disable, enable, reset, sessions, factors, providers, export`."""

from itertools import chain
from pathlib import Path
from typing import Any

import click

from chamber.cli.client import connect, segment
from chamber.cli.output import Column, OutputFormat, ago, output_option, show, show_one
from chamber.cli.status import Exit, Failure
from chamber.people.csv_rows import COLUMNS, CsvPerson, UnreadableList, decoded, people_of

ROLES = ["viewer", "researcher", "lead", "admin", "org-admin", "operator", "auditor"]
EXPORT_ENDS = '"complete": true}\n'

PEOPLE = [
    Column("User", lambda row: row["username"]),
    Column("Name", lambda row: row["name"]),
    Column("Email", lambda row: row["email"]),
    Column("State", lambda row: row["state"]),
    Column("Last sign-in", lambda row: ago(row["last_sign_in"]) or "never"),
    Column("Roles", lambda row: [f"{given['role']} of {given['team']}" for given in row["roles"]] or "none"),
]
PERSON = [
    *PEOPLE,
    Column("Second factor", lambda row: {True: "yes", False: "none"}.get(row["second_factor"], "")),
]
FACTORS = [
    Column("Kind", lambda row: row["kind"]),
    Column("Name", lambda row: row["name"]),
    Column("Added", lambda row: ago(row["added_at"])),
    Column("Last used", lambda row: ago(row["last_used_at"]) or "never"),
    Column("Left", lambda row: "" if row["codes_left"] is None else row["codes_left"], number=True),
]
ACCOUNTS = [
    Column("Provider", lambda row: row["provider"]),
    Column("Subject", lambda row: row["subject"]),
    Column("Groups", lambda row: row["groups"] or "none"),
    Column("Last sign-in", lambda row: ago(row["last_sign_in"])),
]
LINKS = [
    Column("User", lambda row: row["username"]),
    Column("Mailed to", lambda row: row["mailed_to"] or "nobody"),
    Column("Link", lambda row: row["url"] or ("(mailed)" if row["mailed_to"] else "(could not be mailed)")),
    Column("Good until", lambda row: ago(row["expires_at"])),
]
SESSIONS = [
    Column("Id", lambda row: row["id"], number=True),
    Column("Address", lambda row: row["address"]),
    Column("Browser", lambda row: row["agent"]),
    Column("Last seen", lambda row: ago(row["last_seen_at"])),
    Column("Began", lambda row: ago(row["created_at"])),
]


@click.group()
def people() -> None:
    """Let people in, and put them out."""


@people.command("list")
@click.argument("text", required=False)
@click.option("--state", type=click.Choice(["active", "invited", "disabled"]), help="Only who is so.")
@click.option("--without-factor", is_flag=True, help="Only who has no second factor.")
@output_option
def list_(text: str | None, state: str | None, without_factor: bool, form: OutputFormat) -> None:
    """List people whom you may see; TEXT stands in a name or the address."""
    asked = {name: value for name, value in (("search", text), ("state", state)) if value}
    if without_factor:
        asked["second_factor"] = "false"
    with connect() as client:
        show(list(client.rows("people/", asked)), form, PEOPLE, name="username", empty="There is nobody.")


@people.command("show")
@click.argument("username")
@output_option
def show_(username: str, form: OutputFormat) -> None:
    """Show one person."""
    with connect() as client:
        show_one(client.get(_of(username)), form, PERSON, name="username")


@people.command()
@click.argument("username", required=False)
@click.option("--name", default="", help="As others see it.")
@click.option("--email", default="", help="The address; where the server sends mail, the link goes there.")
@click.option("--team", help="A team to give a role on.")
@click.option("--role", type=click.Choice(ROLES), help="The role on it.")
@click.option(
    "--mail/--no-mail", default=None, help="Mail the link, or print it.  [default: mail where possible]"
)
@click.option(
    "--from-csv",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=f"Add everybody of a file with the columns {', '.join(COLUMNS)}.",
)
@output_option
def add(  # noqa: PLR0917 - an option each
    username: str | None,
    name: str,
    email: str,
    team: str | None,
    role: str | None,
    mail: bool | None,
    file: Path | None,
    form: OutputFormat,
) -> None:
    """Make an account, and a link by which its person sets a password: mailed, or printed this once.

    From a file, those who are refused are named with their lines, the others are added.
    """
    if (username is None) == (file is None):
        raise click.UsageError("Give a user name, or --from-csv.")
    one = {"username": username, "name": name, "email": email, "team": team, "role": role}
    asked = (
        [CsvPerson(0, {key: value for key, value in one.items() if value})] if file is None else _read(file)
    )
    made, refused = [], []
    with connect() as client:
        for person in asked:
            try:
                if person.fault:
                    raise Failure(person.fault, Exit.REJECTED)
                made.append(client.post("people/", {**person.values, "mail": mail}))
            except Failure as failure:
                if file is None:
                    raise
                refused.append(
                    f"Line {person.line}, {person.username or 'without a user name'}: {failure.message}"
                )
    _show_links(made, form, name="username", empty="Nobody was added.")
    if refused:
        raise Failure("\n".join(refused), Exit.REJECTED)


@people.command()
@click.argument("username")
@click.argument("team")
@click.argument("role", type=click.Choice(ROLES))
@click.option("--remove", "takes", is_flag=True, help="Take the role away.")
def role(username: str, team: str, role: str, takes: bool) -> None:
    """Give somebody ROLE on TEAM and all below it, or take it away.

    A role that is somebody's by a group or by a team above is taken there.
    """
    members = f"teams/{segment(team)}/members/"
    with connect() as client:
        if not takes:
            client.post(members, {"who": username, "role": role})
            click.echo(f"{username} is {role} of {team}.")
            return
        rows = [row for row in client.rows(members) if row["role"] == role]
        own = [row for row in rows if row["username"] == username and not row["inherited"]]
        if not own:
            raise Failure(_not_own(username, team, role, rows), Exit.NOT_FOUND)
        client.delete(f"{members}{own[0]['id']}/")
    click.echo(f"{username} is no longer {role} of {team}.")


@people.command()
@click.argument("username")
@click.option("--cancel", "leaving", flag_value="cancel", help="Cancel their open workloads.")
@click.option(
    "--hand-over-to", "heir", metavar="PERSON", help="Make PERSON the owner of their open workloads."
)
def disable(username: str, leaving: str | None, heir: str | None) -> None:
    """End somebody's sessions, tokens and streams, and keep them from signing in.

    Their open workloads stay as they are unless said otherwise.
    """
    if leaving and heir:
        raise click.UsageError("--cancel and --hand-over-to contradict each other.")
    body = {"workloads": "hand-over" if heir else leaving or "leave", "to": heir}
    with connect() as client:
        ended = client.post(_of(username, "disable"), body)
    done = {"hand-over": f"handed over to {heir}", "cancel": "cancelled", "leave": "left as they are"}
    click.echo(
        f"{username} is disabled. Sessions ended: {ended['sessions']}; tokens: {ended['tokens']}; "
        f"open workloads {done[str(body['workloads'])]}: {ended['workloads']}."
    )


@people.command()
@click.argument("username")
def enable(username: str) -> None:
    """Let somebody sign in again, without their old sessions and tokens."""
    with connect() as client:
        client.post(_of(username, "enable"), {})
    click.echo(f"{username} can sign in again.")


@people.command()
@click.argument("username")
@click.option(
    "--mail/--no-mail", default=None, help="Mail the link, or print it.  [default: mail where possible]"
)
@output_option
def reset(username: str, mail: bool | None, form: OutputFormat) -> None:
    """Make a link by which somebody sets a password; an older one ends."""
    with connect() as client:
        _show_links([client.post(_of(username, "link"), {"mail": mail})], form, name="url")


@people.command()
@click.argument("username")
@click.option("--end", "ended", type=int, metavar="ID", help="End this one.")
@click.option("--end-all", is_flag=True, help="End all of them.")
@output_option
def sessions(username: str, ended: int | None, end_all: bool, form: OutputFormat) -> None:
    """List the browsers in which somebody is signed in, or end sessions: yours, as an organisation admin anybody's."""
    with connect() as client:
        if end_all:
            client.delete(_of(username, "sessions"))
            click.echo(f"Every session of {username} is ended.")
        elif ended is not None:
            client.delete(f"{_of(username, 'sessions')}{ended}/")
            click.echo(f"Ended {ended}.")
        else:
            rows = list(client.rows(_of(username, "sessions")))
            show(rows, form, SESSIONS, name="id", empty=f"{username} is signed in nowhere.")


@people.command()
@click.argument("username")
@click.option("--reset", "resets", is_flag=True, help="Remove all of them, and end the person's sessions.")
@output_option
def factors(username: str, resets: bool, form: OutputFormat) -> None:
    """List somebody's second factors, or remove them for who lost theirs: be sure that it is them who asks."""
    with connect() as client:
        if resets:
            client.delete(_of(username, "factors"))
            click.echo(f"{username} has no second factor any more; all their sessions are ended.")
        else:
            rows = list(client.rows(_of(username, "factors")))
            show(rows, form, FACTORS, name="id", empty=f"{username} has no second factor.")


@people.command()
@click.argument("username")
@click.option("--unlink", metavar="PROVIDER", help="Have this provider vouch for them no more.")
@output_option
def providers(username: str, unlink: str | None, form: OutputFormat) -> None:
    """List by which identity providers somebody signs in, or unlink one."""
    with connect() as client:
        if unlink:
            client.delete(f"{_of(username, 'providers')}{segment(unlink)}/")
            click.echo(f"{username} does not sign in by {unlink} any more.")
        else:
            rows = list(client.rows(_of(username, "providers")))
            show(rows, form, ACCOUNTS, name="provider", empty=f"{username} signs in by no provider.")


@people.command()
@click.argument("username")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default="-")
def export(username: str, file: Path) -> None:
    """Write all that is kept about somebody to FILE (or stdout), as JSON: of you, as an organisation admin of anybody.

    No password, token or other secret is in it. The audit trail notes that it was asked for.
    """
    last = ""
    with connect() as client:
        parts = client.text(_of(username, "export"), method="POST")
        first = next(parts, "")  # what is refused leaves no file
        with click.open_file(str(file), "w", encoding="utf-8") as written:
            for part in chain([first], parts):
                written.write(part)
                last = (last + part)[-len(EXPORT_ENDS) :]
    if last != EXPORT_ENDS:
        raise Failure("The connection ended before all was sent: export it again.")


def _show_links(made: list[Any], form: OutputFormat, *, name: str, empty: str = "") -> None:
    """Show links; on stderr, to whom the server could mail none."""
    show(made, form, LINKS, name=name, empty=empty)
    for row in made:
        if row.get("not_mailed_to"):
            hand = "hand the link over" if row["url"] else "an organisation admin can hand one over"
            click.echo(
                f"The mail to {row['not_mailed_to']} could not be sent: {hand}. The server's log says why.",
                err=True,
            )


def _not_own(username: str, team: str, role: str, rows: list[Any]) -> str:
    """Return why a role of a team cannot be taken from somebody there; `rows` are those who have the role on it."""
    above = next((row["team"] for row in rows if row["username"] == username), "")
    if above:
        return f"{username} is {role} of {team} by the team {above} above it: take it there."
    groups = sorted({row["group"] for row in rows if row["group"]})
    by_group = f" Whoever has it by a group leaves the group: {', '.join(groups)}." if groups else ""
    return f"{username} is not {role} of {team}.{by_group}"


def _of(username: str, act: str = "") -> str:
    return f"people/{segment(username)}/" + (f"{act}/" if act else "")


def _read(file: Path) -> list[CsvPerson]:
    """Return the people of a file, each with its line; refuse what is no such list before anybody is added."""
    try:
        return people_of(decoded(file.read_bytes()))
    except UnreadableList as error:
        raise Failure(f"{file}: {error}", Exit.USAGE) from error
