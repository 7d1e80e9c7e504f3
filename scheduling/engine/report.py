"""The plan as it is handed out: decisions, reasons, positions, ETAs and figures (sections 3 and 9)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from heapq import merge
from operator import attrgetter

from scheduling.engine import reasons
from scheduling.engine.candidate import Blocked, Cause
from scheduling.engine.cycle import PoolCycle, admission_order
from scheduling.engine.eta import Forecast
from scheduling.engine.figures import findings, pool_figures, team_figures
from scheduling.engine.standing import Standing
from scheduling.engine.state import State
from scheduling.engine.types import (
    PLACED,
    Allocation,
    Eta,
    Grow,
    Keep,
    Plan,
    PodPlacement,
    Preemption,
    Queueing,
    Reason,
    Shrink,
    Start,
    StartReservation,
    Status,
    Wait,
    Workload,
)

Grown = Mapping[str, list[PodPlacement]]
Out = Iterable[tuple[Workload, str | None, Reason]]


def plan_of(state: State, cycles: Mapping[str, PoolCycle], grown: Mapping[str, Grown], out: Out) -> Plan:
    """Everything the cycles of all pools have decided, as one plan."""
    starts: list[Start] = []
    grows: list[Grow] = []
    keeps: list[Keep] = []
    shrinks: list[Shrink] = []
    preemptions: list[Preemption] = []
    waits: list[Wait] = []
    for pool_id, cycle in cycles.items():
        allocations = _allocations(cycle)
        for standing in cycle.standings.values():
            allocation = allocations[standing.workload.id]
            if standing.fresh:
                starts.append(_start(cycle, standing, allocation))
            elif standing.shrunk:
                shrinks.append(_shrink(cycle, standing, allocation))
            elif standing.workload.id in grown[pool_id]:
                new = tuple(grown[pool_id][standing.workload.id])
                grows.append(Grow(standing.workload.id, pool_id, new, allocation))
            else:
                keeps.append(_keep(cycle, standing, allocation))
        keeps.extend(Keep(workload.id, pool_id, (), None) for workload in cycle.stopping)
        preemptions.extend(_preemptions(cycle, state.placed[pool_id]))
        waits.extend(_waits(cycle))
    order = {pool.id: at for at, pool in enumerate(state.pools)}
    rest = sorted(
        (_out(entry) for entry in out), key=lambda each: (order.get(each.pool or "", -1), each.workload)
    )
    waits = list(merge(waits, rest, key=lambda each: (order.get(each.pool or "", -1), each.position is None)))
    by_id = attrgetter("workload")
    return Plan(
        starts=tuple(sorted(starts, key=by_id)),
        grows=tuple(sorted(grows, key=by_id)),
        keeps=tuple(sorted(keeps, key=by_id)),
        shrinks=tuple(sorted(shrinks, key=by_id)),
        preemptions=tuple(sorted(preemptions, key=by_id)),
        waits=tuple(waits),
        reservations=tuple(_reservation(cycle) for cycle in cycles.values() if _reserves(cycle)),
        pools=tuple(pool_figures(cycle) for cycle in cycles.values()),
        teams=tuple(figure for cycle in cycles.values() for figure in team_figures(cycle)),
        findings=tuple(finding for cycle in cycles.values() for finding in findings(cycle)),
    )


def _allocations(cycle: PoolCycle) -> dict[str, tuple[Allocation, ...]]:
    """Whose guarantee everybody counts against: what reserved ones leave of a team's own part its elastic ones use,
    in order of admission, and burst with the rest."""
    left = list(cycle.charges.left)
    kept = sorted((each for each in cycle.standings.values() if not each.fresh), key=_admitted)
    found = {}
    for standing in [*kept, *(each for each in cycle.standings.values() if each.fresh)]:
        id_ = standing.workload.id
        if standing.workload.reserved:
            found[id_] = tuple(cycle.allocations.get(id_, ()))
            continue
        team = cycle.tree.team_branch[standing.workload.team]
        inside = min(standing.milli, left[team])
        left[team] -= inside
        parts = (Allocation(standing.workload.team, inside), Allocation(None, standing.milli - inside))
        found[id_] = tuple(part for part in parts if part.milli)
    return found


def _admitted(standing: Standing) -> tuple[bool, int, int, str]:
    return admission_order(standing.workload)


def _start(cycle: PoolCycle, standing: Standing, allocation: tuple[Allocation, ...]) -> Start:
    waits = cycle.ledger.waits(standing.pods)
    return Start(
        workload=standing.workload.id,
        pool=cycle.pool.id,
        placements=tuple(standing.pods),
        allocation=allocation,
        victims=tuple(standing.victims),
        waits_for_victims=waits,
        reason=reasons.waiting_for_victims(standing.milli) if waits else None,
    )


def _keep(cycle: PoolCycle, standing: Standing, allocation: tuple[Allocation, ...]) -> Keep:
    waits = standing.workload.status is Status.QUEUED and cycle.ledger.waits(standing.pods)
    reason = reasons.waiting_for_victims(standing.milli) if waits else None
    return Keep(standing.workload.id, cycle.pool.id, allocation, reason)


def _shrink(cycle: PoolCycle, standing: Standing, allocation: tuple[Allocation, ...]) -> Shrink:
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


def _preemptions(cycle: PoolCycle, placed: Iterable[Workload]) -> Iterable[Preemption]:
    """Those who are not standing any more."""
    for workload in placed:
        if workload.status not in PLACED or workload.id in cycle.standings:
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
    forecast = Forecast(cycle)
    free = cycle.ledger.free_milli()
    known: dict[tuple[Hashable, ...], Reason] = {}
    for position, blocked in enumerate(cycle.waiting.values(), start=1):
        alike = _alike(blocked)
        reason = known.get(alike)
        if reason is None:
            reason = known[alike] = _reason(cycle, blocked, free)
        yield Wait(blocked.candidate.id, cycle.pool.id, position, reason, forecast.next(blocked))


def _alike(blocked: Blocked) -> tuple[Hashable, ...]:
    """What the reason depends on."""
    candidate, cause = blocked.candidate, blocked.cause
    if cause is Cause.PLACE:
        return (cause, candidate.next_milli, candidate.ask.topology.required)
    if cause is Cause.BEHIND:
        return (cause, candidate.next_milli, blocked.ahead)
    return (cause, candidate.next_milli, candidate.leaf, blocked.available, blocked.ceiling)


def _reason(cycle: PoolCycle, blocked: Blocked, free: int) -> Reason:
    """The reason in words, with what is free after the plan."""
    candidate = blocked.candidate
    asked = candidate.next_milli
    if blocked.cause is Cause.RESERVATION:
        return reasons.waiting_for_reservation(
            cycle.tree, cycle.charges, candidate.leaf, asked, blocked.available
        )
    if blocked.cause is Cause.CEILING and blocked.ceiling is not None:
        return reasons.waiting_for_ceiling(cycle.tree, blocked.ceiling, asked)
    if blocked.cause is Cause.BEHIND:
        return reasons.behind_reservation(asked, free, blocked.ahead)
    return reasons.waiting_for_place(cycle.pool, asked, free, level=candidate.ask.topology.required)


def _out(entry: tuple[Workload, str | None, Reason]) -> Wait:
    workload, pool_id, reason = entry
    why = "It is not in the queue."
    if workload.backing_off_until is not None and reason.code is reason.code.BACKING_OFF:
        return Wait(workload.id, pool_id, None, reason, Eta(workload.backing_off_until, None, why))
    return Wait(workload.id, pool_id, None, reason, Eta(None, None, why))


def _reserves(cycle: PoolCycle) -> bool:
    return cycle.head is not None and cycle.pool.policy.queueing is Queueing.BACKFILL


def _reservation(cycle: PoolCycle) -> StartReservation:
    head = cycle.head
    if head is None:
        raise ValueError("no start reservation")
    nodes = tuple(cycle.fleet.nodes[rank].id for rank in sorted(head.kept.spare))
    return StartReservation(head.candidate.id, cycle.pool.id, nodes, head.kept.at)
