"""`chamber delete`: clusters, pools and teams that nothing hangs on any more."""

import click

from chamber.cli.client import connect, segment
from chamber.cli.status import Exit, Failure

PLACES = {"cluster": "clusters", "pool": "pools", "team": "teams"}


@click.command()
@click.argument("kind", type=click.Choice(list(PLACES)))
@click.argument("name")
@click.option("--yes", is_flag=True, help="Ask for no confirmation.")
def delete(kind: str, name: str, yes: bool) -> None:
    """Delete a cluster, a pool or a team that nothing hangs on any more.

    A cluster: its agent is gone, and the history has nothing that ran there. A pool: no nodes, guarantees, workloads or
    history. A team: no teams below it, and it never had a workload; else archive it.
    """
    if not yes:
        typed = click.prompt(f"Type the name of the {kind} to confirm", err=True)
        if typed != name:
            raise Failure(f"Nothing was deleted: {typed!r} is not {name!r}.", Exit.USAGE)
    with connect() as client:
        # Asked for first: deleting twice does no more than once, and a name that is none should be said.
        client.get(f"{PLACES[kind]}/{segment(name)}/")
        client.delete(f"{PLACES[kind]}/{segment(name)}/")
    click.echo(f"The {kind} {name} is deleted.")
