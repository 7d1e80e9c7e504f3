"""Telling a database that was restored from a backup by what agents remember of it.

Each cluster's row has an epoch: a number that is raised whenever its agent says hello or gives a heartbeat, and told to
the agent, who keeps it. An agent that was told a higher one than the row holds has seen a later state of this database.
The agent remembers at most what was committed, and only its own messages raise the number: one that is lost, late or
doubled leaves the row ahead, which means nothing.
"""

import logging
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Least
from django.utils import timezone

from agentlink.models import Assignment, Cluster
from agentlink.protocol import MOST_EPOCHS, Epoch
from agentlink.querysets import DISCONNECTED_AFTER
from chamber import live
from teams import audit
from teams.actors import Actor

logger = logging.getLogger(__name__)

LINK = Actor.system("agent link")


def advance(cluster_id: UUID, told: Epoch) -> tuple[Epoch, bool]:
    """Raise the epoch; return it, and whether `told`, which the agent remembers, shows that the database was restored.

    Three queries, some more for a restore. What an agent remembers of another database, or another cluster's row, is
    nothing.
    """
    number = told.number if told.of == cluster_id else 0
    with transaction.atomic():
        rows = Cluster.objects.filter(pk=cluster_id)
        raised = rows.filter(epoch__gte=number).update(epoch=Least(F("epoch") + 1, MOST_EPOCHS))
        if not raised:
            _note_restore(cluster_id, number)
        return Epoch(of=cluster_id, number=rows.values_list("epoch", flat=True).get()), not raised


def _note_restore(cluster_id: UUID, number: int) -> None:
    """Note that a later state was seen: what ran by the present one may have ended since."""
    now = timezone.now()
    cluster = Cluster.objects.select_for_update(no_key=True).get(pk=cluster_id)
    before, cluster.epoch = cluster.epoch, min(number + 1, MOST_EPOCHS)
    cluster.restored_at, cluster.restored_from = now, cluster.last_seen_at
    cluster.save(update_fields=["epoch", "restored_at", "restored_from"])
    running = Assignment.objects.filter(cluster=cluster_id, wanted=True)
    if cluster.restored_from is not None:  # not those that were placed since the restore
        running = running.filter(created_at__lte=cluster.restored_from + DISCONNECTED_AFTER)
    count = running.update(unheard_since=now)
    after = {"attempts": count, "epoch": before, "agent_epoch": number}
    audit.record(by=LINK, action="cluster.restore-recognised", target=cluster, after=after)
    logger.warning("The agent of %s has seen a later state of this database: %s", cluster, cluster.restored)
    live.announce("pools", "overview")
