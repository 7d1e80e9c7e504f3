"""`chamber service-accounts list, show, create, edit, disable, enable, tokens, create-token, rotate, revoke`."""

from uuid import UUID

import click

from chamber.cli.client import connect, segment
from chamber.cli.output import Column, OutputFormat, ago, output_option, show, show_one
from chamber.cli.scopes import SCOPES
from chamber.cli.status import Exit, Failure
from chamber.words import count

LIMIT = click.IntRange(0, 10_000_000)
ROLES = ["viewer", "researcher", "lead", "admin", "org-admin", "operator", "auditor"]

ACCOUNTS = [
    Column("Name", lambda row: row["name"]),
    Column("Team", lambda row: row["team"]),
    Column("State", lambda row: row["state"]),
    Column("Roles", lambda row: [f"{given['role']} of {given['team']}" for given in row["roles"]] or "none"),
    Column("Tokens", lambda row: row["tokens"], number=True),
    Column("Last used", lambda row: ago(row["last_used_at"]) or "never"),
    Column("From", lambda row: row["last_address"] or ""),
    Column("Description", lambda row: row["description"], wide=True),
    Column(
        "Limits of its own",
        lambda row: [f"{name} {value}" for name, value in row["limits"].items()] or "none",
        wide=True,
    ),
]
TOKENS = [
    Column("Name", lambda token: token["name"]),
    Column("Scope", lambda token: token["scope"]),
    Column("Team", lambda token: token["team"] or "all"),
    Column("Starts with", lambda token: token["prefix"]),
    Column("Made by", lambda token: token["made_by"] or ""),
    Column("Last used", lambda token: ago(token["last_used_at"]) or "never"),
    Column("From", lambda token: token["last_address"] or ""),
    Column("Expires", lambda token: ago(token["expires_at"])),
    Column("Id", lambda token: token["id"]),
]


@click.group("service-accounts")
def service_accounts() -> None:
    """Make what programs sign in as, and their tokens."""


@service_accounts.command("list")
@output_option
def list_(form: OutputFormat) -> None:
    """List the service accounts of teams where you give roles."""
    with connect() as client:
        rows = list(client.rows("service-accounts/"))
    show(rows, form, ACCOUNTS, name="name", empty="There are no service accounts.")


@service_accounts.command("show")
@click.argument("name")
@output_option
def show_(name: str, form: OutputFormat) -> None:
    """Show one."""
    with connect() as client:
        show_one(client.get(_of(name)), form, ACCOUNTS, name="name")


@service_accounts.command()
@click.argument("name")
@click.option("--team", required=True, help="The team that owns it.")
@click.option("--role", type=click.Choice(ROLES), help="Its role on that team.")
@click.option("--description", default="", help="What uses it, and where its token lies.")
@output_option
def create(name: str, team: str, role: str | None, description: str, form: OutputFormat) -> None:
    """Make one that a team owns. Give it further roles as a member named service:NAME."""
    body = {"name": name, "team": team, "role": role, "description": description}
    with connect() as client:
        show_one(client.post("service-accounts/", body), form, ACCOUNTS, name="name")


@service_accounts.command()
@click.argument("name")
@click.option("--team", help="Another team to own it.")
@click.option("--description", help="What uses it, and where its token lies.")
@click.option("--requests-per-minute", type=LIMIT, metavar="N", help="A limit of its own, of all its tokens.")
@click.option("--submissions-per-hour", type=LIMIT, metavar="N", help="A limit of its own.")
@click.option("--open-workloads", type=LIMIT, metavar="N", help="A limit of its own.")
@click.option("--streams", type=LIMIT, metavar="N", help="A limit of its own.")
@output_option
def edit(
    name: str, team: str | None, description: str | None, *, form: OutputFormat, **limits: int | None
) -> None:
    """Give it to another team, another description, or limits of its own; a limit of 0 is everybody's again.

    Limits are set by organisation admins.
    """
    told: dict[str, object] = {"team": team, "description": description}
    body = {key: value for key, value in told.items() if value is not None}
    if own := {key: value or None for key, value in limits.items() if value is not None}:
        body["limits"] = own
    if not body:
        raise click.UsageError("Say what to change, such as --team or --description.")
    with connect() as client:
        show_one(client.patch(_of(name), body), form, ACCOUNTS, name="name")


