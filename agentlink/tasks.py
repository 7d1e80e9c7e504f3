"""Duties that recur: each is a ring, what it does stands in the function it calls."""

import logging
from uuid import UUID

from celery import shared_task
from django.db import transaction
from django.utils import timezone

from agentlink import usage
from agentlink.assignments import LINK
from agentlink.models import Assignment, Cluster
from agentlink.querysets import DISCONNECTED_AFTER
from chamber import live, logs
from workloads import lifecycle

logger = logging.getLogger(__name__)

SILENT_SECONDS = DISCONNECTED_AFTER.total_seconds()


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def watch_heartbeats() -> int:
    """Mark clusters as disconnected that were silent for 30 seconds; return how many.

    Nothing new is placed there from then on. Their workloads keep their state, and nobody else gets their GPUs; only
    who was never let go, so that no pod of his can exist, goes back to the queue.
    """
    now = timezone.now()
    silent = Cluster.objects.filter(connected=True, last_seen_at__lt=now - DISCONNECTED_AFTER)
    count = 0
    for pk, name in list(silent.values_list("pk", "name")):
        with logs.bind(cluster=name):
            if _disconnect(pk, name):
                count += 1
                logger.warning("Its agent is out of touch: it was silent for %d s.", SILENT_SECONDS)
    return count


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def roll_up_gpu_use() -> None:
    """Keep by the hour what workloads made of their GPUs more than a day ago."""
    usage.roll_up(timezone.now())


@transaction.atomic
def _disconnect(pk: UUID, name: str) -> bool:
    now = timezone.now()
    stale = Cluster.objects.filter(pk=pk, connected=True, last_seen_at__lt=now - DISCONNECTED_AFTER)
    waiting = Assignment.objects.filter(cluster=pk, wanted=True, let_go=False)
    # Workloads are locked before their cluster, as everywhere.
    message = f"The cluster {name} went silent before a pod existed."
    attempts = list(waiting.values_list("attempt", flat=True)) if stale.exists() else []
    lifecycle.lost(attempts, at=now, by=LINK, message=message)
    if not stale.update(connected=False):
        # It spoke again in between: nothing of this holds.
        transaction.set_rollback(True)
        return False
    live.announce("pools", "overview")
    live.ring()
    return True
