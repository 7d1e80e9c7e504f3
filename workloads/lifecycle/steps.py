"""What the changes of a life have in common. Rows are locked by `status.lock`."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string

from chamber import live
from chamber.bulk import update_each
from workloads.lifecycle.status import change_status, lock
from workloads.models import Attempt, EndReason, Phase, Status, Workload

Pair = tuple[Workload, Attempt]


def lock_open(attempt_id: UUID) -> Workload | None:
    """Return the workload whose open attempt this is, locked."""
    of_attempt = Workload.objects.filter(attempts=attempt_id).values_list("pk", flat=True)
    return next((row for row in lock(of_attempt).values() if row.attempt_id == attempt_id), None)


def lock_open_many(attempt_ids: Collection[UUID]) -> list[Pair]:
    """Return the workloads whose open attempts these are, locked, each with its attempt.

    An attempt that ended before its row was locked may have a successor: that one is not meant.
    """
    of_open = Attempt.objects.filter(pk__in=attempt_ids, ended_at__isnull=True)
    locked = lock(of_open.values_list("workload", flat=True)).values()
    return [(row, row.attempt) for row in locked if row.attempt is not None and row.attempt.pk in attempt_ids]


def to_pending(rows: Sequence[Workload], *, at: datetime, **columns: Any) -> None:
    """Make locked rows Pending: in no pool, without a reason, and without a pause but one in `columns`.

    They have no deadline any more: it was for the first start, which they have had or are to have at another time.
    """
    columns = {"backoff_until": None, "deadline": None, "on_deadline": "", **columns}
    change_status(rows, Status.PENDING, at=at, pool=None, reason_code="", reason={}, **columns)


def end_attempts(
    rows: Sequence[Workload],
    reason: EndReason,
    details: Mapping[Any, dict[str, Any]],
    *,
    at: datetime,
    exit_code: int | None = None,
) -> dict[UUID, Attempt]:
    """End the open attempts of locked rows; return them by workload id."""
    attempts = {row.pk: row.attempt for row in rows if row.attempt is not None}
    if not attempts:
        return {}
    still_open = Attempt.objects.filter(pk__in=[a.pk for a in attempts.values()], ended_at__isnull=True)
    still_open.update(phase=Phase.OVER, ended_at=at, end_reason=reason, exit_code=exit_code)
    told = [attempt for attempt in attempts.values() if details.get(attempt.pk)]
    for attempt in told:
        attempt.end_detail = details[attempt.pk]
    if told:
        update_each(told, ["end_detail"])
    return attempts


def stop(attempt_ids: list[UUID], *, at: datetime, gone: Collection[UUID] = ()) -> None:
    """Have the room above take the pods of ended attempts away, inside this transaction; of those in `gone` no pod is
    left.
    """
    if attempt_ids:
        import_string(settings.CHAMBER_STOP_ATTEMPTS)(attempt_ids, at=at, gone=gone)
        live.announce("pools")
