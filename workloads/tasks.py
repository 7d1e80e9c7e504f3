"""What time does to workloads."""

import time
from datetime import datetime, timedelta

from celery import shared_task
from django.db import transaction
from django.utils import timezone

from chamber import logs
from teams import retention
from teams.actors import Actor
from teams.durations import duration_text
from workloads import lifecycle
from workloads.credentials import usable
from workloads.models import Status, Workload
from workloads.retention import forget_keys, forget_workloads

CLOCK = Actor.system("time limits")
FORGETS_FOR_SECONDS = 30.0


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def enforce_time_limits() -> int:
    """End every workload that has been Running for its time limit; return how many. The agent has the limit
    too.
    """
    now = timezone.now()
    ended = 0
    for workload in overdue(now):
        if workload.attempt_id is None or workload.time_limit_seconds is None:
            continue
        message = f"It ran for its time limit of {duration_text(workload.time_limit_seconds)}."
        with logs.bind(workload=workload.slug), transaction.atomic():
            ended += lifecycle.finished(
                workload.attempt_id,
                at=now,
                exit_code=None,
                reason_code="time-limit",
                message=message,
                by=CLOCK,
            )
    return ended


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def hold_back_credentials() -> int:
    """Keep workloads from starting that may not be handed the credentials that they name; return how many were, or may
    be now.
    """
    held, again = usable.hold_back(at=timezone.now())
    return len(held) + len(again)


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def forget_old() -> int:
    """Delete what lies before the horizon, in small batches for half a minute at most; return how many workloads.

    What is left then comes with the next time.
    """
    now, until = timezone.now(), time.monotonic() + FORGETS_FOR_SECONDS
    horizon = retention.move_horizon(now)
    total = 0
    before = retention.before(retention.RetentionKind.WORKLOADS, horizon, now)
    while time.monotonic() < until and (forgotten := forget_workloads(before)):
        total += forgotten
    before = retention.before(retention.RetentionKind.AUDIT, horizon, now)
    while time.monotonic() < until and retention.forget_audit(before):
        pass
    forget_keys(now)
    return total


def overdue(now: datetime) -> list[Workload]:
    """Return the Running workloads whose limit has passed (one query, over what runs with a limit)."""
    limited = Workload.objects.filter(status=Status.RUNNING, time_limit_seconds__isnull=False)
    return [
        workload
        for workload in limited.select_related("attempt").order_by("pk")
        if workload.attempt is not None
        and workload.attempt.running_at is not None
        and not workload.attempt.end_reason  # displaced: its pods are about to be gone
        and workload.attempt.running_at + timedelta(seconds=workload.time_limit_seconds or 0) <= now
    ]
