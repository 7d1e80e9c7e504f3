"""`chamber version`: of this command line, of the server, and of the clusters' agents."""

import click

from chamber import __version__
from chamber.cli.client import connect
from chamber.cli.output import Column, Form, output_option, show_one
from chamber.cli.status import Exit, Failure

VERSIONS = [
    Column("Command line", lambda row: row["client"]),
    Column("Server", lambda row: row["server"]),
    Column("At", lambda row: row["url"]),
    Column("Protocol", lambda row: row["protocol"]),
    Column("Agents", lambda row: [f"{name} {of}" for name, of in row["agents"].items()]),
]
NOBODY: dict[str, object] = {"server": None, "url": None, "protocol": None, "agents": {}}


@click.command()
@click.option("--client", "only_client", is_flag=True, help="Ask no server.")
@output_option
def version(form: Form, only_client: bool) -> None:
    """Show the versions of this command line, of the server, and of the agents that have connected.

    Without a sign-in it is the command line's own.
    """
    row = {"client": __version__, **(NOBODY if only_client else _asked())}
    show_one(row, form, VERSIONS, name="client")


def _asked() -> dict[str, object]:
    try:
        with connect() as client:
            served = client.get("version/")
            agents = {row["name"]: row["agent_version"] for row in client.rows("clusters/")}
            return {
                "server": served["version"],
                "url": client.login.url,
                "protocol": served["protocol"],
                "agents": {name: of for name, of in agents.items() if of},
            }
    except Failure as failure:
        if failure.exit_code != Exit.NOT_ALLOWED:
            raise
        click.echo(failure.message, err=True)
        return NOBODY
