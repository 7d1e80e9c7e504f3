"""`chamber list`, `get`, `why`, and what is done to workloads: `cancel`, `hold`, `release`, `requeue`."""

from collections.abc import Callable
from typing import Any

import click

from chamber.cli.client import connect, segment
from chamber.cli.columns import WORKLOAD, WORKLOADS
from chamber.cli.output import Column, OutputFormat, Row, gpus, output_option, show, show_one
from chamber.cli.some import limit_options, one_more, show_some
from chamber.cli.status import Failure

names_argument = click.argument("names", metavar="NAME...", nargs=-1, required=True)


@click.command("list")
@click.option("--team", help="Of this team and those below it.")
@click.option(
    "--status", multiple=True, help="With this status, or open, ended, held; may come several times."
)
@click.option("--owner", help="Of this user; me for your own.")
@click.option("--reserved", "class", flag_value="reserved", help="Only reserved work.")
@click.option("--elastic", "class", flag_value="elastic", help="Only elastic work.")
@click.option("--class", "job_class", help="Of this job class.")
@click.option("--pool", help="Admitted in this pool.")
@click.option("--search", help="With this in the name.")
@click.option("--within", type=click.Choice(["1h", "24h", "7d", "30d"]), help="Submitted within this time.")
@click.option("--sort", help="submitted, name or priority; with - descending.")
@limit_options
@output_option
def list_(limit: int | None, form: OutputFormat, **filters: Any) -> None:
    """List workloads, newest first."""
    params = {name: list(value) if name == "status" else value for name, value in filters.items() if value}
    with connect() as client:
        show_some(
            client.rows("workloads/", params, limit=one_more(limit)),
            form,
            WORKLOADS,
            limit=limit,
            empty="There are no such workloads.",
        )


@click.command()
@names_argument
@output_option
def get(names: tuple[str, ...], form: OutputFormat) -> None:
    """Show workloads by name; for one, -o json gives an object, for several a list."""
    with connect() as client:
        found = [client.get(f"workloads/{segment(name)}/") for name in names]
    if len(found) == 1:
        show_one(found[0], form, WORKLOAD)
    else:
        show(found, form, WORKLOADS)


def _reason(key: str) -> Callable[[Row], object]:
    return lambda found: found["reason"] and found["reason"][key]


def _message(found: Row) -> str:
    """Return the reason; of one without any, that it has ended or that nothing holds it up."""
    if found["reason"]:
        return str(found["reason"]["message"])
    is_open = found["status"] in {"pending", "queued", "starting", "running"}
    return "Nothing holds it up." if is_open else f"It has ended: {found['status'].capitalize()}."


WHY = [
    Column("Workload", lambda found: found["workload"]),
    Column("Status", lambda found: found["status"].capitalize()),
    Column("Reason", _message),
    Column("Code", _reason("code"), wide=True),
    Column("Set at", _reason("level")),
    Column("Asked for", lambda found: gpus(_reason("asked")(found))),
    Column("Available", lambda found: gpus(_reason("available")(found))),
    Column("Limit", lambda found: gpus(_reason("limit")(found))),
    Column("Next step", _reason("next_step")),
    Column("Position", lambda found: found["position"]),
    Column("Starts", lambda found: found["eta"] and found["eta"]["text"]),
]


@click.command()
@click.argument("name")
@output_option
def why(name: str, form: OutputFormat) -> None:
    """Say why a workload waits or how it ended, what can be done, and when it is expected to start."""
    with connect() as client:
        found = client.get(f"workloads/{segment(name)}/explain/")
    show_one(found, form, WHY, name="workload")


def _act(names: tuple[str, ...], action: str, done: str) -> None:
    """Do something to each workload; the first refusal does not keep the others from it."""
    refused: Failure | None = None
    with connect() as client:
        for name in names:
            try:
                client.post(f"workloads/{segment(name)}/{action}/")
            except Failure as failure:
                failure.show()
                refused = refused or failure
            else:
                click.echo(f"{name} {done}.")
    if refused:
        raise SystemExit(refused.exit_code)


@click.command()
@names_argument
def cancel(names: tuple[str, ...]) -> None:
    """Cancel workloads; what runs is given its grace period to save its work."""
    _act(names, "cancel", "is cancelled")


@click.command()
@names_argument
def hold(names: tuple[str, ...]) -> None:
    """Keep pending workloads from starting."""
    _act(names, "hold", "is held")


@click.command()
@names_argument
def release(names: tuple[str, ...]) -> None:
    """Let held workloads start again."""
    _act(names, "release", "is released")


@click.command()
@names_argument
def requeue(names: tuple[str, ...]) -> None:
    """Put ended workloads back into the queue."""
    _act(names, "requeue", "is back in the queue")
