"""`chamber run`: submit one workload and stay with it until it has ended."""

import sys
import uuid
from typing import Any

import click
import httpx

from chamber.cli.client import Client, Json, connect, segment
from chamber.cli.commands.follow import follow, line_of
from chamber.cli.commands.logs import Printer, follow_pod
from chamber.cli.commands.submit import asked_for, send, workload_options
from chamber.cli.status import Exit, Failure, of_workload


@click.command()
@workload_options
@click.option(
    "--idempotency-key", help="Name of this submission: repeated with it, nothing is submitted twice."
)
@click.option("--pod", type=click.IntRange(min=0), default=0, show_default=True, help="Whose lines to print.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run(file: str | None, idempotency_key: str | None, pod: int, **flags: Any) -> None:
    """Submit one workload and follow it until it ends; the exit status tells how.

    What its pod writes goes to stdout, its name and what happens to it to stderr. Ctrl-C ends the following only, and
    the workload goes on.
    """
    asked = asked_for(file, flags)
    if (count := len(asked.documents)) != 1:
        raise click.UsageError(f"{file} holds {count} workloads; `chamber submit` takes several.")
    if asked.documents[0].get("array") is not None:
        raise click.UsageError(
            "`chamber run` follows one workload; `chamber submit` takes an array, and --wait waits."
        )
    with asked.told_at_least(), connect() as client:
        (made,), _ = send(client, asked, idempotency_key or str(uuid.uuid4()))
        name = made["slug"]
        click.echo(f"{name} is submitted.", err=True)
        try:
            status = _accompany(client, name, pod)
        except KeyboardInterrupt:
            click.echo(
                f"\n{name} goes on: `chamber watch {name}` follows it, `chamber cancel {name}` ends it.",
                err=True,
            )
            raise
    sys.exit(status)


def _accompany(client: Client, name: str, pod: int) -> Exit:
    """Tell events, and between them what the pod of each attempt writes; return how the workload ended."""
    for event in follow(client, name):
        click.echo(line_of(event), err=True)
        if event["kind"] == "status" and event["data"].get("status") == "running":
            _print_lines(client, name, pod, event)
    return of_workload(client.get(f"workloads/{segment(name)}/")["status"]) or Exit.DONE


def _print_lines(client: Client, name: str, pod: int, event: Json) -> None:
    """Print what the pod of the event's attempt writes until it ends; that there is no log ends nothing."""
    try:
        follow_pod(Printer(client, name, {"pod": pod, "attempt": event["attempt_number"], "follow": "true"}))
    except Failure as failure:
        click.echo(f"… {failure.message}", err=True)
    except httpx.TransportError:
        click.echo(
            "… The log cannot be reached any more; what happens to the workload is still told.", err=True
        )
