"""Deleting nodes that are gone and that nothing remembers: clusters that grow and shrink name new ones all the time."""

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef

from agentlink.assignments import lock_clusters
from agentlink.models import Node, Placement
from agentlink.querysets import NodeQuerySet

BATCH = 200


def forget(before: datetime) -> int:
    """Delete nodes that vanished before, some of them; call it again while it returns more than 0.

    Those stay on which a workload lay that is still kept.
    """
    found = _forgettable(before).order_by("cluster").values_list("cluster", flat=True).first()
    return 0 if found is None else _forget(found, before)


@transaction.atomic
def _forget(cluster_id: UUID, before: datetime) -> int:
    # An inventory takes the same lock: what it reports again is not deleted under its hands.
    lock_clusters([cluster_id])
    ids = list(
        _forgettable(before).filter(cluster=cluster_id).order_by("pk").values_list("pk", flat=True)[:BATCH]
    )
    Node.objects.filter(pk__in=ids).delete()
    return len(ids)


def _forgettable(before: datetime) -> NodeQuerySet:
    remembered = Placement.objects.filter(device__node=OuterRef("pk"))
    return Node.objects.filter(~Exists(remembered), gone_at__lt=before)
