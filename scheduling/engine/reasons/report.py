"""The plan as it is handed out: decisions, reasons, positions, ETAs and figures (sections 3 and 9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter
from typing import NamedTuple

from scheduling.engine.model.plan import (
    Eta,
    Finding,
    Keep,
    PoolFigures,
    Reason,
    ReasonCode,
    TeamFigures,
    Wait,
)
from scheduling.engine.model.repair import Oddities
from scheduling.engine.model.snapshot import PodPlacement, PoolInfo, WorkloadInfo
from scheduling.engine.pool.pool_cycle import PoolCycle
from scheduling.engine.reasons import sentences
from scheduling.engine.reasons.eta import Forecast
from scheduling.engine.reasons.figures import Allocations, findings, pool_figures, team_figures
from scheduling.engine.reasons.waiting import WaitReasons, waiting_for_victims

by_id = attrgetter("workload")
Grown = Mapping[str, list[PodPlacement]]


class Outsider(NamedTuple):
    """A workload in no queue, the pool that the reason speaks of, and the reason."""

    workload: WorkloadInfo
    pool: str | None
    reason: Reason


class PoolReport:
    """What a plan tells of one pool, once its cycle is over."""

    def __init__(self, cycle: PoolCycle, grown: Grown) -> None:
        self.cycle = cycle
        self._grown = grown
        self._reasons = self._wait_reasons()

    def _wait_reasons(self) -> WaitReasons:
        return WaitReasons(self.cycle)

    def _allocations(self) -> Allocations:
        return Allocations(self.cycle)

    def _forecast(self) -> Forecast:
        return Forecast(self.cycle)

    def keeps(self) -> Iterable[Keep]:
        """The workloads that stay as they are, and those that are stopping."""
        cycle, allocations = self.cycle, self._allocations()
        for id_, placed in cycle.placed_workloads.items():
            if not (placed.fresh or placed.shrunk or id_ in self._grown):
                waits = placed.waits_for_victims(cycle.ledger)
                reason = waiting_for_victims(placed.milli) if waits else None
                yield Keep(id_, cycle.pool.id, allocations.of(placed), reason)
        yield from (Keep(id_, cycle.pool.id, (), None) for id_ in cycle.state.stopping)

    def waits(self) -> Iterable[Wait]:
        """The blocked workloads, in the order of their turns."""
        blocked = list(self.cycle.waiting.values())
        etas = self._forecast().etas() if blocked else ()
        for position, (each, eta) in enumerate(zip(blocked, etas, strict=True), start=1):
            yield Wait(each.candidate.id, self.cycle.pool.id, position, self._reasons.of(each), eta)


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
        reports: Sequence[PoolReport],
        *,
        now: int,
    ) -> PlanReport:
        """The report of all pools."""
        keeps = [keep for report in reports for keep in report.keeps()]
        keeps.extend(Keep(stray.id, stray.pool or "", (), None) for stray in oddities.strays)
        return cls(
            tuple(sorted(keeps, key=by_id)),
            _all_waits(pools, outsiders, reports, now),
            tuple(pool_figures(report.cycle) for report in reports),
            tuple(figure for report in reports for figure in team_figures(report.cycle)),
            (*oddities.findings(), *(each for report in reports for each in findings(report.cycle))),
        )


def _all_waits(
    pools: Sequence[PoolInfo], outsiders: Iterable[Outsider], reports: Iterable[PoolReport], now: int
) -> tuple[Wait, ...]:
    """The workloads that wait: by pool, first those in its queue."""
    order = {pool.id: at for at, pool in enumerate(pools)}

    def place(wait: Wait) -> int:
        return order.get(wait.pool or "", -1)

    out = [_out(each, pools, now) for each in outsiders]
    out.sort(key=lambda wait: (place(wait), wait.workload))
    waits = [wait for report in reports for wait in report.waits()]
    return tuple(merge(waits, out, key=lambda wait: (place(wait), wait.position is None)))


def _out(outsider: Outsider, pools: Sequence[PoolInfo], now: int) -> Wait:
    """A workload in no queue."""
    workload, pool_id, reason = outsider
    why = "It is not in the queue."
    if reason.code is ReasonCode.BACKING_OFF:
        due = sentences.of_workload(workload, now) or reason
        return Wait(workload.id, pool_id, None, due, Eta(workload.backing_off_until, None, why))
    if reason.code is ReasonCode.NOT_BEFORE:
        return Wait(workload.id, pool_id, None, reason, Eta(workload.start_after, None, why))
    if reason.code is ReasonCode.PEAK_HOURS:
        peak = next((pool.policy.peak for pool in pools if pool.id == pool_id), None)
        opens = None if peak is None else peak.opens_at(now)
        return Wait(workload.id, pool_id, None, reason, Eta(opens, None, why))
    return Wait(workload.id, pool_id, None, reason, Eta(None, None, why))
