"""Deleting what ended long ago: workloads with their attempts, placements, assignments and events, as a whole."""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from workloads.models import Attempt, Dependency, Event, SubmissionKey, Workload, WorkloadArray
from workloads.submission import KEY_KEPT

BATCH = 200


@transaction.atomic
def forget_workloads(before: datetime) -> int:
    """Delete workloads that ended before, some of them; call it again while it returns more than 0.

    Kept are those whose pods may still be somewhere, those that another workload which is kept depends on, and members
    of an array that has others which have not ended, or lately: an array goes with the last of them.
    Whoever has one locked, to requeue it, keeps it until the next time. What lies in rooms above goes with its
    attempt, by its own reference.
    """
    still_there = Attempt.objects.filter(workload=OuterRef("pk"), released_at__isnull=True)
    needed = Dependency.objects.filter(needs=OuterRef("pk"))
    mates = Workload.objects.filter(array=OuterRef("array")).order_by()
    younger = mates.filter(Q(finished_at__isnull=True) | Q(finished_at__gte=before))
    whole = Dependency.objects.filter(needs_array=OuterRef("array"))
    kept = Q(array__isnull=False) & (Exists(younger) | Exists(whole))
    old = Workload.objects.filter(~Exists(still_there), ~Exists(needed), ~kept, finished_at__lt=before)
    rows = old.select_for_update(skip_locked=True).order_by("finished_at", "pk")
    ids = list(rows.values_list("pk", flat=True)[:BATCH])
    Workload.objects.filter(pk__in=ids).delete()
    # The database lets events go once their workload is gone, and not before.
    Event.objects.filter(workload__in=ids).delete()
    if ids:
        members = Workload.objects.filter(array=OuterRef("pk"))
        WorkloadArray.objects.filter(~Exists(members), submitted_at__lt=before).delete()
    return len(ids)


def forget_keys(now: datetime) -> int:
    """Delete idempotency keys that count no more; return how many."""
    deleted, _ = SubmissionKey.objects.filter(created_at__lt=now - KEY_KEPT - timedelta(hours=1)).delete()
    return deleted
