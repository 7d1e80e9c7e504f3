"""Which pools clusters may serve, and what is said of nodes whose labels claim more."""

from uuid import UUID

from django.db.models import Count

from agentlink.models import Node
from chamber.words import count
from teams.models import Pool


def pools_of(cluster: str) -> list[Pool]:
    """Return the pools that a cluster, by its name, may serve, in order (1 query)."""
    return [pool for pool in Pool.objects.all() if cluster in pool.clusters]


def refused(cluster_id: UUID | None = None) -> dict[UUID, list[str]]:
    """Return by cluster, all or this one, a sentence for each pool that would pick nodes it may not have (1 query)."""
    nodes = Node.objects.present().filter(refused_pool__isnull=False)
    if cluster_id is not None:
        nodes = nodes.filter(cluster=cluster_id)
    keys = ("cluster", "cluster__name", "refused_pool__slug", "refused_pool__name")
    found: dict[UUID, list[str]] = {}
    for cluster, name, slug, pool, nodes_of in (
        nodes.order_by("refused_pool__order", "refused_pool").values_list(*keys).annotate(Count("pk"))
    ):
        found.setdefault(cluster, []).append(
            f"By their labels {count(nodes_of, 'node')} of {name} would be in the pool {pool}, which {name} is not "
            f"bound to: nothing of that pool starts there. If {name} may serve it, an operator binds it: "
            f"`chamber clusters bind {name} {slug}`, or on the cluster's page."
        )
    return found
