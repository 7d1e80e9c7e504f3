"""How much the guarantees of a pool are above what its nodes have: legal, but worth a warning.

Nodes and devices belong to a higher room: they are reached by reverse relations of `Pool`, not by import.
"""

from collections.abc import Iterable
from uuid import UUID

from django.db.models import Q, Sum
from django.db.models.functions import Coalesce

from teams.models import Pool
from teams.picture import Picture
from teams.values import gpus


def capacity_milli(pools: Iterable[Pool] | None = None) -> dict[UUID, int]:
    """Return each pool's capacity in milli-GPUs (one query).

    Counted are devices of nodes that are ready, not cordoned and still reported, slices by their share, but for those
    that pods use which Chamber does not manage.
    """
    rows = Pool.objects.all() if pools is None else Pool.objects.filter(pk__in=[pool.pk for pool in pools])
    usable = Q(nodes__ready=True, nodes__cordoned=False, nodes__gone_at=None, nodes__devices__foreign=False)
    counted = rows.annotate(milli=Coalesce(Sum("nodes__devices__share_milli", filter=usable), 0))
    return dict(counted.values_list("pk", "milli"))


def guaranteed_milli(picture: Picture) -> dict[UUID, int]:
    """Return what the whole organisation is guaranteed of each pool."""
    roots = [node.id for node in picture.nodes.values() if node.parent_id is None]
    return {
        pool_id: sum(teams[root].guarantee_milli for root in roots)
        for pool_id, teams in picture.entitled.items()
    }


def oversubscribed(picture: Picture, capacity: dict[UUID, int]) -> dict[UUID, str]:
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
