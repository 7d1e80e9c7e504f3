"""What is told of GPUs that are no capacity: pods that Chamber does not manage use them, or a claim that nobody uses.

A workload that waits for GPUs may wait for these; the rules do not know them, so the reason does not name them.
"""

from typing import TYPE_CHECKING
from uuid import UUID

from agentlink.models import Device
from chamber.words import plural
from scheduling import engine
from teams.permissions import Permission, may_anywhere
from workloads.reasons import named

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User

OF_FREE_GPUS = frozenset(
    {
        engine.ReasonCode.WAITING_FOR_GPUS.value,
        engine.ReasonCode.WAITING_FOR_TOPOLOGY.value,
        engine.ReasonCode.FRAGMENTED.value,
        engine.ReasonCode.LARGER_THAN_POOL.value,
        engine.ReasonCode.LARGER_THAN_ANY_NODE.value,
        engine.ReasonCode.TOPOLOGY_IMPOSSIBLE.value,
    }
)
"""Reasons that another GPU of the pool might end."""


def told(code: str, pool: str | None, user: "User | AnonymousUser") -> str:
    """Return what of a pool is no capacity, for a reason that a GPU more might end; empty for any other, and where all
    is capacity (1 query for such a reason, 1 more where there is something to tell).

    Why a claim has a GPU names things of any namespace: it is told to those who operate clusters.
    """
    if pool is None or code not in OF_FREE_GPUS:
        return ""
    taken = Device.objects.filter(node__pool=UUID(pool), node__gone_at__isnull=True, foreign=True)
    rows = list(taken.order_by("node__name", "index").values_list("node__name", "node__problem"))
    if not rows:
        return ""
    problems = dict(rows)
    nodes = list(problems)
    sentence = (
        f"{len(rows)} {plural(len(rows), 'device')} of the pool {plural(len(rows), 'is', 'are')} no capacity: pods or "
        f"claims that Chamber does not manage have {plural(len(rows), 'it', 'them')} "
        f"({plural(len(nodes), 'node')} {named(nodes)})."
    )
    if not any(problems.values()) or not may_anywhere(user, Permission.OPERATE_CLUSTERS):
        return sentence
    return " ".join([sentence, *(f"{node}: {why}" for node, why in problems.items() if why)])


__all__ = ["told"]
