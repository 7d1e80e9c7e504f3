"""`chamber top`: who holds GPUs, and what they make of them."""

import time
from datetime import UTC, datetime
from typing import Any

import click

from chamber.cli.client import Client, connect
from chamber.cli.columns import USE
from chamber.cli.output import Column, OutputFormat, Row, ago, local_time, output_option, show

EVERY_SECONDS = 10.0


def _of_now(column: Column) -> Column:
    """Return a column of a figure as one of a row that may have none."""

    def value(row: Row) -> object:
        return column.value(row["now"]) if row["now"] else None

    return Column(column.heading, value, wide=column.wide, number=column.number)


TOP = [
    Column("Workload", lambda row: row["workload"]),
    Column("Team", lambda row: row["team"]),
    Column("Owner", lambda row: row["owner"]),
    Column("Pool", lambda row: row["pool"], wide=True),
    Column("Status", lambda row: str(row["status"]).capitalize(), wide=True),
    Column("GPUs", lambda row: row["gpus"], number=True),
    *map(_of_now, USE),
    Column("Since", lambda row: ago(row["since"]).removesuffix(" ago"), wide=True),
]


@click.command()
@click.option("--team", help="Of this team and those below it.")
@click.option("--pool", help="In this pool.")
@click.option(
    "--sort",
    type=click.Choice(["gpus", "idle", "busy", "memory"]),
    default="gpus",
    show_default=True,
    help="What is most, first.",
)
@click.option("--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="At most so many.")
@click.option("--watch", "watches", is_flag=True, help="Show it again every 10 s, until Ctrl-C.")
@output_option
def top(watches: bool, form: OutputFormat, **asked: Any) -> None:
    """Show who holds GPUs, and what they make of them; nothing stands where nobody measures it."""
    params = {name: value for name, value in asked.items() if value is not None}
    with connect() as client:
        while True:
            rows = _rows(client, params)
            if watches and form in {OutputFormat.TABLE, OutputFormat.WIDE}:
                click.clear()
                click.echo(f"{local_time(datetime.now(UTC))}\n")
            show(rows, form, TOP, name="workload", empty="Nothing holds GPUs.")
            if not watches:
                return
            client.tell_silence(again=True)
            time.sleep(EVERY_SECONDS)


def _rows(client: Client, params: dict[str, Any]) -> list[Row]:
    rows: list[Row] = client.get("usage/", params)["results"]
    return rows
