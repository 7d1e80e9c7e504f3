"""A cluster that its operator let go of: `chamber agent --release` stopped all that Chamber ran there, and says so."""

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agentlink import assignments
from agentlink.models import Assignment, Cluster, Node
from chamber import live
from teams import audit
from teams.actors import Actor
from teams.models import AuditEvent
from workloads import lifecycle
from workloads.lifecycle.status import lock

CODE = "cluster-released"
ACTION = "cluster.released"


def take(cluster: Cluster, *, connection: UUID | None) -> bool:
    """End what the server still thinks runs in a cluster that was let go of; False where a newer conversation began.

    No pod is left there: workloads go back to the queue at no charge, and their devices are free at once. The cluster
    counts as disconnected until an agent says hello again. Its nodes are gone until one reports them: nothing is to
    wait for them, as for those of a cluster that comes back. An agent that had no answer says it again: the time and
    the row of the audit trail stay those of the first.
    """
    now, by = timezone.now(), Actor.agent(cluster.name)
    # First, and committed: from here on nothing is placed there, by a plan in flight neither (`assign_many`).
    if not _close(cluster, connection=connection, at=now):
        return False
    with transaction.atomic():
        there = Assignment.objects.filter(cluster=cluster.pk, gone=False)
        # Workloads are locked before their cluster, as everywhere.
        workloads = lock(there.values_list("attempt__workload", flat=True))
        row = Cluster.objects.select_for_update(no_key=True).get(pk=cluster.pk)
        if row.connection != connection:
            return False
        ours = there.filter(attempt__workload__in=workloads)
        wanted = list(ours.filter(wanted=True).values_list("attempt", flat=True))
        message = f"The cluster {cluster.name} was released by an operator, who had what ran there stopped."
        ended = lifecycle.lost(wanted, at=now, by=by, message=message, code=CODE)
        left = list(ours.values_list("attempt", flat=True))
        clusters = assignments.release(left, at=now, by=by)
        Node.objects.filter(cluster=cluster.pk).present().update(gone_at=now, ready=False)
        if not _is_recorded(row):
            audit.record(by=by, action=ACTION, target=row, after={"attempts": ended})
        live.announce("pools", "overview")
        live.ring()
    for cluster_id in sorted(clusters):
        assignments.let_go_waiting(cluster_id, at=now)
    return True


@transaction.atomic
def _close(cluster: Cluster, *, connection: UUID | None, at: datetime) -> bool:
    """Note that it was let go of, once actions that place work there are done; False where a newer conversation
    began.
    """
    row = Cluster.objects.select_for_update(no_key=True).get(pk=cluster.pk)
    if row.connection != connection:
        return False
    Cluster.objects.filter(pk=cluster.pk).update(connected=False, released_at=row.released_at or at)
    return True


def _is_recorded(cluster: Cluster) -> bool:
    """Return whether the audit trail has that it was let go of: not where the first message was cut short."""
    rows = AuditEvent.objects.filter(target_kind="cluster", target_id=str(cluster.pk), action=ACTION)
    return rows.filter(at__gte=cluster.released_at).exists()
