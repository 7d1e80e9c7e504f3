"""One cycle: every pool's queue from its head, then growth (sections 3 to 9).

A workload that may use several pools stands in the queue of each. Its turn comes when it is the head of all of them;
where heads wait for each other, the one that comes first by class, priority, submission and id goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from scheduling.engine.cycle import PoolCycle
from scheduling.engine.growth import grow
from scheduling.engine.intake import Candidacies, Entries
from scheduling.engine.model.plan import Plan
from scheduling.engine.model.snapshot import Snapshot
from scheduling.engine.queue.candidate import Blocked, Candidate, Cause
from scheduling.engine.queueing import Kept
from scheduling.engine.report import Grown, Report, plan_of
from scheduling.engine.state import State

Cycles = dict[str, PoolCycle]


def decide(state: State, now: int) -> Plan:
    """The plan for this state at this time. Changes nothing of it that anybody could see; the same state and time give
    the same plan."""
    cycles = state.begin(now)
    _run_queues(cycles, state.entries)
    grown = {pool_id: grow(cycle) for pool_id, cycle in cycles.items()}
    late = _Late(state, cycles, grown, now)
    plan = plan_of(cycles, grown, late.report)
    state.end(late)
    return plan


def _run_queues(cycles: Cycles, entries: Entries) -> None:
    """Take the queues of all pools as far as somebody left could act."""
    while not all(cycle.stops() for cycle in cycles.values()):
        if not _turn(cycles, entries):
            return


def _turn(cycles: Cycles, entries: Entries) -> bool:
    """Have the next candidate's turn, or those of all whose turn is known to be in vain; whether there was one."""
    candidate = _next_of_all(cycles, entries)
    if candidate is None:
        return False
    if not candidate.several and cycles[candidate.pool_request.pool].pass_by():
        return True
    candidacies = _everywhere(entries, candidate)
    for each in candidacies:
        cycles[each.pool_request.pool].queue.remove(each)
    _consider(cycles, entries, candidacies)
    return True


def _everywhere(entries: Entries, candidate: Candidate) -> Candidacies:
    """A candidate in every queue where it stands."""
    return entries[candidate.id] if candidate.several else (candidate,)


class _Late:
    """What is worked out of a plan when somebody looks at it: from the books as the cycles have left them, or, once
    these say something else, from the snapshot of then."""

    def __init__(self, state: State, cycles: Cycles, grown: Mapping[str, Grown], now: int) -> None:
        self._live: tuple[State, Cycles] | None = (state, cycles)
        self._grown = grown
        self._now = now
        self._snapshot: Snapshot | None = None
        self._report: Report | None = None

    def report(self) -> Report:
        """The rest of the plan."""
        if self._report is None:
            if self._live is not None:
                self._report = self._of_live(*self._live)
            elif self._snapshot is not None:
                self._report = Report.again(decide(State.of(self._snapshot), self._now))
        if self._report is None:
            raise ValueError("Nobody knows the rest of this plan any more.")
        return self._report

    def _of_live(self, state: State, cycles: Cycles) -> Report:
        """Have those who are left have their turns, in vain, before anybody grew."""
        with ExitStack() as then:
            for cycle in cycles.values():
                then.enter_context(cycle.as_before_growth())
                cycle.is_over = True
            while _turn(cycles, state.entries):
                pass
            for cycle in cycles.values():
                cycle.passed_over.line_up()
        return Report.of(state, cycles, self._grown, self._now)

    def part(self, snapshot: Callable[[], Snapshot]) -> None:
        """The books are going to say something else."""
        if self._live is not None and self._report is None:
            self._snapshot = snapshot()
        self._live = None


def _next_of_all(cycles: Cycles, entries: Entries) -> Candidate | None:
    """The first pool's head that is the head wherever it stands; else the first of all heads; ``None`` at the end."""
    heads = []
    for cycle in cycles.values():
        head = cycle.queue.peek()
        if head is not None:
            found = _everywhere(entries, head)
            if len(found) == 1 or all(_is_head(cycles[each.pool_request.pool], head) for each in found):
                return head
            heads.append(head)
    return min(heads, key=lambda head: (not head.reserved, head.key), default=None)


def _is_head(cycle: PoolCycle, candidate: Candidate) -> bool:
    head = cycle.queue.peek()
    return head is not None and head.id == candidate.id


def _consider(cycles: Cycles, entries: Entries, candidacies: Candidacies) -> None:
    """Give a candidate the first pool where it fits without victims, else the one with the fewest, else let it
    wait."""
    blocked: dict[str, Blocked] = {}
    for candidate in candidacies:
        found = cycles[candidate.pool_request.pool].try_start(candidate)
        if found is None:
            return
        blocked[candidate.pool_request.pool] = found
    sets = {
        pool_id: victims
        for pool_id, each in blocked.items()
        if (victims := cycles[pool_id].find_victims(each.candidate, each)) is not None
    }
    if sets:
        pool_id = min(sets, key=lambda pool_id: sets[pool_id].workloads)
        cycle = cycles[pool_id]
        cycle.start_with(blocked[pool_id].candidate, sets[pool_id])
        for started in cycle.offer_again(_elsewhere(cycles, entries, pool_id)):
            for other in entries.get(started, ()):
                cycles[other.pool_request.pool].withdraw(started)
        return
    pool_id, kept = _frees_first(cycles, blocked)
    cycles[pool_id].wait(blocked[pool_id], kept)


def _elsewhere(cycles: Cycles, entries: Entries, pool_id: str) -> list[Candidate]:
    """Those who wait in another pool and could use this one too."""
    return [
        each
        for other, cycle in cycles.items()
        if other != pool_id
        for id_ in cycle.waiting
        for each in entries.get(id_, ())
        if each.pool_request.pool == pool_id
    ]


def _frees_first(cycles: Cycles, blocked: dict[str, Blocked]) -> tuple[str, Kept | None]:
    """Of several pools the one where it could start first, as far as anybody can tell; the first of equal ones."""
    if len(blocked) == 1:
        return next(iter(blocked)), None
    estimates = {
        pool_id: cycles[pool_id].estimate(each.candidate)
        for pool_id, each in blocked.items()
        if each.cause in (Cause.PLACE, Cause.BEHIND)
    }
    if not estimates:
        return next(iter(blocked)), None
    first = min(estimates, key=lambda pool_id: (estimates[pool_id].at is None, estimates[pool_id].at or 0))
    return first, estimates[first]
