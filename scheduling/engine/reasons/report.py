"""The plan as it is handed out: decisions, reasons, positions, ETAs and figures (sections 3 and 9)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import merge
from operator import attrgetter
from typing import NamedTuple

from scheduling.engine.model.plan import (
    Eta,
    Finding,
    Keep,
    Plan,
    PoolFigures,
    Reason,
    ReasonCode,
    TeamFigures,
    Wait,
)
from scheduling.engine.model.repair import Oddities
from scheduling.engine.model.snapshot import PodPlacement, PoolInfo, Slicing, WorkloadInfo
from scheduling.engine.placement.free import pods_in
from scheduling.engine.placement.node_eligibility import Usable
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.pool.pool_cycle import PoolCycle
from scheduling.engine.preemption.victims import PlacedWorkload
from scheduling.engine.queue.candidate import Blocked, Cause
from scheduling.engine.reasons import sentences, waiting_sentences
from scheduling.engine.reasons.eta import Forecast
from scheduling.engine.reasons.figures import Allocations, Parts, findings, pool_figures, team_figures
from scheduling.engine.reasons.misfits import is_of_type

by_id = attrgetter("workload")
Grown = Mapping[str, list[PodPlacement]]


class Outsider(NamedTuple):
    """A workload in no queue, the pool that the reason speaks of, and the reason."""

    workload: WorkloadInfo
    pool: str | None
    reason: Reason


@dataclass(frozen=True, slots=True)
class PlanReport:
    """What a plan tells of the workloads that it leaves as they are, and the figures."""

    keeps: Sequence[Keep]
    waits: Sequence[Wait]
    pools: Sequence[PoolFigures]
    teams: Sequence[TeamFigures]
    findings: Sequence[Finding]

    @classmethod
    def of(
        cls,
        pools: Sequence[PoolInfo],
        outsiders: Iterable[Outsider],
        oddities: Oddities,
        cycles: Mapping[str, PoolCycle],
        *,
        grown: Mapping[str, Grown],
        now: int,
    ) -> PlanReport:
        """The report of cycles that are over."""
        keeps = [keep for pool_id, cycle in cycles.items() for keep in _keeps(cycle, grown[pool_id])]
        keeps.extend(Keep(stray.id, stray.pool or "", (), None) for stray in oddities.strays)
        return cls(
            tuple(sorted(keeps, key=by_id)),
            _all_waits(pools, outsiders, cycles, now),
            tuple(pool_figures(cycle) for cycle in cycles.values()),
            tuple(figure for cycle in cycles.values() for figure in team_figures(cycle)),
            (*oddities.findings(), *(each for cycle in cycles.values() for each in findings(cycle))),
        )

    @classmethod
    def again(cls, plan: Plan) -> PlanReport:
        """The report of a plan."""
        return cls(plan.keeps, plan.waits, plan.pools, plan.teams, plan.findings)


def _all_waits(
    pools: Sequence[PoolInfo], outsiders: Iterable[Outsider], cycles: Mapping[str, PoolCycle], now: int
) -> tuple[Wait, ...]:
    """The workloads that wait: by pool, first those in its queue."""
    order = {pool.id: at for at, pool in enumerate(pools)}

    def place(wait: Wait) -> int:
        return order.get(wait.pool or "", -1)

    out = [_out(each, now) for each in outsiders]
    out.sort(key=lambda wait: (place(wait), wait.workload))
    waits = [wait for cycle in cycles.values() for wait in _waits(cycle)]
    return tuple(merge(waits, out, key=lambda wait: (place(wait), wait.position is None)))


def _keeps(cycle: PoolCycle, grown: Grown) -> Iterable[Keep]:
    """The workloads that stay as they are, and those that are stopping."""
    allocations = Allocations(cycle)
    for placed in cycle.placed_workloads.values():
        if not (placed.fresh or placed.shrunk or placed.workload.id in grown):
            yield _keep(cycle, placed, allocations.of(placed))
    yield from (Keep(id_, cycle.pool.id, (), None) for id_ in cycle.state.stopping)


def _keep(cycle: PoolCycle, placed: PlacedWorkload, allocation: Parts) -> Keep:
    waits = placed.waits_for_victims(cycle.ledger)
    reason = waiting_sentences.waiting_for_victims(placed.milli) if waits else None
    return Keep(placed.workload.id, cycle.pool.id, allocation, reason)


def _waits(cycle: PoolCycle) -> Iterable[Wait]:
    """The blocked workloads, in the order of their turns."""
    forecast, free = Forecast(cycle), _Free(cycle)
    known: dict[tuple[Hashable, ...], Reason] = {}
    for position, blocked in enumerate(cycle.waiting.values(), start=1):
        alike = _alike(blocked, free)
        reason = known.get(alike)
        if reason is None:
            reason = known[alike] = _reason(cycle, blocked, free)
        yield Wait(blocked.candidate.id, cycle.pool.id, position, reason, forecast.of(blocked))


class FreeFigures(NamedTuple):
    """What is free for a request: of devices that its pods may use (whether or not they fit), of all GPUs in sight, and
    of devices that its pods could use if others did not share them."""

    usable: int
    besides: int
    shared: int


class _Free:
    """What is free in a pool after the plan, for a request."""

    def __init__(self, cycle: PoolCycle) -> None:
        self._nodes = cycle.nodes
        self._pool_nodes = cycle.pool_nodes
        self._by_kind = cycle.ledger.free_by_kind()
        self._free = cycle.ledger.now.free
        self._known: dict[PodRequest, FreeFigures] = {}
        self._closed: dict[tuple[PodRequest, int], tuple[int, ...]] = {}

    def of(self, request: PodRequest) -> FreeFigures:
        """What is free for the pods of a request."""
        found = self._known.get(request)
        if found is None:
            usable = self._on(self._nodes.usable(request))
            shared = 0 if request.whole else self._on(self._nodes.usable(request, closed_too=True)) - usable
            found = self._known[request] = FreeFigures(usable, self._besides(request), shared)
        return found

    def _on(self, devices: Iterable[Usable]) -> int:
        return sum(
            left
            for usable in devices
            for left, cost in zip(self._by_kind[usable.number], usable.costs, strict=True)
            if cost
        )

    def _besides(self, request: PodRequest) -> int:
        """What is free of GPUs, whether or not the request may use them; of slices only types that it takes."""
        return sum(
            left
            for kind, free in zip(self._nodes.classes, self._by_kind, strict=True)
            for device, left in zip(kind.devices, free, strict=True)
            if device.slicing is Slicing.WHOLE or is_of_type(device, request)
        )

    @cached_property
    def _out_of_service(self) -> list[int]:
        if self._pool_nodes.everything is self._nodes:
            return []
        counts = self._nodes.service.counts
        return [rank for rank, node in enumerate(self._nodes.rows) if not counts(node)]

    def closed(self, request: PodRequest, pods: int) -> tuple[int, ...]:
        """The nodes out of service, by rank, that would take a pod now, where so many would start with them."""
        if not self._out_of_service:
            return ()
        found = self._closed.get((request, pods))
        if found is None:
            found = self._closed[request, pods] = self._closed_to(request, pods)
        return found

    def _closed_to(self, request: PodRequest, pods: int) -> tuple[int, ...]:
        everything, free = self._pool_nodes.everything, self._free
        takers = {rank for rank in self._out_of_service if everything.holds(request, rank, free[rank])}
        levels = everything.domains(request) if takers else ()
        found: set[int] = set()
        for domain in levels[-1] if levels else ():
            there = {rank: pods_in(free[rank], costs, request) for rank, costs in everything.ranks(domain)}
            if sum(there.values()) >= pods:
                found |= takers & there.keys()
        return tuple(sorted(found))


def _alike(blocked: Blocked, free: _Free) -> tuple[Hashable, ...]:
    """What the reason depends on."""
    candidate, cause = blocked.candidate, blocked.cause
    if cause is Cause.PLACE:
        request = candidate.request
        closed = free.closed(request, candidate.pods)
        return (cause, candidate.next_milli, request.topology.required, free.of(request), closed)
    if cause is Cause.BEHIND:
        return (cause, candidate.next_milli, blocked.ahead, free.of(candidate.request).usable)
    return (
        cause,
        candidate.next_milli,
        candidate.leaf,
        candidate.reserved,
        blocked.available,
        blocked.ceiling,
    )


def _reason(cycle: PoolCycle, blocked: Blocked, free: _Free) -> Reason:
    """The cause in words, with what is free for it, or left of guarantees and ceilings, after the plan."""
    candidate = blocked.candidate
    asked = candidate.next_milli
    charges, leaf = cycle.charges, candidate.leaf
    if blocked.cause is Cause.GUARANTEE:
        left = min(blocked.available, charges.available(leaf))
        return waiting_sentences.waiting_for_reservation(
            cycle.tree, charges, leaf, asked, left, pool=cycle.pool
        )
    if blocked.cause is Cause.CEILING and blocked.ceiling is not None:
        passed = charges.ceiling_passed(leaf, asked, reserved=candidate.reserved)
        left = charges.available(leaf)
        if candidate.reserved and passed is not None and not passed.by_maximum and left < asked:
            # What it was blocked by is not what it lacks now: others have used up its guarantee since.
            return waiting_sentences.waiting_for_reservation(
                cycle.tree, charges, leaf, asked, left, pool=cycle.pool
            )
        return waiting_sentences.waiting_for_ceiling(cycle.tree, passed or blocked.ceiling, asked)
    if blocked.cause is Cause.BEHIND:
        at = cycle.head.earliest.at if cycle.head is not None else None
        timed = at is not None and at > cycle.now
        available, strict = free.of(candidate.request).usable, cycle.is_shut
        return waiting_sentences.behind_reservation(
            asked, available, blocked.ahead, strict=strict, timed=timed
        )
    request, level = candidate.request, candidate.request.topology.required
    figures = free.of(request)
    closed = [cycle.nodes.rows[rank] for rank in free.closed(request, candidate.pods)]
    return waiting_sentences.waiting_for_place(
        cycle.pool,
        asked,
        figures.usable,
        figures.besides,
        level=level,
        shared=figures.shared,
        closed=closed,
    )


def _out(outsider: Outsider, now: int) -> Wait:
    """A workload in no queue."""
    workload, pool_id, reason = outsider
    why = "It is not in the queue."
    if reason.code is ReasonCode.BACKING_OFF:
        due = sentences.of_workload(workload, now) or reason
        return Wait(workload.id, pool_id, None, due, Eta(workload.backing_off_until, None, why))
    return Wait(workload.id, pool_id, None, reason, Eta(None, None, why))
