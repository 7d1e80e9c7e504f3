"""What the workloads of a run go through: they queue, run, are preempted and end.

Everything that happens to one passes through here, so that its group, the tally, the use of its team, those who
depend on it and the alarms of the clock agree.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from scheduling.engine import DAY_MS, DependencyState, OpenStatus, Plan, Policy, WorkloadInfo
from scheduling.scenario.loader import Course, Scenario

from .group import PoolGroup
from .outcome import Outcome, OutcomeKind, milli_of, outcomes, settled
from .tally import Count, CountedPlace, SimulationTally
from .usage import TeamUsage

NO_COURSE = Course(None, ())


class Alarm(IntEnum):
    """What time brings; at one moment in this order."""

    END = 0
    """A run is over."""
    RIPE = 1
    """Somebody has had the minimal runtime of his pool."""
    FORGOTTEN = 2
    """A preemption is a day old."""
    DUE = 3
    """A workload may start from now on, or has not by its deadline."""


Ring = Callable[[int, Alarm, str, int], None]
"""Asks for an alarm: when, which, for whom, in which attempt."""


@dataclass(slots=True)
class Life:
    """How far a workload has come.

    `left_ms`: how long it has still to run; None for ever. `since`: from when on it has stood in the queue, None
    where it does not. `queued_ms`: how long it stood there before, None if never. `attempt` tells its runs apart.
    `home`: where it is counted, None before it first started.
    """

    group: PoolGroup
    left_ms: int | None
    waits_for: set[str]
    submitted_at: int
    since: int | None = None
    queued_ms: int | None = None
    attempt: int = 0
    home: Count | None = None


class Lives:
    """Everybody who is there, by id. `usage` is what teams have used."""

    def __init__(self, scenario: Scenario, tally: SimulationTally, ring: Ring) -> None:
        self.usage = TeamUsage(scenario.snapshot, scenario.now)
        self._tally = tally
        self._ring = ring
        self._courses = scenario.courses
        self._policies: dict[str, Policy] = {pool.id: pool.policy for pool in scenario.snapshot.pools}
        self._lives: dict[str, Life] = {}
        self._dependents: dict[str, list[str]] = defaultdict(list)
        self._succeeded: dict[str, bool | None] = {
            name: None for course in scenario.courses.values() for name in course.depends_on
        }

    # --- Coming

    def begin(self, group: PoolGroup, at: int) -> None:
        """Take in those who are there at the beginning."""
        for workload in list(group.workloads.values()):
            life = self._enter(group, workload)
            if workload.status is not OpenStatus.PENDING:
                life.home = self._place(workload)
                life.home.begin(self._tally.start)
                self._hold(workload, milli_of(workload), at)
            if workload.status is OpenStatus.RUNNING and workload.started_at is not None:
                self._run(workload, life, workload.started_at)
            if workload.preemptions_24h:
                self._ring(at + DAY_MS, Alarm.FORGOTTEN, workload.id, workload.preemptions_24h)

    def arrive(self, group: PoolGroup, workload: WorkloadInfo) -> None:
        """Let somebody join the queue."""
        group.put(workload)
        self._enter(group, workload)

    def _enter(self, group: PoolGroup, workload: WorkloadInfo) -> Life:
        course = self._courses.get(workload.id, NO_COURSE)
        limits = [ms for ms in (course.duration_ms, workload.time_limit_ms) if ms is not None]
        waits_for = {name for name in course.depends_on if not self._succeeded[name]}
        life = Life(group, min(limits, default=None), waits_for, workload.submitted_at)
        self._lives[workload.id] = life
        if workload.status is OpenStatus.PENDING:
            for at in (workload.start_after, workload.deadline):
                if at is not None:
                    self._ring(at, Alarm.DUE, workload.id, 0)
            for name in waits_for:
                self._dependents[name].append(workload.id)
            self._look_at_dependencies(workload, life, workload.submitted_at)
        return life

    def _look_at_dependencies(self, workload: WorkloadInfo, life: Life, at: int) -> None:
        """Let a waiting one into the queue if all it depends on has succeeded."""
        if any(self._succeeded[name] is False for name in life.waits_for):
            dependency = DependencyState.FAILED
        else:
            dependency = DependencyState.WAITING if life.waits_for else DependencyState.NONE
        if dependency is not workload.dependency:
            life.group.put(replace(workload, dependency=dependency))
        if dependency is DependencyState.NONE and not workload.held:
            life.since = max(at, workload.start_after or at)

    # --- Plans

    def settle(self, group: PoolGroup, at: int) -> bool:
        """Let what was on its way arrive; whether somebody left his devices."""
        changes = list(settled(group.workloads, at))
        for each in changes:
            if each.after is not None:
                group.put(each.after)
                self._run(each.after, self._lives[each.after.id], at)
            else:
                self._leave(each.before, at, succeeded=True)
        return any(each.after is None for each in changes)

    def carry_out(self, group: PoolGroup, plan: Plan, at: int) -> None:
        """Do what a plan says."""
        for outcome in outcomes(plan, group.workloads, at):
            match outcome.act:
                case OutcomeKind.START:
                    self._start(outcome, at)
                case OutcomeKind.PREEMPT:
                    self._preempt(outcome, at)
                case OutcomeKind.RESIZE:
                    self._resize(outcome, at)
                case OutcomeKind.EXPIRE:
                    self._expire(outcome.before, at)

    def _start(self, outcome: Outcome, at: int) -> None:
        workload = outcome.after
        if workload is None:
            return
        life = self._lives[workload.id]
        self._stop_waiting(life, at)
        if life.home is None:
            life.home = self._place(workload)
            life.home.submit(max(life.submitted_at, self._tally.start))
            life.home.started += 1
        life.group.put(workload)
        self._hold(workload, milli_of(workload), at)
        self._run(workload, life, at)

    def _resize(self, outcome: Outcome, at: int) -> None:
        workload = outcome.after
        if workload is not None:
            self._lives[workload.id].group.put(workload)
            self._hold(workload, milli_of(workload) - milli_of(outcome.before), at)

    def _preempt(self, outcome: Outcome, at: int) -> None:
        victim, life = outcome.before, self._lives[outcome.before.id]
        count = self._place(victim)
        count.preemptions += 1
        count.lost_gpu_ms += outcome.lost_gpu_ms
        if outcome.after is None:
            self._leave(victim, at, succeeded=False)
            return
        self._hold(victim, -milli_of(victim), at)
        if life.left_ms is not None:
            life.left_ms = max(1, life.left_ms - _saved_ms(victim))
        life.attempt += 1
        life.since = at
        life.group.put(outcome.after)
        self._ring(at + DAY_MS, Alarm.FORGOTTEN, victim.id, 1)

    def _expire(self, workload: WorkloadInfo, at: int) -> None:
        """Let one end that has not started by its deadline; it counts where it was asked to run first."""
        life = self._lives[workload.id]
        self._stop_waiting(life, at)
        if life.home is None:
            pool = next(iter(workload.pools or [pool.id for pool in life.group.pools]), None)
            life.home = self._tally.counts[CountedPlace(pool, workload.team, workload.reserved)]
            life.home.submit(max(life.submitted_at, self._tally.start))
        self._leave(workload, at, succeeded=False)

    def _run(self, workload: WorkloadInfo, life: Life, since: int) -> None:
        """Let a run begin: it ends by itself, and is ripe after its pool's minimal runtime."""
        life.attempt += 1
        if life.left_ms is not None:
            self._ring(since + life.left_ms, Alarm.END, workload.id, life.attempt)
        policy = self._policies.get(workload.pool or "")
        if policy is not None and policy.min_runtime_ms and not workload.reserved:
            self._ring(since + policy.min_runtime_ms, Alarm.RIPE, workload.id, life.attempt)

    # --- Time

    def wake(self, alarm: Alarm, id_: str, number: int, at: int) -> None:
        """Do what an alarm was for; nothing, where its workload is gone or in another attempt.

        `number` is the attempt, of a preemption that is forgotten how many of them.
        """
        life = self._lives.get(id_)
        if life is None:
            return
        workload = life.group.workloads[id_]
        if alarm is Alarm.FORGOTTEN:
            life.group.put(replace(workload, preemptions_24h=workload.preemptions_24h - number))
        elif alarm is Alarm.DUE or (number == life.attempt and alarm is Alarm.RIPE):
            life.group.changed = True
        elif number == life.attempt:
            self._end(workload, life, at)

    def _end(self, workload: WorkloadInfo, life: Life, at: int) -> None:
        if life.home is not None:
            life.home.finish(at)
        self._leave(workload, at, succeeded=True)

    def _leave(self, workload: WorkloadInfo, at: int, *, succeeded: bool) -> None:
        """Let go of a workload for good, and tell those who depend on it."""
        life = self._lives.pop(workload.id)
        life.group.drop(workload.id)
        self._hold(workload, -milli_of(workload), at)
        _count_wait(life)
        if workload.id in self._succeeded:
            self._succeeded[workload.id] = succeeded
            for id_ in self._dependents.pop(workload.id, ()):
                dependent = self._lives[id_]
                if succeeded:
                    dependent.waits_for.discard(workload.id)
                self._look_at_dependencies(dependent.group.workloads[id_], dependent, at)

    def close(self, waits_in: Mapping[str, str | None], at: int) -> None:
        """Count those who are still there; `waits_in` is the pool in which who waits does so."""
        for id_, life in self._lives.items():
            workload = life.group.workloads[id_]
            self._stop_waiting(life, at)
            if life.home is None:
                life.home = self._tally.counts[
                    CountedPlace(waits_in.get(id_), workload.team, workload.reserved)
                ]
                life.home.submit(max(life.submitted_at, self._tally.start))
            _count_wait(life)

    # --- Counting

    def _place(self, workload: WorkloadInfo) -> Count:
        return self._tally.counts[CountedPlace(workload.pool, workload.team, workload.reserved)]

    def _hold(self, workload: WorkloadInfo, milli: int, at: int) -> None:
        """Count so much more as held, in the pool where the workload lies."""
        self._place(workload).hold(milli, at)
        if workload.pool is not None:
            self.usage.hold(workload.team, workload.pool, milli, at)

    def _stop_waiting(self, life: Life, at: int) -> None:
        if life.since is not None:
            life.queued_ms = (life.queued_ms or 0) + max(0, at - life.since)
            life.since = None


def _count_wait(life: Life) -> None:
    if life.queued_ms is not None and life.home is not None:
        life.home.waits_ms.append(life.queued_ms)


def _saved_ms(victim: WorkloadInfo) -> int:
    """How much of a run its last checkpoint has saved."""
    if victim.started_at is None or victim.checkpointed_at is None:
        return 0
    return max(0, victim.checkpointed_at - victim.started_at)
