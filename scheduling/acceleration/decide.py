"""One cycle on what is kept of a state; what may never be read is told late (docs/acceleration.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from scheduling.acceleration.kept_cycle import KeptCycle
from scheduling.acceleration.kept_report import KeptPoolReport
from scheduling.acceleration.kept_state import KeptState
from scheduling.acceleration.late import Late
from scheduling.engine.decide.decide import run_queues, turn
from scheduling.engine.decide.plan_rows import plan_of
from scheduling.engine.model.plan import Plan
from scheduling.engine.model.snapshot import Snapshot
from scheduling.engine.model.state import State
from scheduling.engine.pool.scaling import scale_up
from scheduling.engine.reasons.report import Grown, PlanReport

Cycles = dict[str, KeptCycle]


def decide(state: State, now: int) -> Plan:
    """The plan for this state at this time. Changes nothing of it that can be seen; the same state and time give
    the same plan."""
    kept = KeptState.of(state)
    cycles = kept.begin(now)
    run_queues(cycles, kept.entries)
    grown = {pool_id: scale_up(cycle) for pool_id, cycle in cycles.items()}
    late = _LatePlan(state, kept, cycles, grown, now)
    plan = plan_of(cycles, grown, kept.expired.values(), late.rows())
    kept.end(late)
    return plan


class _LatePlan:
    """What is worked out of a plan at the first look at it: from the pools as the cycles have left them, or, once
    these say something else, from the snapshot of then."""

    def __init__(
        self, state: State, kept: KeptState, cycles: Cycles, grown: Mapping[str, Grown], now: int
    ) -> None:
        self._live: tuple[State, KeptState, Cycles] | None = (state, kept, cycles)
        self._grown = grown
        self._now = now
        self._snapshot: Snapshot | None = None
        self._report: PlanReport | None = None

    def rows(self) -> PlanReport:
        """The rest of the plan, each part when it is first read."""
        return PlanReport(
            keeps=Late(lambda: self._told().keeps),
            waits=Late(lambda: self._told().waits),
            pools=Late(lambda: self._told().pools),
            teams=Late(lambda: self._told().teams),
            findings=Late(lambda: self._told().findings),
        )

    def _told(self) -> PlanReport:
        """The rest of the plan, worked out once."""
        if self._report is None:
            if self._live is not None:
                self._report = self._of_live(*self._live)
            elif self._snapshot is not None:
                plan = decide(State.of(self._snapshot), self._now)
                self._report = PlanReport(plan.keeps, plan.waits, plan.pools, plan.teams, plan.findings)
        if self._report is None:
            raise ValueError("The rest of this plan is not known any more.")
        return self._report

    def _of_live(self, state: State, kept: KeptState, cycles: Cycles) -> PlanReport:
        """Give the candidates that are left their turns, without effect, as things stood before workloads scaled up."""
        with ExitStack() as then:
            for cycle in cycles.values():
                then.enter_context(cycle.as_before_growth())
                cycle.is_over = True
            while turn(cycles, kept.entries):
                pass
            for cycle in cycles.values():
                cycle.skipped_leaves.line_up(cycle.waiting)
        reports = [KeptPoolReport(cycle, self._grown[pool_id]) for pool_id, cycle in cycles.items()]
        return PlanReport.of(state.pools, kept.outsiders(state), kept.oddities, reports, now=self._now)

    def part(self, snapshot: Callable[[], Snapshot]) -> None:
        """The pools are going to say something else."""
        if self._live is not None and self._report is None:
            self._snapshot = snapshot()
        self._live = None
