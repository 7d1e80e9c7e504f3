"""What time does to workloads."""

from datetime import datetime, timedelta

from celery import shared_task
from django.db import transaction
from django.utils import timezone

from teams.actors import Actor
from workloads import lifecycle
from workloads.models import Status, Workload
from workloads.quantities import duration_text

CLOCK = Actor.system("time limits")


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
        with transaction.atomic():
            ended += lifecycle.finished(
                workload.attempt_id,
                at=now,
                exit_code=None,
                reason_code="time-limit",
                message=message,
                by=CLOCK,
            )
    return ended


def overdue(now: datetime) -> list[Workload]:
    """Return the Running workloads whose limit has passed (one query, over what runs with a limit)."""
    limited = Workload.objects.filter(status=Status.RUNNING, time_limit_seconds__isnull=False)
    return [
        workload
        for workload in limited.select_related("attempt").order_by("pk")
        if workload.attempt is not None
        and workload.attempt.running_at is not None
        and workload.attempt.running_at + timedelta(seconds=workload.time_limit_seconds or 0) <= now
    ]
