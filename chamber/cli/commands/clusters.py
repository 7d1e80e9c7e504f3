"""`chamber clusters list, bind, unbind`."""

import click

from chamber.cli.client import connect, segment
from chamber.cli.columns import slices
from chamber.cli.output import Column, OutputFormat, Row, ago, output_option, show


def _agent(cluster: Row) -> str:
    if cluster["connected"]:
        return "connected"
    return "released" if cluster.get("released_at") else "not connected"


COLUMNS = [
    Column("Cluster", lambda cluster: cluster["name"]),
    Column("Agent", _agent),
    Column("Last heard", lambda cluster: ago(cluster["last_seen_at"]) or "never"),
    Column("Nodes", lambda cluster: cluster["nodes"], number=True),
    Column("GPUs", lambda cluster: cluster["gpus"], number=True),
    Column("Slices", slices, number=True),
    Column("Pools", lambda cluster: ", ".join(cluster["pools"]) or "none"),
    Column("Version", lambda cluster: cluster["agent_version"], wide=True),
    Column("Warning", lambda cluster: cluster["warning"], wide=True),
]


@click.group()
def clusters() -> None:
    """Show clusters, and bind them to the pools that they may serve."""


@clusters.command("list")
@output_option
def list_(form: OutputFormat) -> None:
    """Show the clusters with the pools that each may serve."""
    with connect() as client:
        found = list(client.rows("clusters/"))
    show(found, form, COLUMNS, name="name", empty="There are no clusters that you may see.")
    if form in {OutputFormat.TABLE, OutputFormat.WIDE}:
        for cluster in found:
            if cluster["warning"]:
                click.echo(f"Warning: {cluster['warning']}", err=True)


@clusters.command()
@click.argument("name", metavar="CLUSTER")
@click.argument("pools", metavar="POOL...", nargs=-1, required=True)
def bind(name: str, pools: tuple[str, ...]) -> None:
    """Let a cluster serve pools, besides those that it serves already.

    Which of its nodes a pool picks goes by the pool's selector; without this it picks none, whatever their labels.
    """
    with connect() as client:
        for pool in pools:
            client.put(f"clusters/{segment(name)}/pools/{segment(pool)}/")
            click.echo(f"{name} may serve {pool}.")


@clusters.command()
@click.argument("name", metavar="CLUSTER")
@click.argument("pools", metavar="POOL...", nargs=-1, required=True)
def unbind(name: str, pools: tuple[str, ...]) -> None:
    """Have a cluster no longer serve pools: nothing new of them starts there, what runs there goes on."""
    with connect() as client:
        for pool in pools:
            client.delete(f"clusters/{segment(name)}/pools/{segment(pool)}/")
            click.echo(f"{name} no longer serves {pool}.")
