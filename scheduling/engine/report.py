"""The plan as it is handed out: decisions, reasons, positions, ETAs and figures (sections 3 and 9)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import merge
from operator import attrgetter

from scheduling.engine import reasons
from scheduling.engine.cycle import PoolCycle
from scheduling.engine.eta import Forecast
from scheduling.engine.figures import findings, pool_figures, team_figures
from scheduling.engine.model.plan import (
    Allocation,
    Eta,
    Finding,
    Grow,
    Keep,
    Late,
    Plan,
    PoolFigures,
    Preemption,
    Reason,
    ReasonCode,
    Shrink,
    Start,
    StartReservation,
    TeamFigures,
    Wait,
)
from scheduling.engine.model.snapshot import PodPlacement, Queueing, Slicing, Workload
from scheduling.engine.obstacles import is_of_type
from scheduling.engine.placement.free import pods_in
from scheduling.engine.placement.node_eligibility import Usable
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.queue.candidate import Blocked, Cause
from scheduling.engine.quota.charging import admission_order
from scheduling.engine.standing import Standing
from scheduling.engine.state import State

by_id = attrgetter("workload")
Grown = Mapping[str, list[PodPlacement]]
Parts = tuple[Allocation, ...]


def plan_of(
    cycles: Mapping[str, PoolCycle], grown: Mapping[str, Grown], report: Callable[[], Report]
) -> Plan:
    """Everything the cycles of all pools have decided, as one plan; what changes nothing when somebody looks."""
    starts: list[Start] = []
    grows: list[Grow] = []
    shrinks: list[Shrink] = []
    preemptions: list[Preemption] = []
    for pool_id, cycle in cycles.items():
        allocations = _Allocations(cycle)
        starts.extend(_start(cycle, each, allocations.of(each)) for each in cycle.started.values())
        shrunk = (
            each for each in cycle.touched.values() if each.shrunk and each.workload.id in cycle.standings
        )
        shrinks.extend(_shrink(cycle, each, allocations.of(each)) for each in shrunk)
        for id_, pods in grown[pool_id].items():
            if id_ not in cycle.started:
                standing = cycle.standings[id_]
                grows.append(Grow(id_, pool_id, tuple(pods), allocations.of(standing)))
        preemptions.extend(_preemptions(cycle))
    return Plan(
        starts=tuple(sorted(starts, key=by_id)),
        grows=tuple(sorted(grows, key=by_id)),
        keeps=Late(lambda: report().keeps),
        shrinks=tuple(sorted(shrinks, key=by_id)),
        preemptions=tuple(sorted(preemptions, key=by_id)),
        waits=Late(lambda: report().waits),
        reservations=tuple(_reservation(cycle) for cycle in cycles.values() if _reserves(cycle)),
        pools=Late(lambda: report().pools),
        teams=Late(lambda: report().teams),
        findings=Late(lambda: report().findings),
    )


@dataclass(frozen=True, slots=True)
class Report:
    """What a plan tells of those whom it leaves as they are, and the figures."""

    keeps: Sequence[Keep]
    waits: Sequence[Wait]
    pools: Sequence[PoolFigures]
    teams: Sequence[TeamFigures]
    findings: Sequence[Finding]

    @classmethod
    def of(
        cls, state: State, cycles: Mapping[str, PoolCycle], grown: Mapping[str, Grown], now: int
    ) -> Report:
        """The report of cycles that are over."""
        keeps = [keep for pool_id, cycle in cycles.items() for keep in _keeps(cycle, grown[pool_id])]
        keeps.extend(Keep(stray.id, stray.pool or "", (), None) for stray in state.oddities.strays)
        return cls(
            tuple(sorted(keeps, key=by_id)),
            _all_waits(state, cycles, now),
            tuple(pool_figures(cycle) for cycle in cycles.values()),
            tuple(figure for cycle in cycles.values() for figure in team_figures(cycle)),
            (*state.oddities.findings(), *(each for cycle in cycles.values() for each in findings(cycle))),
        )

    @classmethod
    def again(cls, plan: Plan) -> Report:
        """The report of a plan."""
        return cls(plan.keeps, plan.waits, plan.pools, plan.teams, plan.findings)


def _all_waits(state: State, cycles: Mapping[str, PoolCycle], now: int) -> tuple[Wait, ...]:
    """Those who wait: by pool, first those in its queue."""
    order = {pool.id: at for at, pool in enumerate(state.pools)}

    def place(wait: Wait) -> int:
        return order.get(wait.pool or "", -1)

    out = [_out(state.workload(id_), *out, now) for id_, out in state.out.items()]
    out.sort(key=lambda wait: (place(wait), wait.workload))
    waits = [wait for cycle in cycles.values() for wait in _waits(cycle)]
    return tuple(merge(waits, out, key=lambda wait: (place(wait), wait.position is None)))


def _keeps(cycle: PoolCycle, grown: Grown) -> Iterable[Keep]:
    """Those who stay as they are, and those who are stopping."""
    allocations = _Allocations(cycle)
    for standing in cycle.standings.values():
        if not (standing.fresh or standing.shrunk or standing.workload.id in grown):
            yield _keep(cycle, standing, allocations.of(standing))
    yield from (Keep(id_, cycle.pool.id, (), None) for id_ in cycle.books.stopping)


class _Allocations:
    """Whose guarantee everybody counts against: what reserved ones leave of a team's own part its elastic ones use,
    in order of admission, and burst with the rest."""

    def __init__(self, cycle: PoolCycle) -> None:
        self._cycle = cycle
        self._elastic: dict[tuple[int, bool], dict[str, Parts]] = {}
        self._alike: dict[tuple[str, int, int], Parts] = {}
        self._started: dict[int, list[Standing]] = {}
        for standing in cycle.started.values():
            if not standing.reserved:
                self._started.setdefault(standing.leaf, []).append(standing)

    def of(self, standing: Standing) -> Parts:
        """That of a workload."""
        if standing.reserved:
            return tuple(self._cycle.allocations.get(standing.workload.id, ()))
        key = (standing.leaf, standing.fresh)
        found = self._elastic.get(key)
        if found is None:
            found = self._elastic[key] = self._in_team(standing)
        return found[standing.workload.id]

    def _in_team(self, one: Standing) -> dict[str, Parts]:
        """Those of all elastic workloads of a team that have just started, if that is one of them, or of all that were
        there before."""
        cycle, team = self._cycle, one.workload.team
        there, on_leaf = cycle.standings, cycle.books.on_leaf[one.leaf]
        left = cycle.charges.left[cycle.tree.team_branch[team]]
        elastic = [each for id_, each in on_leaf.items() if not each.reserved and id_ in there]
        if one.fresh:
            left = max(0, left - sum([each.milli for each in elastic]))
            elastic = self._started[one.leaf]
        elif left:  # else all burst, whoever was first
            elastic.sort(key=lambda each: admission_order(each.workload))
        found = {}
        for standing in elastic:
            inside = min(standing.milli, left)
            left -= inside
            found[standing.workload.id] = self._parts(team, inside, standing.milli - inside)
        return found

    def _parts(self, team: str, inside: int, bursts: int) -> Parts:
        """So much inside a team's own part, and so much that bursts: one object for all with the same."""
        found = self._alike.get((team, inside, bursts))
        if found is None:
            parts = (Allocation(team, inside), Allocation(None, bursts))
            found = self._alike[team, inside, bursts] = tuple([part for part in parts if part.milli])
        return found


