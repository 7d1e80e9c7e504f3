"""`chamber arrays`: workloads that were submitted as one, how they stand, and what is done to all of them."""

from typing import Any

import click

from chamber.cli.client import Client, Json, connect, segment
from chamber.cli.columns import WORKLOADS
from chamber.cli.output import Column, OutputFormat, Row, ago, output_option, show_one
from chamber.cli.some import limit_options, one_more, show_some
from chamber.cli.status import Failure

names_argument = click.argument("names", metavar="NAME...", nargs=-1, required=True)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
OPEN = ("pending", "queued", "starting", "running")


def _members(row: Row) -> str:
    """Return how many members are in which status, as far as some are."""
    return ", ".join(f"{n:,} {status}" for status, n in row["members"].items() if n) or "none kept"


ARRAYS = [
    Column("Name", lambda row: row["slug"]),
    Column("Members", lambda row: row["size"], number=True),
    Column("Ended", lambda row: f"{row['percent']} %", number=True),
    Column("Status of members", _members),
    Column("At once", lambda row: row["max_parallel"], number=True),
    Column("Team", lambda row: row["team"]),
    Column("Owner", lambda row: row["owner"]),
    Column("Submitted", lambda row: ago(row["submitted_at"])),
    Column("Ends", lambda row: row["ends_at"], wide=True),
    Column("Parameters", lambda row: row["parameters"], wide=True),
]
ARRAY = [Column(column.heading, column.value) for column in ARRAYS]


@click.group()
def arrays() -> None:
    """Show arrays, and cancel, hold, release or retry their members together."""


@arrays.command("list")
@click.option("--team", help="Of this team.")
@click.option("--owner", help="Of this user; me for your own.")
@limit_options
@output_option
def list_(limit: int | None, form: OutputFormat, **filters: Any) -> None:
    """List arrays, newest first."""
    params = {name: value for name, value in filters.items() if value}
    with connect() as client:
        rows = client.rows("arrays/", params, limit=one_more(limit))
        show_some(rows, form, ARRAYS, limit=limit, empty="There are no such arrays.")


@arrays.command()
@click.argument("name")
@output_option
def show(name: str, form: OutputFormat) -> None:
    """Show how the members of an array stand."""
    with connect() as client:
        show_one(client.get(f"arrays/{segment(name)}/"), form, ARRAY)


@arrays.command()
@click.argument("name")
@click.option(
    "--status", multiple=True, help="With this status, or open, ended, held; may come several times."
)
@limit_options
@output_option
def members(name: str, status: tuple[str, ...], limit: int | None, form: OutputFormat) -> None:
    """List members of an array."""
    with connect() as client:
        params: dict[str, str | int | list[str]] = {"array": name}
        if status:
            params["status"] = list(status)
        rows = client.rows("workloads/", params, limit=one_more(limit))
        show_some(rows, form, WORKLOADS, limit=limit, empty="There are no such members.")


@arrays.command()
@names_argument
@yes_option
def cancel(names: tuple[str, ...], yes: bool) -> None:
    """Cancel all members that have not ended."""
    _act(names, "cancel", yes=yes, of=OPEN)


@arrays.command()
@names_argument
@yes_option
def hold(names: tuple[str, ...], yes: bool) -> None:
    """Keep all members that wait from starting."""
    _act(names, "hold", yes=yes, of=("pending",))


@arrays.command()
@names_argument
def release(names: tuple[str, ...]) -> None:
    """Let all members that are held start again."""
    _act(names, "release", yes=True, of=("pending",))


@arrays.command()
@names_argument
@yes_option
def retry(names: tuple[str, ...], yes: bool) -> None:
    """Put all members that failed back into the queue."""
    _act(names, "retry", yes=yes, of=("failed",))


def _act(names: tuple[str, ...], act: str, *, yes: bool, of: tuple[str, ...]) -> None:
    """Do something to each array, after asking with how many members it is about; the first refusal does not keep the
    others from it.
    """
    refused: Failure | None = None
    with connect() as client:
        for name in names:
            try:
                if not yes and not _confirmed(client, name, act, of):
                    continue
                done: Json = client.post(f"arrays/{segment(name)}/{act}/")
            except Failure as failure:
                failure.show()
                refused = refused or failure
            else:
                click.echo(done["message"])
    if refused:
        raise SystemExit(refused.exit_code)


def _confirmed(client: Client, name: str, act: str, of: tuple[str, ...]) -> bool:
    array: Json = client.get(f"arrays/{segment(name)}/")
    about = sum(array["members"].get(status, 0) for status in of)
    running = array["members"].get("running", 0)
    more = f", of which {running:,} run" if act == "cancel" and running else ""
    return click.confirm(
        f"{act.capitalize()} {about:,} of {array['size']:,} members of {name}{more}?", err=True
    )
