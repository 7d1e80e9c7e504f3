"""`chamber version`: of this command line, of the server, and of the clusters' agents."""

from collections.abc import Mapping
from typing import Any

import click

from chamber import __version__
from chamber.cli.client import connect
from chamber.cli.output import Column, OutputFormat, output_option, show_one
from chamber.cli.status import Exit, Failure

VERSIONS = [
    Column("Command line", lambda row: row["client"]),
    Column("Server", lambda row: row["server"]),
    Column("At", lambda row: row["url"]),
    Column("Protocol", lambda row: row["protocol"]),
    Column("Agents", lambda row: [_agent(name, of, row) for name, of in row["agents"].items()]),
]
NOBODY: dict[str, object] = {"server": None, "url": None, "protocol": None, "agents": {}, "released": []}


@click.command()
@click.option("--client", "only_client", is_flag=True, help="Ask no server.")
@output_option
def version(form: OutputFormat, only_client: bool) -> None:
    """Show the versions of this command line, of the server, and of the agents that have connected.

    Without a sign-in it is the command line's own.
    """
    row = {"client": __version__, **(NOBODY if only_client else _asked())}
    show_one(row, form, VERSIONS, name="client")


def _asked() -> dict[str, object]:
    try:
        with connect() as client:
            served = client.get("version/")
            clusters = [row for row in client.rows("clusters/") if row["agent_version"]]
            return {
                "server": served["version"],
                "url": client.login.url,
                "protocol": served["protocol"],
                "agents": {row["name"]: row["agent_version"] for row in clusters},
                "released": [row["name"] for row in clusters if row.get("released_at")],
            }
    except Failure as failure:
        if failure.exit_code != Exit.NOT_ALLOWED:
            raise
        click.echo(failure.message, err=True)
        return NOBODY


def _agent(name: str, version: str, row: Mapping[str, Any]) -> str:
    """Return an agent with its version, and whether an operator let go of its cluster."""
    return f"{name} {version} (released)" if name in row["released"] else f"{name} {version}"
