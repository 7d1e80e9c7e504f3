"""How much the guarantees of a pool are above what its nodes have: legal, but worth a warning.

Nodes and devices belong to a higher room: they are reached by reverse relations of `Pool`, not by import.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Q, Sum
from django.db.models.functions import Coalesce

from teams.models import Pool
from teams.picture import TreePicture
from teams.values import amount_text, gpus


@dataclass(frozen=True, slots=True)
class PoolCapacity:
    """A pool's capacity in milli-GPUs; so many of its devices are `slices`, which count `slices_milli` of it."""

    milli: int = 0
    slices: int = 0
    slices_milli: int = 0

    @property
    def devices(self) -> str:
        """GPUs and slices: "24 GPUs and 9 slices worth 1.859 GPUs"."""
        return amount_text(self.milli, self.slices, self.slices_milli)


def capacities(pools: Iterable[Pool] | None = None) -> dict[UUID, PoolCapacity]:
    """Return each pool's capacity (one query).

    Counted are devices of nodes that are ready, not cordoned and still reported, slices by their share, but for those
    that pods use which Chamber does not manage. Nodes of a cluster that is silent count: it takes nothing new, and
    keeps what it holds.
    """
    rows = Pool.objects.all() if pools is None else Pool.objects.filter(pk__in=[pool.pk for pool in pools])
    usable = Q(nodes__ready=True, nodes__cordoned=False, nodes__gone_at=None, nodes__devices__foreign=False)
    cut = usable & ~Q(nodes__devices__slicing="whole")
    share = "nodes__devices__share_milli"
    counted = rows.order_by().annotate(
        milli=Coalesce(Sum(share, filter=usable), 0),
        slices=Count("nodes__devices", filter=cut),
        slices_milli=Coalesce(Sum(share, filter=cut), 0),
    )
    found = counted.values_list("pk", "milli", "slices", "slices_milli")
    return {key: PoolCapacity(*numbers) for key, *numbers in found}


def capacity_milli(pools: Iterable[Pool] | None = None) -> dict[UUID, int]:
    """Return each pool's capacity in milli-GPUs (one query)."""
    return {key: capacity.milli for key, capacity in capacities(pools).items()}


def guaranteed_milli(picture: TreePicture) -> dict[UUID, int]:
    """Return what the whole organisation is guaranteed of each pool."""
    roots = [node.id for node in picture.nodes.values() if node.parent_id is None]
    return {
        pool_id: sum(teams[root].guarantee_milli for root in roots)
        for pool_id, teams in picture.entitled.items()
    }


def oversubscribed(picture: TreePicture, capacity: dict[UUID, int]) -> dict[UUID, str]:
    """Return a sentence for each pool of `capacity` of which more is guaranteed than it has, by pool id."""
    found = {}
    for pool_id, guaranteed in guaranteed_milli(picture).items():
        has = capacity.get(pool_id)
        if has is not None and guaranteed > has:
            name = picture.pools[pool_id].name
            found[pool_id] = (
                f"{gpus(guaranteed)} of {name} are guaranteed, and its nodes have {gpus(has)}: "
                f"{gpus(guaranteed - has)} are promised that are not there."
            )
    return found


def unserved_text(pool: Pool) -> str:
    """Return that no cluster is bound to a pool, and what to do."""
    return (
        f"No cluster may serve the pool {pool.name}, so it has no nodes, whatever their labels. Name clusters in its "
        f"`clusters`, or bind one: `chamber clusters bind CLUSTER {pool.slug}`."
    )


@dataclass(frozen=True, slots=True)
class NodesMoved:
    """So many nodes, with so many usable milli-GPUs, that `after` picks in place of `before`; None is no pool."""

    before: Pool | None
    after: Pool | None
    nodes: int
    capacity_milli: int


def pool_of(
    labels: Mapping[str, str], pools: Iterable[Pool], cluster: str
) -> tuple[UUID | None, UUID | None]:
    """Return the pool of a cluster's node with these labels, and one that they are for but it may not be in.

    The former is the first of the pools, in their order, whose selector picks the labels and that the cluster is bound
    to; the latter the first before it that the cluster is not bound to. A pool that picks every label counts as such
    only for a node that is in no pool: nothing about the node asks for it.
    """
    refused: list[Pool] = []
    for pool in pools:
        if pool.selects(labels):
            if cluster in pool.clusters:
                return pool.pk, next((each.pk for each in refused if each.node_selector), None)
            refused.append(pool)
    return None, refused[0].pk if refused else None


def moved_nodes(before: Sequence[Pool], after: Sequence[Pool]) -> list[NodesMoved]:
    """Return which nodes another pool picks by `after` than by `before`, both in order, most first.

    One query, none where selectors, clusters and order are the same.
    """
    if [(pool.pk, pool.node_selector, pool.clusters) for pool in before] == [
        (pool.pk, pool.node_selector, pool.clusters) for pool in after
    ]:
        return []
    nodes = Pool._meta.get_field("nodes").related_model._default_manager
    usable = Q(devices__foreign=False, ready=True, cordoned=False)
    counted = Coalesce(Sum("devices__share_milli", filter=usable), 0)
    rows = (
        nodes.filter(gone_at__isnull=True)
        .order_by()
        .annotate(milli=counted)
        .values_list("labels", "cluster__name", "milli")
    )
    moved: Counter[tuple[UUID | None, UUID | None]] = Counter()
    capacity: Counter[tuple[UUID | None, UUID | None]] = Counter()
    for labels, cluster, milli in rows:
        way = pool_of(labels, before, cluster)[0], pool_of(labels, after, cluster)[0]
        if way[0] != way[1]:
            moved[way] += 1
            capacity[way] += milli
    by_pool: dict[UUID | None, Pool] = {pool.pk: pool for pool in [*before, *after]}
    return [
        NodesMoved(by_pool.get(old), by_pool.get(new), nodes, capacity[old, new])
        for (old, new), nodes in moved.most_common()
    ]