def _start(cycle: PoolCycle, standing: Standing, allocation: Parts) -> Start:
    waits = standing.waits_for_victims(cycle.ledger)
    return Start(
        workload=standing.workload.id,
        pool=cycle.pool.id,
        placements=standing.pods,
        allocation=allocation,
        victims=tuple(standing.victims),
        waits_for_victims=waits,
        reason=reasons.waiting_for_victims(standing.milli) if waits else None,
    )


def _keep(cycle: PoolCycle, standing: Standing, allocation: Parts) -> Keep:
    waits = standing.waits_for_victims(cycle.ledger)
    reason = reasons.waiting_for_victims(standing.milli) if waits else None
    return Keep(standing.workload.id, cycle.pool.id, allocation, reason)


def _shrink(cycle: PoolCycle, standing: Standing, allocation: Parts) -> Shrink:
    taken = cycle.taken[standing.workload.id]
    first, pods = taken[0], [pod for each in taken for pod in each.pods]
    by = first.by.workload
    milli = sum(pod.milli for pod in pods)
    return Shrink(
        workload=standing.workload.id,
        pool=cycle.pool.id,
        pods=tuple(sorted(pod.pod_index for pod in pods)),
        allocation=allocation,
        by=by.id,
        by_team=by.team,
        rule=first.rule,
        level=first.level,
        reason=reasons.shrunk(first.rule, cycle.tree.team_name(first.by.leaf), len(pods), milli, first.level),
    )


def _preemptions(cycle: PoolCycle) -> Iterable[Preemption]:
    """Those who are not standing any more."""
    for standing in cycle.touched.values():
        workload = standing.workload
        if workload.id in cycle.standings:
            continue
        first = cycle.taken[workload.id][0]
        milli = sum(pod.milli for pod in workload.placements)
        yield Preemption(
            workload=workload.id,
            pool=cycle.pool.id,
            milli=milli,
            by=first.by.id,
            by_team=first.by.workload.team,
            rule=first.rule,
            level=first.level,
            lost_gpu_ms=sum(each.lost_gpu_ms for each in cycle.taken[workload.id]),
            reason=reasons.preempted(first.rule, cycle.tree.team_name(first.by.leaf), milli, first.level),
        )


