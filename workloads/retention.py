"""Deleting what ended long ago: workloads with their attempts, placements, assignments and events, as a whole."""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef

from workloads.models import Attempt, Dependency, Event, SubmissionKey, Workload
from workloads.submission import KEY_KEPT

BATCH = 200


@transaction.atomic
def forget_workloads(before: datetime) -> int:
    """Delete workloads that ended before, some of them; call it again while it returns more than 0.

    Kept are those whose pods may still be somewhere, and those that another workload which is kept depends on.
    Whoever has one locked, to requeue it, keeps it until the next time. What lies in rooms above goes with its
    attempt, by its own reference.
    """
    still_there = Attempt.objects.filter(workload=OuterRef("pk"), released_at__isnull=True)
    needed = Dependency.objects.filter(needs=OuterRef("pk"))
    old = Workload.objects.filter(~Exists(still_there), ~Exists(needed), finished_at__lt=before)
    rows = old.select_for_update(skip_locked=True).order_by("finished_at", "pk")
    ids = list(rows.values_list("pk", flat=True)[:BATCH])
    Workload.objects.filter(pk__in=ids).delete()
    # The database lets events go once their workload is gone, and not before.
    Event.objects.filter(workload__in=ids).delete()
    return len(ids)


def forget_keys(now: datetime) -> int:
    """Delete idempotency keys that count no more; return how many."""
    deleted, _ = SubmissionKey.objects.filter(created_at__lt=now - KEY_KEPT - timedelta(hours=1)).delete()
    return deleted
