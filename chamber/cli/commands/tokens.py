"""`chamber token create, list, revoke`."""

from uuid import UUID

import click

from chamber.cli.client import connect, segment
from chamber.cli.output import Column, OutputFormat, ago, output_option, show, show_one
from chamber.cli.scopes import SCOPES
from chamber.cli.status import Exit, Failure

COLUMNS = [
    Column("Name", lambda token: token["name"]),
    Column("Scope", lambda token: token["scope"]),
    Column("Starts with", lambda token: token["prefix"]),
    Column("Team", lambda token: token.get("team") or "all"),
    Column("Last used", lambda token: ago(token["last_used_at"]) or "never"),
    Column("From", lambda token: token.get("last_address") or "", wide=True),
    Column("Expires", lambda token: ago(token["expires_at"]) or "never"),
    Column("Id", lambda token: token["id"]),
]


@click.group()
def token() -> None:
    """Create, list and revoke API tokens."""


@token.command()
@click.argument("name")
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default="submit",
    show_default=True,
    help="What it may be used for.",
)
@click.option(
    "--days", type=click.IntRange(1, 365), default=30, show_default=True, help="How long it is valid."
)
@click.option("--team", help="Reach only this team and the teams below it.")
@output_option
def create(name: str, scope: str, days: int, team: str | None, form: OutputFormat) -> None:
    """Create a token and print it, this once.

    With -o table or name only the token itself is printed, so that it can be caught by a script.
    """
    with connect() as client:
        body = {"name": name, "scope": scope, "expires_in_days": days} | ({"team": team} if team else {})
        made = client.post("tokens/", body)
    if form in {OutputFormat.TABLE, OutputFormat.NAME}:
        click.echo(made["token"])
        return
    show_one(made, form, [*COLUMNS, Column("Token", lambda row: row["token"])])


@token.command("list")
@output_option
def list_(form: OutputFormat) -> None:
    """List your tokens."""
    with connect() as client:
        show(client.rows("tokens/"), form, COLUMNS, name="id", empty="You have no tokens.")


@token.command()
@click.argument("token_id", metavar="ID")
def revoke(token_id: str) -> None:
    """Revoke one of your tokens by its id."""
    try:
        UUID(token_id)
    except ValueError:
        text = f"You have no token {token_id!r}: give an id of `chamber token list`."
        raise Failure(text, Exit.NOT_FOUND) from None
    with connect() as client:
        client.delete(f"tokens/{segment(token_id)}/")
    click.echo(f"Revoked {token_id}.")
