"""What people do to workloads that changes their status; who may is for `workloads.actions` to say."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from teams.actors import Actor
from workloads import reasons
from workloads.lifecycle.journal import Journal
from workloads.lifecycle.status import change_status, lock
from workloads.lifecycle.steps import end_attempts, stop, to_pending
from workloads.models import EndReason, Status


def cancel_many(
    ids: Iterable[UUID], *, by: Actor, at: datetime, why: reasons.WorkloadEnd | None = None
) -> set[UUID]:
    """Make open workloads Cancelled and have their pods stopped; return the ids of those that were open.

    `why` says it where nobody but what happened in a cluster cancels them.
    """
    rows = [row for row in lock(ids).values() if row.is_open]
    journal = Journal(by=by, at=at, rows=rows)
    admitted = [row for row in rows if row.attempt_id]
    ended = why or reasons.WorkloadEnd("cancelled", f"Cancelled by {by.name}.", kind="ended", by=by.name)
    reason = ended.as_json()
    attempts = end_attempts(
        admitted, EndReason.CANCELLED, {row.attempt_id: reason for row in admitted}, at=journal.at
    )
    change_status(rows, Status.CANCELLED, at=journal.at, reason_code=ended.code, reason=reason, held=False)
    for row in rows:
        number = attempts[row.pk].number if row.pk in attempts else None
        journal.add_change(row, f"Cancelled: {why.message}" if why else "Cancelled.", number=number)
    journal.write(ring=True)
    stop([attempt.pk for attempt in attempts.values()], at=journal.at)
    return {row.pk for row in rows}


def requeue_many(ids: Iterable[UUID], *, by: Actor, at: datetime) -> set[UUID]:
    """Put ended workloads back in the queue with fresh counts of retries and requeues; return which had
    ended.
    """
    rows = [row for row in lock(ids).values() if not row.is_open]
    journal = Journal(by=by, at=at, rows=rows)
    to_pending(rows, at=journal.at, requeues=0, failures=0)
    for row in rows:
        journal.add_change(row, "Requeued.")
    journal.write(ring=True)
    return {row.pk for row in rows}
