"""What becomes of attempts in a cluster that an admin gave up."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from teams.actors import Actor
from workloads.lifecycle.journal import Journal
from workloads.lifecycle.status import change_status, lock
from workloads.lifecycle.steps import end_attempts, stop, to_pending
from workloads.models import Attempt, EndReason, Status


def lost(attempt_ids: Iterable[UUID], *, at: datetime, by: Actor, message: str) -> int:
    """End those of the attempts that are open and put their workloads back in the queue; return how many.

    It costs no retry. Their devices stay taken until the cluster reports the pods gone, if it ever does.
    """
    wanted = set(attempt_ids)
    found = Attempt.objects.filter(pk__in=wanted, ended_at__isnull=True)
    # An attempt that ended before its row was locked may have a successor, which is in another cluster.
    rows = [
        row for row in lock(found.values_list("workload", flat=True)).values() if row.attempt_id in wanted
    ]
    if not rows:
        return 0
    journal = Journal(by=by, at=at, rows=rows)
    at = journal.at
    details = {row.attempt_id: {"code": "lost", "message": message} for row in rows}
    attempts = end_attempts(rows, EndReason.LOST, details, at=at)
    # What had pods failed with them; what waited for devices goes back as if it had not been admitted.
    with_pods = [row for row in rows if row.status != Status.QUEUED]
    change_status(with_pods, Status.FAILED, at=at, reason_code="lost")
    for row in with_pods:
        journal.add_change(row, message, number=attempts[row.pk].number)
    to_pending(rows, at=at)
    for row in rows:
        journal.add_change(row, f"{message} Back in the queue.", number=attempts[row.pk].number)
    journal.write(ring=True)
    stop([attempt.pk for attempt in attempts.values()], at=at)
    return len(rows)
