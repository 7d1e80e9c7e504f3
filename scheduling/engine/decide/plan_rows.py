"""The decisions of a cycle as a plan: starts, scaling, preemptions, start reservations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduling.engine.backfill.passing import BlockedHead
from scheduling.engine.model.plan import Expiry, Grow, Plan, Preemption, Shrink, Start, StartReservation
from scheduling.engine.model.snapshot import Queueing
from scheduling.engine.pool.pool_cycle import PoolCycle
from scheduling.engine.preemption.victims import PlacedWorkload
from scheduling.engine.reasons import waiting
from scheduling.engine.reasons.figures import Allocations, Parts
from scheduling.engine.reasons.report import Grown, PlanReport, by_id


def plan_of(
    cycles: Mapping[str, PoolCycle],
    grown: Mapping[str, Grown],
    expired: Iterable[Expiry],
    report: PlanReport,
) -> Plan:
    """What the cycles of all pools have decided, as one plan."""
    starts: list[Start] = []
    grows: list[Grow] = []
    shrinks: list[Shrink] = []
    preemptions: list[Preemption] = []
    for pool_id, cycle in cycles.items():
        allocations = Allocations(cycle)
        starts.extend(_start(cycle, each, allocations.of(each)) for each in cycle.started.values())
        shrunk = (
            each
            for each in cycle.touched.values()
            if each.shrunk and each.workload.id in cycle.placed_workloads
        )
        shrinks.extend(_shrink(cycle, each, allocations.of(each)) for each in shrunk)
        for id_, pods in grown[pool_id].items():
            if id_ not in cycle.started:
                placed = cycle.placed_workloads[id_]
                grows.append(Grow(id_, pool_id, tuple(pods), allocations.of(placed)))
        preemptions.extend(_preemptions(cycle))
    return Plan(
        starts=tuple(sorted(starts, key=by_id)),
        grows=tuple(sorted(grows, key=by_id)),
        keeps=report.keeps,
        shrinks=tuple(sorted(shrinks, key=by_id)),
        preemptions=tuple(sorted(preemptions, key=by_id)),
        waits=report.waits,
        reservations=tuple(
            _reservation(cycle, cycle.head)
            for cycle in cycles.values()
            if cycle.head is not None
            if cycle.pool.policy.queueing is Queueing.BACKFILL
        ),
        pools=report.pools,
        teams=report.teams,
        findings=report.findings,
        expiries=tuple(sorted(expired, key=by_id)),
    )


def _start(cycle: PoolCycle, placed: PlacedWorkload, allocation: Parts) -> Start:
    waits = placed.waits_for_victims(cycle.ledger)
    return Start(
        workload=placed.workload.id,
        pool=cycle.pool.id,
        placements=placed.pods,
        allocation=allocation,
        victims=tuple(placed.victims),
        waits_for_victims=waits,
        reason=waiting.waiting_for_victims(placed.milli) if waits else None,
    )


def _shrink(cycle: PoolCycle, placed: PlacedWorkload, allocation: Parts) -> Shrink:
    taken = cycle.taken[placed.workload.id]
    first, pods = taken[0], [pod for each in taken for pod in each.pods]
    by = first.by.workload
    milli = sum(pod.milli for pod in pods)
    return Shrink(
        workload=placed.workload.id,
        pool=cycle.pool.id,
        pods=tuple(sorted(pod.pod_index for pod in pods)),
        allocation=allocation,
        by=by.id,
        by_team=by.team,
        rule=first.rule,
        level=first.level,
        reason=waiting.shrunk(first.rule, cycle.tree.team_name(first.by.leaf), len(pods), milli, first.level),
    )


def _preemptions(cycle: PoolCycle) -> Iterable[Preemption]:
    """The workloads that were preempted whole."""
    for placed in cycle.touched.values():
        workload = placed.workload
        if workload.id in cycle.placed_workloads:
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
            reason=waiting.preempted(first.rule, cycle.tree.team_name(first.by.leaf), milli, first.level),
        )


def _reservation(cycle: PoolCycle, head: BlockedHead) -> StartReservation:
    nodes = tuple(cycle.nodes.rows[rank].id for rank in sorted(head.earliest.extra))
    return StartReservation(head.candidate.id, cycle.pool.id, nodes, head.earliest.at)
