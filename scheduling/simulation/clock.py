"""The clock: workloads arrive, run and end, and a cycle follows whatever changes.

At one moment, in this order:

1. runs end, what only time changes has changed, workloads arrive
2. each group of pools in which something changed is decided, and its plan carried out at once

Victims make one more cycle, since they are back in the queue. Two cycles are at least the interval apart.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

from scheduling.engine import Plan, Snapshot, WorkloadInfo, schedule
from scheduling.scenario.loader import Scenario

from .group import PoolGroup, divided
from .lives import Alarm, Lives
from .tally import SimulationTally

MOST_CYCLES_AT_ONCE = 1000
"""Chains of preemptions end; one that has not after so many cycles of one moment goes on a second later."""
SECOND_MS = 1000

Watch = Callable[[Snapshot, Plan, int], None]
"""Told of each plan before it is carried out, with what it was made for and when."""


@dataclass(frozen=True, slots=True)
class Ending:
    """An organisation at the end of the window, and the plan for it, which is not carried out."""

    snapshot: Snapshot
    now: int
    plan: Plan
    tally: SimulationTally
    cycles: int


class SimulationClock:
    """An organisation over time."""

    def __init__(self, scenario: Scenario, watches: Iterable[Watch] = (), *, accelerate: bool = True) -> None:
        self.now = scenario.now
        self.cycles = 0
        self._described = scenario.snapshot
        self._watches = tuple(watches)
        self._accelerate = accelerate
        self._arrivals = list(reversed(scenario.arrivals))
        self._alarms: list[tuple[int, Alarm, str, int]] = []
        self._hours: list[tuple[int, int]] = []
        self._tally = SimulationTally(scenario.now)
        self._groups = [
            PoolGroup(part, accelerate=accelerate) for part in divided(scenario.snapshot, scenario.arrivals)
        ]
        self._unsettled = set(range(len(self._groups)))
        self._group_of_pool = {pool.id: group for group in self._groups for pool in group.pools}
        self._lives = Lives(scenario, self._tally, self._ring)
        for number, group in enumerate(self._groups):
            self._lives.begin(group, self.now)
            self._watch_hours(number)
        self._next_cycle = self.now
        self._cycles_here = 0

    def run(self, until_ms: int, interval_ms: int = 0, tell: Callable[[int], None] | None = None) -> Ending:
        """Let so much time pass, and return how things are then; `tell` hears of each moment. To be called once."""
        end = self.now + until_ms
        while True:
            self._happen()
            if self.now >= self._next_cycle:
                self._cycle(interval_ms)
            if tell is not None:
                tell(self.now)
            at = self._next_moment()
            if at is None or at > end:
                break
            if at > self.now:
                self.now, self._cycles_here = at, 0
        self.now = end
        return self._ending()

    def _ring(self, at: int, alarm: Alarm, workload: str, number: int) -> None:
        heappush(self._alarms, (max(at, self.now), alarm, workload, number))

    def _watch_hours(self, number: int) -> None:
        """Have a group decided again when peak hours of its pools begin or end."""
        peaks = [pool.policy.peak for pool in self._groups[number].pools if pool.policy.peak is not None]
        times = [at for peak in peaks if (at := peak.changes_at(self.now)) is not None]
        if times:
            heappush(self._hours, (min(times), number))

    def _happen(self) -> None:
        """Let happen what is due."""
        while self._hours and self._hours[0][0] <= self.now:
            _, number = heappop(self._hours)
            self._groups[number].changed = True
            self._watch_hours(number)
        while self._alarms and self._alarms[0][0] <= self.now:
            _, alarm, id_, number = heappop(self._alarms)
            self._lives.wake(alarm, id_, number, self.now)
        while self._arrivals and self._arrivals[-1].submitted_at <= self.now:
            workload = self._arrivals.pop()
            self._lives.arrive(self._group_for(workload), workload)

    def _group_for(self, workload: WorkloadInfo) -> PoolGroup:
        """The group in which a workload waits: that of its pools, or the first, where it has none."""
        for pool in workload.pools or ():
            if pool in self._group_of_pool:
                return self._group_of_pool[pool]
        return self._groups[0]

    def _next_moment(self) -> int | None:
        """When something happens next, None if nothing ever does."""
        moments = [rows[0][0] for rows in (self._alarms, self._hours) if rows]
        if self._arrivals:
            moments.append(self._arrivals[-1].submitted_at)
        if any(group.changed for group in self._groups):
            moments.append(max(self._next_cycle, self.now))
        return min(moments, default=None)

    def _cycle(self, interval_ms: int) -> None:
        """Decide every group in which something changed."""
        decided = False
        for number, group in enumerate(self._groups):
            if not group.changed:
                continue
            group.changed = False
            if not group.idle:
                decided = True
                self._decide(group)
            if number in self._unsettled:
                self._unsettled.remove(number)
                group.changed |= self._lives.settle(group, self.now)
        if decided:
            self.cycles += 1
            self._cycles_here += 1
            many = self._cycles_here >= MOST_CYCLES_AT_ONCE
            self._next_cycle = self.now + max(interval_ms, SECOND_MS if many else 0)

    def _decide(self, group: PoolGroup) -> None:
        """Make a plan for a group and carry it out."""
        if any(self._lives.usage.counts(pool.id) for pool in group.pools):
            group.use_teams(self._lives.usage.teams(self.now))
        plan = group.plan(self.now)
        for watch in self._watches:
            watch(group.snapshot(), plan, self.now)
        self._lives.carry_out(group, plan, self.now)
        group.changed = bool(plan.preemptions or plan.shrinks)

    def _ending(self) -> Ending:
        """Decide once more on everything, and count what is still there."""
        workloads = tuple(workload for group in self._groups for workload in group.workloads.values())
        snapshot = Snapshot(
            self._described.pools, self._lives.usage.teams(self.now), self._described.nodes, workloads
        )
        plan = schedule(snapshot, self.now, accelerate=self._accelerate)
        waits_in = {wait.workload: wait.pool for wait in plan.waits}
        waits_in |= {start.workload: start.pool for start in plan.starts}
        self._lives.close(waits_in, self.now)
        self._tally.close(self.now)
        return Ending(snapshot, self.now, plan, self._tally, self.cycles)