@service_accounts.command()
@click.argument("name")
@click.option("--cancel", "leaving", flag_value="cancel", help="Cancel its open workloads.")
@click.option("--hand-over-to", "heir", metavar="PERSON", help="Make PERSON the owner of its open workloads.")
def disable(name: str, leaving: str | None, heir: str | None) -> None:
    """Revoke its tokens; what uses them is refused within seconds.

    Its open workloads stay as they are unless said otherwise.
    """
    if leaving and heir:
        raise click.UsageError("--cancel and --hand-over-to contradict each other.")
    body = {"workloads": "hand-over" if heir else leaving or "leave", "to": heir}
    with connect() as client:
        ended = client.post(_of(name, "disable"), body)
    done = {"hand-over": f"handed over to {heir}", "cancel": "cancelled", "leave": "left as they are"}
    click.echo(
        f"{name} is disabled. Tokens revoked: {ended['tokens']}; "
        f"open workloads {done[str(body['workloads'])]}: {ended['workloads']}."
    )


@service_accounts.command()
@click.argument("name")
def enable(name: str) -> None:
    """Let it have tokens again."""
    with connect() as client:
        client.post(_of(name, "enable"), {})
    click.echo(f"{name} is enabled; make it a new token.")


@service_accounts.command()
@click.argument("name")
@output_option
def tokens(name: str, form: OutputFormat) -> None:
    """List its valid tokens."""
    with connect() as client:
        rows = list(client.rows(_of(name, "tokens")))
    show(rows, form, TOKENS, name="id", empty=f"{name} has no valid tokens.")


@service_accounts.command("create-token")
@click.argument("name")
@click.argument("token", metavar="TOKEN")
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default="submit",
    show_default=True,
    help="What it may be used for.",
)
@click.option("--team", help="Reach only this team and the teams below it.")
@click.option(
    "--days", type=click.IntRange(1, 365), default=90, show_default=True, help="How long it is valid."
)
@output_option
def create_token(  # noqa: PLR0917 - an option each
    name: str, token: str, scope: str, team: str | None, days: int, form: OutputFormat
) -> None:
    """Make a token of NAME, called TOKEN, and print it, this once.

    It expires with your own token at the latest. With -o table or name only the token itself is printed.
    """
    body = {"name": token, "scope": scope, "team": team, "expires_in_days": days}
    with connect() as client:
        made = client.post(_of(name, "tokens"), body)
    _print_once(made, form)


@service_accounts.command()
@click.argument("name")
@click.argument("token_id", metavar="ID")
@click.option(
    "--overlap",
    type=click.IntRange(0, 7 * 24 * 60),
    default=60,
    show_default=True,
    metavar="MINUTES",
    help="How long the old one goes on.",
)
@output_option
def rotate(name: str, token_id: str, overlap: int, form: OutputFormat) -> None:
    """Make a token in place of the one with this id, and print it, this once."""
    path = f"{_of(name, 'tokens')}{segment(_id(name, token_id))}/rotate/"
    with connect() as client:
        made = client.post(path, {"overlap_minutes": overlap})
    _print_once(made, form)
    click.echo(f"The old token goes on for {count(overlap, 'minute')}.", err=True)


@service_accounts.command()
@click.argument("name")
@click.argument("token_id", metavar="ID")
def revoke(name: str, token_id: str) -> None:
    """Revoke the token with this id."""
    with connect() as client:
        client.delete(f"{_of(name, 'tokens')}{segment(_id(name, token_id))}/")
    click.echo(f"Revoked {token_id}.")


def _of(name: str, act: str = "") -> str:
    return f"service-accounts/{segment(name)}/" + (f"{act}/" if act else "")


def _id(name: str, text: str) -> str:
    try:
        UUID(text)
    except ValueError:
        hint = f"give an id of `chamber service-accounts tokens {name}`"
        raise Failure(f"{name} has no token {text!r}: {hint}.", Exit.NOT_FOUND) from None
    return text


def _print_once(made: dict[str, object], form: OutputFormat) -> None:
    if form in {OutputFormat.TABLE, OutputFormat.NAME}:
        click.echo(made["token"])
        return
    show_one(made, form, [*TOKENS, Column("Token", lambda row: row["token"])])
