"""`chamber data list, show, create, update, delete, locate, unlocate`: what workloads mount by name."""

from typing import Any

import click

from chamber.cli.client import Client, Json, connect, segment
from chamber.cli.output import Column, OutputFormat, Row, output_option, show, show_one
from chamber.cli.status import Exit, Failure

KINDS = ("claim", "nfs", "s3")


def _what(row: Row) -> str:
    return row["address"] or (f"{row['server']}:{row['path']}" if row["server"] else "")


def _where(row: Row) -> list[str]:
    places = []
    for each in row["locations"]:
        claim = f"{each['namespace'] or 'own namespace'}/{each['claim']}" if each["claim"] else ""
        places.append(f"{each['cluster']} ({claim})" if claim else each["cluster"])
    return places


COLUMNS = [
    Column("Name", lambda row: row["reference"]),
    Column("Kind", lambda row: row["kind"]),
    Column("What", _what),
    Column("Clusters", lambda row: "all" if row["kind"] == "s3" else _where(row)),
    Column("To write", lambda row: "yes" if row["writable"] else None),
    Column("Credential", lambda row: row["credential"], wide=True),
    Column("Open workloads", lambda row: row["open_workloads"], number=True),
]

details_options = [
    click.option("--server", help="Of NFS: its host."),
    click.option("--path", help="Of NFS: what of the server."),
    click.option("--address", metavar="s3://BUCKET/PREFIX", help="Of S3."),
    click.option("--writable/--read-only", default=None, help="Whether workloads may mount it to write."),
]


def _details(command: Any) -> Any:
    for option in reversed(details_options):
        command = option(command)
    return command


@click.group()
def data() -> None:
    """Keep what workloads mount by name, for a team and those below: TEAM/NAME."""


@data.command("list")
@output_option
def list_(form: OutputFormat) -> None:
    """List the data sources that you may see."""
    with connect() as client:
        rows = list(client.rows("data-sources/"))
    show(rows, form, COLUMNS, name="reference", empty="There are no data sources.")


@data.command("show")
@click.argument("name")
@output_option
def show_(name: str, form: OutputFormat) -> None:
    """Show one (TEAM/NAME) with the clusters that have it."""
    with connect() as client:
        show_one(client.get(_of(name)), form, COLUMNS, name="reference")


@data.command()
@click.argument("name")
@click.option("--kind", type=click.Choice(KINDS), required=True, help="What it is.")
@_details
@click.option(
    "--credential", metavar="TEAM/NAME", help="Of S3: credential of the type s3 by which pods reach it."
)
@output_option
def create(name: str, form: OutputFormat, **values: Any) -> None:
    """Make one of a team (TEAM/NAME); then say which clusters have it.

    \b
        chamber data create nlp/imagenet --kind claim
        chamber data locate nlp/imagenet --cluster east --claim imagenet
    """
    team, own = _parts(name)
    with connect() as client:
        made = client.post("data-sources/", {"name": own, "team": team, **_said(values)})
        show_one(made, form, COLUMNS, name="reference")


@data.command()
@click.argument("name")
@_details
@output_option
def update(name: str, form: OutputFormat, **values: Any) -> None:
    """Change it. What runs keeps what it was started with."""
    with connect() as client:
        show_one(client.patch(_of(name), _said(values)), form, COLUMNS, name="reference")


@data.command()
@click.argument("name")
def delete(name: str) -> None:
    """Delete it; only where no open workload mounts it."""
    with connect() as client:
        client.delete(_of(name))
    click.echo(f"Deleted {name}.")


@data.command()
@click.argument("name")
@click.option("--cluster", required=True, help="Which has it.")
@click.option("--namespace", help="Of a claim: for pods of this namespace; else of the agent's own.")
@click.option("--claim", help="Of a claim: its name there.")
@output_option
def locate(name: str, form: OutputFormat, **values: Any) -> None:
    """Say that a cluster has it (operators)."""
    with connect() as client:
        show_one(client.post(f"{_of(name)}locations/", _said(values)), form, COLUMNS, name="reference")


@data.command()
@click.argument("name")
@click.option("--cluster", required=True, help="Which has it no more.")
@click.option(
    "--namespace", default="", help="Of a claim: for pods of this namespace; else of the agent's own."
)
def unlocate(name: str, cluster: str, namespace: str) -> None:
    """Say that a cluster has it no more (operators). What runs there keeps it."""
    with connect() as client:
        client.delete(f"{_of(name)}locations/{_location(client, name, cluster, namespace)}/")
    click.echo(f"{cluster} has {name} no more.")


def _location(client: Client, name: str, cluster: str, namespace: str) -> str:
    places = client.get(_of(name))["locations"]
    for each in places:
        if (each["cluster"], each["namespace"]) == (cluster, namespace):
            return str(each["id"])
    known = ", ".join(sorted({each["cluster"] for each in places})) or "none"
    raise Failure(f"{cluster} has no {name}; clusters that have it: {known}.", Exit.NOT_FOUND)


def _said(values: dict[str, Any]) -> Json:
    return {key: value for key, value in values.items() if value is not None}


def _parts(name: str) -> tuple[str, str]:
    team, slash, own = name.partition("/")
    if not slash or not team or not own:
        raise click.UsageError(f"{name!r} is no data source; name it TEAM/NAME.")
    return team, own


def _of(name: str) -> str:
    team, own = _parts(name)
    return f"teams/{segment(team)}/data-sources/{segment(own)}/"
