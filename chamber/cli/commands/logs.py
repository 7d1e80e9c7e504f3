"""`chamber logs`: what a pod has written, and with `--follow` what it writes until it ends."""

import json
import sys
import time

import click
import httpx

from chamber.cli.client import Client, Params, connect, segment, unreachable
from chamber.cli.commands.follow import FIRST_PAUSE_SECONDS, GIVE_UP_SECONDS, LONGEST_PAUSE_SECONDS
from chamber.cli.status import Exit, Failure, of_workload

NOT_YET = 409
SETTLES_SECONDS = 5.0
"""How long after its pod's end it is waited for how the workload ended."""

_BY_END = {
    "away": Exit.TIMEOUT,
    "failed": Exit.FAILED,
    "too-many": Exit.FAILED,
    "not-started": Exit.CONFLICT,
    "not-carried": Exit.CONFLICT,
    "not-allowed": Exit.NOT_ALLOWED,
    "nothing": Exit.NOT_FOUND,
}


@click.command()
@click.argument("name")
@click.option("--pod", type=click.IntRange(min=0), default=0, show_default=True, help="Which pod.")
@click.option("--attempt", type=click.IntRange(min=1), help="Of this attempt instead of the newest.")
@click.option("--tail", type=click.IntRange(min=0), help="Only the last so many lines.")
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on with what it writes until it ends.")
def logs(name: str, pod: int, attempt: int | None, tail: int | None, follows: bool) -> None:
    """Print what a pod has written; with --follow, the exit status tells how its workload ended.

    What is no line of the pod (that lines were left out, that an agent is away) goes to stderr.
    """
    asked = {"pod": pod, "attempt": attempt, "tail": tail, "follow": "true" if follows else None}
    params: dict[str, str | int] = {key: value for key, value in asked.items() if value is not None}
    with connect() as client:
        printer = Printer(client, name, params)
        try:
            if follows:
                follow_pod(printer)
            else:
                printer.print()
        except httpx.TransportError as error:
            raise unreachable(client.login.url, error) from error
        status = _BY_END.get(printer.end or "", Exit.DONE)
        if follows and status is Exit.DONE:
            status = _how_it_ended(client, name)
    sys.exit(status)


class Printer:
    """Prints one pod's lines, from where the stream before stopped. `end` is why no more come."""

    def __init__(self, client: Client, name: str, params: Params) -> None:
        self.client, self.name = client, name
        self._params = params
        self.place = ""
        self.end: str | None = None

    def print(self) -> None:
        """Print lines as they come, until the stream ends."""
        path = f"workloads/{segment(self.name)}/logs/"
        for message in self.client.stream(path, last_id=self.place, params=self._params):
            told = json.loads(message.data)
            self.place = message.id
            if message.event == "lines":
                if told["dropped"]:
                    click.echo(f"… {told['dropped']}", err=True)
                click.echo(told["text"], nl=False)
                continue
            if told["message"]:
                click.echo(f"… {told['message']}", err=True)
            if message.event == "end":
                self.end = told["code"]


def follow_pod(printer: Printer) -> None:
    """Print until the pod has ended, over broken connections; before it has begun, wait until it does."""
    pause, broken_since, waits = FIRST_PAUSE_SECONDS, None, False
    while printer.end is None:
        try:
            printer.print()
            pause, broken_since = FIRST_PAUSE_SECONDS, None
        except Failure as failure:
            if failure.http_status != NOT_YET or _status(printer.client, printer.name) is not None:
                raise
            if not waits:
                click.echo(f"… {failure.message} Waiting for it.", err=True)
            waits = True
        except httpx.TransportError:
            broken_since = broken_since or time.monotonic()
            if not printer.place or time.monotonic() - broken_since > GIVE_UP_SECONDS:
                raise
        if printer.end is None:
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def _status(client: Client, name: str) -> Exit | None:
    return of_workload(client.get(f"workloads/{segment(name)}/")["status"])


def _how_it_ended(client: Client, name: str) -> Exit:
    """Return the status of a workload whose pod has ended: done where other pods of it go on, or it runs again."""
    until = time.monotonic() + SETTLES_SECONDS
    while (status := _status(client, name)) is None and time.monotonic() < until:
        time.sleep(FIRST_PAUSE_SECONDS)
    return Exit.DONE if status is None else status
