"""Pools and teams in numbers after the plan, whose guarantee each workload counts against, and what an admin should
know about (sections 2 and 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from scheduling.engine.model.plan import Allocation, Finding, FindingCode, PoolFigures, TeamFigures
from scheduling.engine.model.quantities import UNLIMITED, gpus, in_gpus
from scheduling.engine.model.snapshot import GPU_MILLI, OpenStatus
from scheduling.engine.pool.pool_cycle import PoolCycle
from scheduling.engine.preemption.victims import PlacedWorkload
from scheduling.engine.quota.charging import admission_order
from scheduling.engine.quota.tree import ROOT


def pool_figures(cycle: PoolCycle) -> PoolFigures:
    """The pool after the plan."""
    capacity = cycle.nodes.capacity_milli
    return PoolFigures(
        pool=cycle.pool.id,
        capacity_milli=capacity,
        in_use_milli=cycle.accounts.usage.used[ROOT],
        free_milli=cycle.ledger.free_milli(),
        oversubscribed=cycle.accounts.quotas.guarantee[ROOT] > capacity,
        fragmentation=cycle.ledger.now.fragmentation(),
    )


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
            demand_milli=cycle.state.demand.milli[branch],
            entitlement_milli=cycle.entitled[branch],
        )


def findings(cycle: PoolCycle) -> Iterable[Finding]:
    """What is legal but worth a warning: too large guarantees, use above a ceiling, several GPU types, overcommitted
    devices."""
    pool, capacity = cycle.pool, cycle.nodes.capacity_milli
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
        {device.gpu_type for node in cycle.nodes.rows for device in node.devices if device.gpu_type}
    )
    if guaranteed and len(types) > 1:
        text = f"The pool {pool.name} has {', '.join(types)}; a guarantee is a number of any of them."
        yield Finding(FindingCode.MIXED_GPU_TYPES, pool.id, None, text)
    yield from overcommitted(cycle)


def overcommitted(cycle: PoolCycle) -> Iterator[Finding]:
    """A finding for each device that is held, or promised, beyond what it has, by node and index."""
    nodes, ledger = cycle.nodes, cycle.ledger
    short = [
        rank for rank, node_free in enumerate(ledger.now.free) if node_free.gpu and min(node_free.gpu) < 0
    ]
    if not short:
        return
    promised = _promised(cycle)
    for rank in short:
        node = nodes.rows[rank]
        for at, device in enumerate(node.devices):
            most = 0 if device.foreign else device.share_milli
            held = most - ledger.now.free[rank].gpu[at] - promised[rank, at]
            milli = max(held, most - ledger.later.free[rank].gpu[at])
            if milli > most:
                has = "is used by others" if device.foreign else f"has {in_gpus(most)}"
                lie = "lies" if milli == GPU_MILLI else "lie"
                text = (
                    f"On the device {device.index} of the node {node.name} {lie} {gpus(milli)}, but it {has}."
                )
                yield Finding(FindingCode.OVERCOMMITTED, cycle.pool.id, None, text)


def _promised(cycle: PoolCycle) -> Counter[tuple[int, int]]:
    """What of each device is promised to those whose pods do not exist yet."""
    found: Counter[tuple[int, int]] = Counter()
    of_pool = (
        (each.workload, each.pods) for each in chain(cycle.state.not_running(), cycle.started.values())
    )
    guests = ((guest, guest.placements) for guest in cycle.ledger.guests.values())
    for workload, pods in chain(of_pool, guests):
        if workload.status in (OpenStatus.QUEUED, OpenStatus.PENDING):
            for pod in pods:
                rank, picks = cycle.ledger.spot(pod) or (0, ())
                for at, milli in picks:
                    found[rank, at] += milli
    return found


Parts = tuple[Allocation, ...]


class Allocations:
    """Whose guarantee each workload counts against: elastic work uses what reserved work leaves of its team's own part,
    in order of admission, and bursts with the rest."""

    def __init__(self, cycle: PoolCycle) -> None:
        self._cycle = cycle
        self._elastic: dict[tuple[int, bool], dict[str, Parts]] = {}
        self._started: dict[int, list[PlacedWorkload]] = {}
        for placed in cycle.started.values():
            if not placed.reserved:
                self._started.setdefault(placed.leaf, []).append(placed)

    def of(self, placed: PlacedWorkload) -> Parts:
        """That of a workload."""
        if placed.reserved:
            return tuple(self._cycle.allocations.get(placed.workload.id, ()))
        key = (placed.leaf, placed.fresh)
        found = self._elastic.get(key)
        if found is None:
            found = self._elastic[key] = self._in_team(placed)
        return found[placed.workload.id]

    def _in_team(self, one: PlacedWorkload) -> dict[str, Parts]:
        """Those of a team's elastic workloads that have just started, or of those that were there before."""
        cycle, team = self._cycle, one.workload.team
        left = cycle.charges.left[cycle.tree.team_branch[team]]
        elastic = list(cycle.state.elastic_on(one.leaf))
        if one.fresh:
            left = max(0, left - sum([each.milli for each in elastic]))
            elastic = self._started[one.leaf]
        elif left:  # else all burst, whoever was first
            elastic.sort(key=lambda each: admission_order(each.workload))
        found = {}
        for placed in elastic:
            inside = min(placed.milli, left)
            left -= inside
            found[placed.workload.id] = self._parts(team, inside, placed.milli - inside)
        return found

    def _parts(self, team: str, inside: int, bursts: int) -> Parts:
        parts = (Allocation(team, inside), Allocation(None, bursts))
        return tuple([part for part in parts if part.milli])
