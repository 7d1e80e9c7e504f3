"""Pools and teams in numbers, after the plan (sections 2 and 3), and what an admin should know about."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.engine.cycle import PoolCycle
from scheduling.engine.quantities import UNLIMITED, gpus, in_gpus
from scheduling.engine.space import Room
from scheduling.engine.tree import ROOT
from scheduling.engine.types import GPU_MILLI, Finding, FindingCode, PoolFigures, TeamFigures, TypicalRequest


def pool_figures(cycle: PoolCycle) -> PoolFigures:
    """The pool after the plan."""
    capacity = cycle.fleet.capacity_milli
    return PoolFigures(
        pool=cycle.pool.id,
        capacity_milli=capacity,
        in_use_milli=cycle.accounts.usage.used[ROOT],
        free_milli=cycle.ledger.free_milli(),
        oversubscribed=cycle.accounts.quotas.guarantee[ROOT] > capacity,
        fragmentation=fragmentation(cycle),
    )


def fragmentation(cycle: PoolCycle) -> float:
    """The part of the free GPUs that the pool's typical requests, by their weights, could not use; 0 without such.

    The measure of "Beware of Fragmentation" (FGD, USENIX ATC'23): what is free on a node is a fragment for a request
    that does not fit there, and so is what is free on a device too full for it.
    """
    recent = cycle.pool.recent
    total = sum(request.weight for request in recent)
    free = cycle.ledger.free_milli()
    if not total or not free:
        return 0.0
    rooms = [
        room
        for node, room in zip(cycle.fleet.nodes, cycle.ledger.now.rooms, strict=True)
        if node.ready and not node.cordoned
    ]
    lost = sum(request.weight * sum(_fragment(room, request) for room in rooms) for request in recent)
    return lost / total / free


def _fragment(room: Room, request: TypicalRequest) -> int:
    """What is free on a node and of no use to the request."""
    free = [left for left in room.gpu if left > 0]
    need = min(request.milli, GPU_MILLI)
    usable = [left for left in free if left >= need]
    if len(usable) * GPU_MILLI < request.milli:
        return sum(free)
    return sum(free) - sum(usable)


def team_figures(cycle: PoolCycle) -> Iterable[TeamFigures]:
    """Every team in this pool, by id, its subtree included."""
    for team, branch in sorted(cycle.tree.team_branch.items()):
        ceiling = cycle.accounts.quotas.ceiling(branch)
        yield TeamFigures(
            team=team,
            pool=cycle.pool.id,
            guarantee_milli=cycle.accounts.quotas.guarantee[branch],
            ceiling_milli=None if ceiling == UNLIMITED else ceiling,
            in_use_milli=cycle.accounts.usage.used[branch],
            reserved_in_use_milli=cycle.accounts.usage.reserved[branch],
            demand_milli=cycle.demand.milli[branch],
            entitlement_milli=cycle.entitled[branch],
        )


def findings(cycle: PoolCycle) -> Iterable[Finding]:
    """What is legal but worth a warning: guarantees above capacity, use above a ceiling, several GPU types."""
    pool, capacity = cycle.pool, cycle.fleet.capacity_milli
    guaranteed = cycle.accounts.quotas.guarantee[ROOT]
    if guaranteed > capacity:
        text = f"The pool {pool.name} guarantees {gpus(guaranteed)}, but has {in_gpus(capacity)}."
        yield Finding(FindingCode.OVERSUBSCRIBED, pool.id, None, text)
    for team, branch in sorted(cycle.tree.team_branch.items()):
        used, maximum = cycle.accounts.usage.used[branch], cycle.accounts.quotas.maximum[branch]
        limit = min(maximum, cycle.accounts.quotas.burst[branch] + cycle.accounts.usage.above[branch])
        if used > limit:
            name = cycle.tree.team_name(branch)
            text = f"{name} has {gpus(used)} in the pool {pool.name}, but may have {in_gpus(limit)}."
            yield Finding(FindingCode.ABOVE_CEILING, pool.id, team, text)
    types = sorted(
        {device.gpu_type for node in cycle.fleet.nodes for device in node.devices if device.gpu_type}
    )
    if guaranteed and len(types) > 1:
        text = f"The pool {pool.name} has {', '.join(types)}; a guarantee is a number of any of them."
        yield Finding(FindingCode.MIXED_GPU_TYPES, pool.id, None, text)
