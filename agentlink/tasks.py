"""Duties that recur: each is a ring, what it does stands in the function it calls."""

from celery import shared_task
from django.db import transaction
from django.utils import timezone

from agentlink.models import Cluster
from agentlink.models.cluster import DISCONNECTED_AFTER
from chamber import live


@shared_task  # type: ignore[untyped-decorator]  # celery has no types
def watch_heartbeats() -> int:
    """Mark clusters as disconnected that were silent for 30 seconds; return how many.

    Nothing new is placed there from then on. Their workloads keep their state, and nobody else gets their GPUs.
    """
    with transaction.atomic():
        silent = Cluster.objects.filter(connected=True, last_seen_at__lt=timezone.now() - DISCONNECTED_AFTER)
        count = silent.update(connected=False)
        if count:
            live.announce("pools", "overview")
            live.ring()
    return count
