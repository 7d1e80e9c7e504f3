"""Duties that recur: each is a ring, what it does stands in the function it calls."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from celery import shared_task
from django.db import transaction
from django.utils import timezone

from agentlink import gone, usage
from agentlink.assignments import LINK
from agentlink.logs import kept
from agentlink.models import Assignment, Cluster
from agentlink.querysets import DISCONNECTED_AFTER
from chamber import live, logs, marks
from teams import retention
from workloads import lifecycle

logger = logging.getLogger(__name__)

FORGETS_FOR_SECONDS = 30.0
NODES_KEPT = timedelta(days=7)
"""How long a node is remembered that is not reported, in case it comes back."""
SILENT_SECONDS = DISCONNECTED_AFTER.total_seconds()


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def watch_heartbeats() -> int:
    """Mark clusters as disconnected that were not heard for 30 seconds; return how many.

    Seconds in which nothing could be written down do not count: after an outage of the server's own, all of 30 are
    waited for. Nothing new is placed there from then on. Their workloads keep their state, and no others get their
    GPUs; only a workload that was never let go, so that no pod of it can exist, goes back to the queue.
    """
    now = timezone.now()
    if now - marks.watched_since(now=now) < DISCONNECTED_AFTER:
        return 0
    silent = Cluster.objects.filter(connected=True, last_seen_at__lt=now - DISCONNECTED_AFTER)
    count = 0
    for pk, name in list(silent.values_list("pk", "name")):
        with logs.bind(cluster=name):
            if _disconnect(pk, name):
                count += 1
                logger.warning("Its agent is out of touch: it was not heard for %d s.", SILENT_SECONDS)
    return count


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def roll_up_gpu_use() -> None:
    """Keep by the hour what workloads made of their GPUs more than a day ago."""
    usage.roll_up(timezone.now())


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def forget_logs() -> int:
    """Delete logs of pods that are older than they are kept, in small batches for half a minute at most; return how
    many. What is left then comes with the next time.
    """
    before = timezone.now() - retention.kept(retention.RetentionKind.LOGS)
    return _for_a_while(lambda: kept.forget(before))


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def forget_nodes() -> int:
    """Delete nodes that have been gone for a week and that nothing remembers, likewise; return how many."""
    before = timezone.now() - NODES_KEPT
    return _for_a_while(lambda: gone.forget(before))


def _for_a_while(forget: Callable[[], int]) -> int:
    """Call it until it has nothing left, for half a minute at most; return the sum."""
    until, total = time.monotonic() + FORGETS_FOR_SECONDS, 0
    while time.monotonic() < until and (forgotten := forget()):
        total += forgotten
    return total


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
