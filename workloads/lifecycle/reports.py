"""What the clusters report. Every report may come twice or late: the second one changes nothing."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from teams.actors import Actor, Via
from workloads import reasons
from workloads.lifecycle.failures import Ended, finish_many, refuse_many
from workloads.lifecycle.journal import Journal
from workloads.lifecycle.progress import Progress, freed, progress_many
from workloads.lifecycle.status import lock
from workloads.models import Attempt, EventKind

AGENT = Actor(name="agent", via=Via.AGENT)


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
    return bool(finish_many([Ended(attempt_id, exit_code, told, reason_code, message)], by=by, at=at))


def refused(attempt_id: UUID, *, at: datetime, message: str, code: str = "", by: Actor = AGENT) -> bool:
    """Put back in the queue what the cluster could not take, after a pause; False where the attempt is over
    or runs.
    """
    return bool(refuse_many({attempt_id: reasons.of_refusal(code, message)}, by=by, at=at))


def released(attempt_ids: Iterable[UUID], at: datetime, *, by: Actor = AGENT) -> set[UUID]:
    """Note that no pod of these ended attempts is left; return those for which it was news."""
    leaving = Attempt.objects.filter(
        pk__in=list(attempt_ids), ended_at__isnull=False, released_at__isnull=True
    )
    rows = lock(leaving.values_list("workload", flat=True))
    found = {attempt.pk: attempt for attempt in leaving if attempt.workload_id in rows}
    if not found:
        return set()
    journal = Journal(by=by, at=at, rows=rows.values())
    Attempt.objects.filter(pk__in=found.keys(), released_at__isnull=True).update(released_at=journal.at)
    for attempt in found.values():
        row = rows[attempt.workload_id]
        journal.add(row, EventKind.DEVICES_FREED, freed(attempt), attempt_number=attempt.number)
    journal.write(ring=True)
    return set(found)
