"""Telling a database that was restored from a backup by what agents remember of it.

Each cluster's row has an epoch: a number that is raised whenever its agent says hello or gives a heartbeat, and told to
the agent, which keeps it. An agent that was told a higher one than the row holds has seen a later state of this
database. The agent remembers at most what was committed, and only its own messages raise the number: one that is lost,
late or doubled leaves the row ahead, which means nothing.
"""

import logging
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Least
from django.utils import timezone

from agentlink.models import Assignment, Cluster
from agentlink.protocol import MOST_EPOCHS, Epoch
from agentlink.protocol.releases import Since, numbers
from agentlink.querysets import DISCONNECTED_AFTER
from chamber import live
from teams import audit
from teams.actors import Actor
from teams.models import AuditEvent

logger = logging.getLogger(__name__)

LINK = Actor.system("agent link")
SINCE = Since("0.2.0")
"""The first release whose agents remember epochs."""
RECOGNISED = "cluster.restore-recognised"
"""The act in the audit trail."""


def are_remembered_by(agent_version: str) -> bool:
    """Return whether agents of a release remember epochs; of what names no release, that they do."""
    release = numbers(agent_version)
    return release is None or release >= SINCE.numbers


def recognised_since(cluster_id: UUID, at: datetime) -> int:
    """Return how often a restore was recognised by a cluster's agent since then (1 query).

    After a restore once; again and again where an agent comes to two servers with copies of one database in turns.
    """
    events = AuditEvent.objects.filter(target_kind="cluster", target_id=str(cluster_id), at__gte=at)
    return events.filter(action=RECOGNISED).count()


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
    audit.record(by=LINK, action=RECOGNISED, target=cluster, after=after)
    logger.warning("The agent of %s has seen a later state of this database: %s", cluster, cluster.restored)
    live.announce("pools", "overview")
