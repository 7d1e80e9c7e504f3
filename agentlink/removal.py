"""Deleting a cluster that nothing hangs on any more."""

from collections.abc import Iterator

from django.db import transaction
from django.db.models import ProtectedError

from agentlink import bindings
from agentlink.actions import require_operator
from agentlink.models import Assignment, Cluster
from chamber import live
from chamber.errors import Conflict
from chamber.words import count, plural
from teams import actions as teams
from teams import audit
from teams.actors import Actor


def delete_cluster(*, by: Actor, cluster: Cluster) -> None:
    """Delete a cluster whose agent is gone and where nothing ran that is still kept, with its nodes and tokens."""
    require_operator(by)
    with transaction.atomic():
        # Another cluster of that name would be another one. The tree is locked before a cluster, as everywhere.
        if bound := bindings.pools_of(cluster.name):
            teams.bind_cluster(by=by, cluster=cluster.name, unbind=bound)
        cluster = Cluster.objects.select_for_update().get(pk=cluster.pk)
        _refuse_used(cluster)
        before = {
            "name": cluster.name,
            "backend": cluster.backend,
            "uid": cluster.uid,
            "nodes": cluster.nodes.filter(gone_at__isnull=True).count(),
        }
        audit.record(by=by, action="cluster.deleted", target=cluster, before=before, after={})
        live.announce("pools", "overview", f"link:{cluster.pk}")
        live.ring()
        try:
            cluster.delete()
        except ProtectedError as error:
            raise Conflict(f"Something came to hang on {cluster.name} meanwhile. Look again.") from error


def _refuse_used(cluster: Cluster) -> None:
    """Refuse with all that is in the way at once."""
    if obstacles := list(_obstacles(cluster)):
        raise Conflict(" ".join(obstacles), code="cluster-in-use")


def _obstacles(cluster: Cluster) -> Iterator[str]:
    if cluster.connected:
        yield (
            f"The agent of {cluster.name} is connected. Uninstall it first: half a minute after it was last heard, the "
            "cluster counts as disconnected."
        )
    if bound := cluster.namespaces.count():
        yield (
            f"{count(bound, 'namespace')} of {cluster.name} {plural(bound, 'is', 'are')} bound to teams. "
            f"Unbind {plural(bound, 'it', 'them')} first."
        )
    assignments = Assignment.objects.filter(cluster=cluster)
    running = assignments.filter(gone=False).count()
    if running:
        yield (
            f"{count(running, 'attempt')} may still have pods in {cluster.name}: declare what runs there lost, and "
            "let an agent report that the pods are gone."
        )
    if ended := assignments.count() - running:
        yield (
            f"The history has {count(ended, 'attempt')} that ran in {cluster.name}; it can be deleted once they are "
            "no longer kept. Until then, revoke its tokens."
        )
