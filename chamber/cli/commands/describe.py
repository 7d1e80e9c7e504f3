"""`chamber describe`: all that is known of a workload, on one screen."""

import click

from chamber.cli.client import Client, Json, connect, segment
from chamber.cli.columns import DESCRIBED, USE, WORKLOAD
from chamber.cli.commands.workloads import WHY
from chamber.cli.output import Column, OutputFormat, Row, ago, in_words, output_option, show, show_one


def _progress(notes: Row | None) -> str | None:
    """Return how far an attempt said it is."""
    known = notes is not None and notes["progress"] is not None
    return f"{100 * notes['progress']:.4g} %" if notes is not None and known else None


def _checkpoint(notes: Row | None) -> str | None:
    """Return the step of the last checkpoint, and how long ago it was saved."""
    if notes is None or not notes["checkpointed_at"]:
        return None
    return f"step {notes['step']}, {ago(notes['checkpointed_at'])}"


ATTEMPTS = [
    Column("Attempt", lambda attempt: attempt["number"], number=True),
    Column("Phase", lambda attempt: in_words(attempt["phase"])),
    Column("Pool", lambda attempt: attempt["pool"]),
    Column("GPUs", lambda attempt: attempt["gpus"], number=True),
    Column("Admitted", lambda attempt: ago(attempt["queued_at"])),
    Column("Ran", lambda attempt: ago(attempt["running_at"])),
    Column("Ended", lambda attempt: ago(attempt["ended_at"])),
    Column("Progress", lambda attempt: _progress(attempt["notes"]), number=True),
    Column("Checkpoint", lambda attempt: _checkpoint(attempt["notes"])),
    Column("Ends at this pace", lambda attempt: ago((attempt["notes"] or {}).get("ends_at")), wide=True),
    Column("Links", lambda attempt: list((attempt["notes"] or {}).get("links", {}).values()), wide=True),
    Column("Exit code", lambda attempt: attempt["exit_code"], number=True),
    Column("How it ended", lambda attempt: in_words(attempt["end_reason"])),
    Column("Why", lambda attempt: attempt["end_detail"].get("message")),
    Column("Rule", lambda attempt: attempt["end_detail"].get("rule"), wide=True),
    Column("Level", lambda attempt: attempt["end_detail"].get("level"), wide=True),
]

EVENTS = [
    Column("When", lambda event: ago(event["at"])),
    Column("By", lambda event: event["actor"]),
    Column("What", lambda event: event["message"]),
]


@click.command()
@click.argument("name")
@click.option(
    "--events", type=click.IntRange(min=0), default=10, show_default=True, help="The last so many events."
)
@output_option
def describe(name: str, events: int, form: OutputFormat) -> None:
    """Show all that is known of a workload: what it asks, why it waits, attempts, GPU use, events.

    -o json and yaml give one object of these; csv and name are those of `chamber get`.
    """
    with connect() as client:
        found = _gather(client, name, events)
    if form in {OutputFormat.JSON, OutputFormat.YAML}:
        show_one(found, form, [])
    elif form in {OutputFormat.CSV, OutputFormat.NAME}:
        show_one(found["workload"], form, WORKLOAD)
    else:
        _tell(found, form)


def _gather(client: Client, name: str, most: int) -> Row:
    """Return the answers about a workload, by what they are about."""
    path = f"workloads/{segment(name)}/"
    workload: Json = client.get(path)
    told = list(client.rows(f"{path}events/")) if most else []
    return {
        "workload": workload,
        "explain": client.get(f"{path}explain/"),
        "attempts": list(client.rows(f"{path}attempts/")),
        "usage": client.get(f"{path}usage/")["now"],
        "events": told[-most:],
    }


PULLED = Column("Image that ran", lambda workload: workload["images"])


def _pulled(attempts: list[Row]) -> list[str]:
    """Return what was pulled for the last attempt of which that is known; an older server does not say."""
    known = [attempt for attempt in attempts if attempt.get("images")]
    return list(max(known, key=lambda attempt: attempt["number"])["images"]) if known else []


def _tell(found: Row, form: OutputFormat) -> None:
    """Write the parts that there are, each under its heading."""
    show_one({**found["workload"], "images": _pulled(found["attempts"])}, form, [*DESCRIBED, PULLED])
    explained = found["explain"]
    if explained["reason"] or explained["eta"]:
        click.echo("\nWhy")
        show_one(explained, form, [column for column in WHY if column.heading not in {"Workload", "Status"}])
    if found["usage"]:
        click.echo("\nGPU use")
        show_one(found["usage"], form, USE)
    for heading, columns in (("Attempts", ATTEMPTS), ("Events", EVENTS)):
        if rows := found[heading.lower()]:
            click.echo(f"\n{heading}")
            show(rows, form, columns)