def _waits(cycle: PoolCycle) -> Iterable[Wait]:
    """Those whose turn came in vain, in the order in which it came."""
    forecast, free = Forecast(cycle), _Free(cycle)
    known: dict[tuple[Hashable, ...], Reason] = {}
    for position, blocked in enumerate(cycle.waiting.values(), start=1):
        alike = _alike(blocked, free)
        reason = known.get(alike)
        if reason is None:
            reason = known[alike] = _reason(cycle, blocked, free)
        yield Wait(blocked.candidate.id, cycle.pool.id, position, reason, forecast.of(blocked))


class _Free:
    """What is free in a pool after the plan, for a request."""

    def __init__(self, cycle: PoolCycle) -> None:
        self._nodes = cycle.nodes
        self._pool_nodes = cycle.books.pool_nodes
        self._by_kind = cycle.ledger.free_by_kind()
        self._free = cycle.ledger.now.free
        self._known: dict[PodRequest, int] = {}
        self._shared: dict[PodRequest, int] = {}
        self._in_sight: dict[tuple[tuple[str, ...], bool], int] = {}
        self._closed: dict[tuple[PodRequest, int], tuple[int, ...]] = {}

    def of(self, request: PodRequest) -> int:
        """What is free of the devices that its pods may use, whether or not they fit there."""
        found = self._known.get(request)
        if found is None:
            found = self._known[request] = self._on(self._nodes.usable(request))
        return found

    def shared(self, request: PodRequest) -> int:
        """What is free of devices that its pods could use if others did not share them."""
        if request.whole:
            return 0
        found = self._shared.get(request)
        if found is None:
            usable = self._nodes.usable(request, closed_too=True)
            found = self._shared[request] = self._on(usable) - self.of(request)
        return found

    def _on(self, devices: Iterable[Usable]) -> int:
        return sum(
            left
            for usable in devices
            for left, cost in zip(self._by_kind[usable.number], usable.costs, strict=True)
            if cost
        )

    def besides(self, request: PodRequest) -> int:
        """What is free of GPUs, whether or not the request may use them; of slices only types that it takes."""
        key = (request.gpu_types, bool(request.whole))
        found = self._in_sight.get(key)
        if found is None:
            found = self._in_sight[key] = sum(
                left
                for kind, free in zip(self._nodes.classes, self._by_kind, strict=True)
                for device, left in zip(kind.devices, free, strict=True)
                if device.slicing is Slicing.WHOLE or is_of_type(device, request)
            )
        return found

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
        figures = free.of(request), free.besides(request), free.shared(request)
        return (cause, candidate.next_milli, request.topology.required, figures, closed)
    if cause is Cause.BEHIND:
        return (cause, candidate.next_milli, blocked.ahead, free.of(candidate.request))
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
        return reasons.waiting_for_reservation(cycle.tree, charges, leaf, asked, left, pool=cycle.pool)
    if blocked.cause is Cause.CEILING and blocked.ceiling is not None:
        passed = charges.ceiling_passed(leaf, asked, reserved=candidate.reserved)
        left = charges.available(leaf)
        if candidate.reserved and passed is not None and not passed.by_maximum and left < asked:
            # What it was blocked by is not what it lacks now: others have used up its guarantee since.
            return reasons.waiting_for_reservation(cycle.tree, charges, leaf, asked, left, pool=cycle.pool)
        return reasons.waiting_for_ceiling(cycle.tree, passed or blocked.ceiling, asked)
    if blocked.cause is Cause.BEHIND:
        at = cycle.head.kept.at if cycle.head is not None else None
        timed = at is not None and at > cycle.now
        available, strict = free.of(candidate.request), cycle.gate.shut
        return reasons.behind_reservation(asked, available, blocked.ahead, strict=strict, timed=timed)
    request, level = candidate.request, candidate.request.topology.required
    closed = [cycle.nodes.rows[rank] for rank in free.closed(request, candidate.pods)]
    return reasons.waiting_for_place(
        cycle.pool,
        asked,
        free.of(request),
        free.besides(request),
        level=level,
        shared=free.shared(request),
        closed=closed,
    )


def _out(workload: Workload, pool_id: str | None, reason: Reason, now: int) -> Wait:
    """Somebody who is in no queue."""
    why = "It is not in the queue."
    if reason.code is ReasonCode.BACKING_OFF:
        due = reasons.of_workload(workload, now) or reason
        return Wait(workload.id, pool_id, None, due, Eta(workload.backing_off_until, None, why))
    return Wait(workload.id, pool_id, None, reason, Eta(None, None, why))


def _reserves(cycle: PoolCycle) -> bool:
    return cycle.head is not None and cycle.pool.policy.queueing is Queueing.BACKFILL


def _reservation(cycle: PoolCycle) -> StartReservation:
    head = cycle.head
    if head is None:
        raise ValueError("no start reservation")
    nodes = tuple(cycle.nodes.rows[rank].id for rank in sorted(head.kept.spare))
    return StartReservation(head.candidate.id, cycle.pool.id, nodes, head.kept.at)
