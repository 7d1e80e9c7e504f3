"""`chamber watch` follows events as they come; `chamber wait` asks until workloads have ended or run."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any

import click
import httpx

from chamber.cli.client import Client, Json, connect, segment, unreachable
from chamber.cli.durations import DURATION
from chamber.cli.output import local_time
from chamber.cli.status import Exit, Failure, of_workload

GONE = 410
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0
GIVE_UP_SECONDS = 300.0
"""How long a broken stream is tried again before `watch` gives up."""


@click.command()
@click.argument("name")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    help="json: one object a line.",
)
def watch(name: str, form: str) -> None:
    """Follow a workload's events until it ends; the exit status tells how it ended."""
    with connect() as client:
        for event in follow(client, name):
            click.echo(json.dumps(event, ensure_ascii=False) if form == "json" else line_of(event))
        ended = client.get(f"workloads/{segment(name)}/")
    sys.exit(of_workload(ended["status"]) or Exit.DONE)


def follow(client: Client, name: str) -> Iterator[Json]:
    """Yield a workload's events from its first until it has ended, each once, over broken connections.

    What the server no longer has in its stream (410) is read from the start again, without repeating it.
    """
    path, last, seen = f"workloads/{segment(name)}/watch/", "", 0
    pause, broken_since = FIRST_PAUSE_SECONDS, None
    while True:
        try:
            for message in client.stream(path, last_id=last):
                pause, broken_since, last = FIRST_PAUSE_SECONDS, None, message.id
                event = json.loads(message.data)
                if event["sequence"] > seen:
                    seen = event["sequence"]
                    yield event
            if of_workload(client.get(f"workloads/{segment(name)}/")["status"]) is not None:
                return
            client.tell_silence()
        except Failure as failure:
            if failure.http_status != GONE or not last:
                raise
            last = ""
        except httpx.TransportError as error:
            broken_since = broken_since or time.monotonic()
            if not last or time.monotonic() - broken_since > GIVE_UP_SECONDS:
                raise unreachable(client.login.url, error) from error
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--for",
    "goal",
    type=click.Choice(["end", "running"]),
    default="end",
    show_default=True,
    help="running: also done when it runs.",
)
@click.option(
    "--timeout", type=DURATION, help="Give up after this long, such as 90s, 30m, 4h; exit status 7."
)
def wait(names: tuple[str, ...], goal: str, timeout: int | None) -> None:
    """Wait until workloads have ended, or run; the exit status tells how they ended."""
    with connect() as client:
        wait_for(client, names, goal=goal, timeout=timeout)


def wait_for(client: Client, names: Sequence[str], *, goal: str = "end", timeout: int | None = None) -> None:
    """Wait for all workloads, say how each ended, and exit with the gravest status."""
    deadline = time.monotonic() + timeout if timeout is not None else None
    gravest = Exit.DONE
    for name in names:
        with _spinner(f"Waiting for {name}"):
            workload = _wait_for_one(client, name, goal, deadline)
        status = workload["status"]
        click.echo(f"{name}: {status}", err=True)
        gravest = max(gravest, of_workload(status) or Exit.DONE)
    if gravest:
        sys.exit(gravest)


def wait_for_arrays(client: Client, names: Sequence[str]) -> None:
    """Wait until all members of the arrays have ended, say how they did, and exit with the gravest status."""
    gravest = Exit.DONE
    for name in names:
        pause = FIRST_PAUSE_SECONDS
        with _spinner(f"Waiting for {name}"):
            ended = _members(client, name)
            while any(of_workload(status) is None for status in ended):
                client.tell_silence()
                time.sleep(pause)
                pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
                ended = _members(client, name)
        click.echo(f"{name}: {', '.join(f'{n:,} {status}' for status, n in ended.items())}", err=True)
        gravest = max([gravest, *(of_workload(status) or Exit.DONE for status in ended)])
    if gravest:
        sys.exit(gravest)


def _members(client: Client, name: str) -> dict[str, int]:
    """Return how many members of an array are in each status that some of them have."""
    return {status: n for status, n in client.get(f"arrays/{segment(name)}/")["members"].items() if n}


def _wait_for_one(client: Client, name: str, goal: str, deadline: float | None) -> Json:
    pause = FIRST_PAUSE_SECONDS
    while True:
        workload: Json = client.get(f"workloads/{segment(name)}/")
        status = workload["status"]
        if of_workload(status) is not None or (goal == "running" and status == "running"):
            return workload
        client.tell_silence()
        if deadline is not None and time.monotonic() + pause > deadline:
            raise Failure(f"{name} is still {status}; the time to wait is over.", Exit.TIMEOUT)
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)


def _spinner(sentence: str) -> AbstractContextManager[Any]:
    """Return a sign of life on stderr where a person watches."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(sentence)


def line_of(event: Json) -> str:
    """Return an event as a line for people, with its time here: `2026-01-01 13:00:00 CET  Starts.`"""
    return f"{local_time(datetime.fromisoformat(event['at']))}  {event['message']}"
