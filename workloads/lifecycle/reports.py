"""What the clusters report. Every report may come twice or late: the second one changes nothing."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import F

from teams.actors import Actor, Via
from workloads import reasons
from workloads.lifecycle.journal import Journal
from workloads.lifecycle.progress import Progress, progress_many
from workloads.lifecycle.status import change_status, lock
from workloads.lifecycle.steps import end_attempts, lock_open, note_status, stop, to_pending
from workloads.models import Attempt, EndReason, EventKind, Status, Workload
from workloads.quantities import gpus_text

AGENT = Actor(name="agent", via=Via.AGENT)

FIRST_BACKOFF = timedelta(seconds=10)
LONGEST_BACKOFF = timedelta(minutes=10)
NOT_RETRIED = frozenset({"time-limit"})
"""Failures that would only happen again."""


def pods_created(attempt_id: UUID, at: datetime, *, by: Actor = AGENT) -> bool:
    """Make a Queued workload Starting; False where its attempt is over or further."""
    return bool(progress_many([Progress(attempt_id, at)], by=by, at=at))


def pods_running(attempt_id: UUID, at: datetime, *, by: Actor = AGENT) -> bool:
    """Make a Starting workload (or a Queued one whose first report was lost) Running; False where it is over
    or further.
    """
    return bool(progress_many([Progress(attempt_id, at, at)], by=by, at=at))


def finished(
    attempt_id: UUID,
    *,
    at: datetime,
    exit_code: int | None,
    ended_at: datetime | None = None,
    reason_code: str = "",
    message: str = "",
    by: Actor = AGENT,
) -> bool:
    """Make it Completed on exit code 0, else Failed, and Pending again while it has retries; False where it
    is over.

    What is recorded is recorded `at`, so that events stay in the order of their times; the attempt keeps the
    time `ended_at` that was told.
    """
    told = ended_at or at
    if exit_code == 0:
        return bool(progress_many([Progress(attempt_id, told, told, told)], by=by, at=at))
    row = lock_open(attempt_id)
    if row is None:
        return False
    at = max(at, row.status_since)
    journal = Journal(by=by, at=at)
    reason = reasons.of_failure(exit_code, reason_code, message)
    _fail(row, reason, journal, at=at, ended_at=told, exit_code=exit_code)
    journal.write(ring=True)
    stop([attempt_id], at=at)
    return True


def _fail(
    row: Workload,
    reason: reasons.EndReason,
    journal: Journal,
    *,
    at: datetime,
    ended_at: datetime,
    exit_code: int | None,
) -> None:
    detail = reason.as_json()
    attempt = row.attempt
    assert attempt is not None  # noqa: S101 - an open attempt was locked with it
    ended_at = min(at, max(ended_at, attempt.running_at or attempt.starting_at or attempt.queued_at))
    end_attempts([row], EndReason.FAILED, {attempt.pk: detail}, at=ended_at, exit_code=exit_code)
    retry = row.failures < row.max_retries and reason.code not in NOT_RETRIED
    change_status(
        [row], Status.FAILED, at=at, reason_code=reason.code, reason=detail, failures=F("failures") + 1
    )
    row.failures += 1
    note_status(
        journal,
        row,
        reason.message,
        number=attempt.number,
        data={"exit_code": exit_code, "code": reason.code},
    )
    if retry:
        until = at + backoff(row.failures)
        to_pending([row], at=at, backoff_until=until)
        left = row.max_retries - row.failures
        message = f"Tried again in {(until - at).seconds} s at the earliest; {left} retries left after that."
        note_status(journal, row, message, data={"backoff_until": until.isoformat()})


def backoff(failures: int) -> timedelta:
    """Return how long to wait after this many failures: 10 s, doubled each time, 10 min at most."""
    doublings = min(failures - 1, 16)
    return min(FIRST_BACKOFF * int(2**doublings), LONGEST_BACKOFF)


def refused(attempt_id: UUID, *, at: datetime, message: str, by: Actor = AGENT) -> bool:
    """Put back in the queue what the cluster could not take, after a pause; False where the attempt is over
    or runs.

    It costs no retry: nothing of the workload ran. Each refusal doubles the pause, so that nobody spins.
    """
    row = lock_open(attempt_id)
    if row is None or row.status not in (Status.QUEUED, Status.STARTING) or row.attempt_id is None:
        return False
    at = max(at, row.status_since)
    journal = Journal(by=by, at=at)
    attempt = end_attempts([row], EndReason.REFUSED, {row.attempt_id: {"message": message}}, at=at)[row.pk]
    until = at + backoff(Attempt.objects.filter(workload=row, end_reason=EndReason.REFUSED).count())
    if row.status == Status.STARTING:
        change_status([row], Status.FAILED, at=at)
        note_status(journal, row, message, number=attempt.number)
    to_pending([row], at=at, backoff_until=until)
    note_status(journal, row, f"The cluster refused it: {message}", number=attempt.number)
    journal.write(ring=True)
    stop([attempt_id], at=at)
    return True


def released(attempt_ids: Iterable[UUID], at: datetime, *, by: Actor = AGENT) -> set[UUID]:
    """Note that no pod of these ended attempts is left; return those for which it was news."""
    leaving = Attempt.objects.filter(
        pk__in=list(attempt_ids), ended_at__isnull=False, released_at__isnull=True
    )
    found = {attempt.pk: attempt for attempt in leaving}
    if not found:
        return set()
    rows = lock(attempt.workload_id for attempt in found.values())
    Attempt.objects.filter(pk__in=found.keys(), released_at__isnull=True).update(released_at=at)
    journal = Journal(by=by, at=at)
    for attempt in found.values():
        freed = f"{gpus_text(attempt.gpus_milli)} free"
        message = f"Its pods are gone: {freed}." if attempt.starting_at else f"No pod is left: {freed}."
        journal.add(
            rows[attempt.workload_id], EventKind.DEVICES_FREED, message, attempt_number=attempt.number
        )
    journal.write(ring=True)
    return set(found)
