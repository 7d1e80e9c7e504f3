"""Truth 4: a workload's events tell everything that happened to it, in order, by whom."""

from collections.abc import Iterator

from chaos.truths.records import Records
from chaos.truths.tables import ADMITTED, OPEN, StoredAttempt, StoredEvent, StoredTables, StoredWorkload
from chaos.truths.violation import TruthViolation

# As the design's page on the life of a workload has it; nothing of the product's own table is used.
LEGAL: dict[str, frozenset[str]] = {
    "pending": frozenset({"queued", "cancelled", "failed"}),
    "queued": frozenset({"starting", "preempted", "cancelled", "failed", "pending"}),
    # Back to pending: displaced, as `_displaced` looks at besides.
    "starting": frozenset({"running", "preempted", "cancelled", "failed", "pending"}),
    "running": frozenset({"completed", "failed", "preempted", "cancelled", "pending"}),
    "completed": frozenset({"pending"}),
    "failed": frozenset({"pending"}),
    "preempted": frozenset({"pending"}),
    "cancelled": frozenset({"pending"}),
}
DISPLACED = frozenset({"displaced", "lost"})
CHANGES = frozenset({"status", "held", "released", "edited"})
"""Kinds of events that each stand for one change of the row, and so for one version."""


def check(tables: StoredTables, records: Records) -> Iterator[TruthViolation]:  # noqa: ARG001 - all checks take both
    """Follow each workload through its events and its attempts."""
    for workload in tables.workloads:
        events = tables.events_of[workload.id]
        yield from _sequence(workload, events)
        yield from _statuses(workload, events)
        yield from _attempts(workload, tables.attempts_of[workload.id], events)
        yield from _displaced(workload, tables.attempts_of[workload.id], events)
    yield from _actors(tables)


def _sequence(workload: StoredWorkload, events: list[StoredEvent]) -> Iterator[TruthViolation]:
    found = [event.sequence for event in events]
    if found != list(range(1, workload.last_event + 1)):
        missing = sorted(set(range(1, workload.last_event + 1)) - set(found))
        extra = sorted(set(found) - set(range(1, workload.last_event + 1)))
        sentence = (
            f"Events of {workload.slug} are not 1 to {workload.last_event}: missing {missing}, extra {extra}."
        )
        yield TruthViolation(4, sentence, (str(workload), *(str(event) for event in events[-3:])))
    ids = [event.id for event in events]
    if ids != sorted(ids):
        yield TruthViolation(
            4, f"Events of {workload.slug} were written out of their order.", tuple(map(str, events))
        )
    if events and events[0].kind != "submitted":
        yield TruthViolation(4, f"{workload.slug} does not begin with its submission.", (str(events[0]),))


def _statuses(workload: StoredWorkload, events: list[StoredEvent]) -> Iterator[TruthViolation]:
    """The events' statuses are a legal way that ends where the row stands, and each change raised the version."""
    status = "pending"
    for event in events:
        if event.kind != "status":
            continue
        following = event.data.get("status", "")
        if following not in LEGAL[status]:
            yield TruthViolation(
                4, f"{workload.slug} went from {status} to {following}.", (str(workload), str(event))
            )
        status = following if following in LEGAL else status
    if status != workload.status:
        sentence = f"{workload.slug} is {workload.status}; by its events it is {status}."
        yield TruthViolation(4, sentence, (str(workload), *(str(event) for event in events[-3:])))
    changes = sum(event.kind in CHANGES for event in events)
    if workload.version != changes + 1:
        sentence = f"{workload.slug} has version {workload.version}, and {changes} events tell of changes."
        yield TruthViolation(4, sentence, (str(workload), *(str(event) for event in events[-3:])))


def _attempts(
    workload: StoredWorkload, attempts: list[StoredAttempt], events: list[StoredEvent]
) -> Iterator[TruthViolation]:
    """Attempts are numbered from 1, opened by one event each, and one is open exactly while it is admitted."""
    numbers = [attempt.number for attempt in attempts]
    rows = (str(workload), *map(str, attempts))
    if numbers != list(range(1, len(numbers) + 1)):
        yield TruthViolation(4, f"Attempts of {workload.slug} are numbered {numbers}.", rows)
    queued = [event.attempt_number for event in events if event.data.get("status") == "queued"]
    queued = [number for number in queued if number is not None]
    if queued != numbers:
        yield TruthViolation(
            4, f"Attempts {numbers} of {workload.slug} were opened by the events of {queued}.", rows
        )
    still_open = [attempt.id for attempt in attempts if attempt.ended_at is None]
    expected = [workload.attempt_id] if workload.status in ADMITTED else []
    if still_open != expected:
        yield TruthViolation(
            4, f"{workload.slug} is {workload.status} with {len(still_open)} open attempts.", rows
        )
    if workload.status in ADMITTED and attempts and attempts[-1].phase != workload.status:
        sentence = f"{workload.slug} is {workload.status} and its attempt {attempts[-1].phase}."
        yield TruthViolation(4, sentence, rows)
    if workload.status not in OPEN and workload.attempt_id is not None:
        yield TruthViolation(4, f"{workload.slug} has ended and points to an attempt.", rows)


def _displaced(
    workload: StoredWorkload, attempts: list[StoredAttempt], events: list[StoredEvent]
) -> Iterator[TruthViolation]:
    """Whoever came back to the queue from its pods was displaced, and whoever was displaced came back or failed."""
    reasons = {attempt.number: attempt.end_reason for attempt in attempts}
    status = "pending"
    for event in events:
        if event.kind != "status":
            continue
        before, status = status, event.data.get("status", "")
        reason = reasons.get(event.attempt_number or 0, "")
        if before in ("starting", "running") and status == "pending" and reason not in DISPLACED:
            sentence = (
                f"{workload.slug} came back to the queue from {before}; its attempt ended as {reason!r}."
            )
            yield TruthViolation(4, sentence, (str(workload), str(event)))
        if reason in DISPLACED and status in ("completed", "preempted", "cancelled"):
            sentence = (
                f"Attempt {event.attempt_number} of {workload.slug} was displaced and made it {status}."
            )
            yield TruthViolation(4, sentence, (str(workload), str(event)))


def _actors(tables: StoredTables) -> Iterator[TruthViolation]:
    for event in tables.events:
        by_person = event.via not in ("system", "agent")
        if not event.actor or (event.user_id is None) == by_person:
            yield TruthViolation(
                4, f"An event of {tables.called(event.workload_id)} has no actor.", (str(event),)
            )
