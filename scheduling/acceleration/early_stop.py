"""Whether no candidate that is left could still start, preempt or become the head: then the cycle may stop.

It never says so where it is not so; what stops all that is left can be told later, when it is asked for. Most
candidates are judged together: those of a leaf by the least that one of them needs, those of a level by what their
pods ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from scheduling.acceleration.kept_cycle import KeptCycle
from scheduling.acceleration.tree_arrays import Ints
from scheduling.acceleration.victim_groups import VictimGroup
from scheduling.acceleration.waiting_index import LevelIndex
from scheduling.engine.model.snapshot import Queueing
from scheduling.engine.queue.candidate import Candidate
from scheduling.engine.queue.order import Level
from scheduling.engine.quota.tree import ROOT

by_pods = itemgetter(1)


class StoppableCycle(KeptCycle):
    """A cycle that stops when nothing left in the queue could act."""

    def may_stop(self) -> bool:
        """Whether nothing left in the queue could act. It is looked at again after twice as many turns that changed
        nothing."""
        if not self.is_look_due():
            return False
        self.note_look()
        return nothing_left(self)


def nothing_left(cycle: KeptCycle) -> bool:
    """Whether nothing left in the pool's queue could start, preempt or become the head."""
    if cycle.backfill.shut:
        return True
    if cycle.head is None and cycle.pool.policy.queueing is not Queueing.BEST_EFFORT_FIFO:
        return False
    look = _Look(cycle)
    levels = cycle.queue.levels_to_come()
    if all(look.nothing_left(level) for level in levels):
        return True
    if levels[0] in look.suspects:
        cycle.infeasible.note_without_victims(levels[0], look.suspects[levels[0]])
    return False


class _Look:
    """One look at all candidates that are left in a pool's queue.

    ``suspects`` are, by level, the leaves where a candidate might find victims, if it is known that none does
    elsewhere.
    """

    def __init__(self, cycle: KeptCycle) -> None:
        self._cycle = cycle
        self._tree = cycle.tree
        self._known_head_rooms: list[Ints] | None = None
        self.suspects: dict[Level, frozenset[int]] = {}
        self._some: dict[int | None, NDArray[np.bool_]] = {}
        self._held: dict[int, Ints] = {}

    def nothing_left(self, level: Level) -> bool:
        """Whether nothing left of a level could act."""
        line = self._cycle.kept_pool.lines.levels[level]
        elastic, _ = level
        if not elastic:
            return self._are_quiet(self._with_guarantee_left(line))
        return not self._might_start(line) and not self._might_preempt(level, line)

    def _are_quiet(self, candidates: Iterable[Candidate]) -> bool:
        """Whether none of these could act, looked at one by one."""
        cycle = self._cycle
        for each in candidates:
            stopped = cycle.quota_stops(each)
            if stopped is None and cycle.backfill.might_start(
                each.request, each.pods, each.workload.time_limit_ms
            ):
                return False
            if cycle.might_preempt(each):
                return False
        return True

    def _left(self, line: LevelIndex, leaves: Iterable[int]) -> Iterable[Candidate]:
        """Those that are left of some leaves."""
        for leaf in leaves:
            yield from self._cycle.queue.left(leaf, line.candidates(leaf))

    def _with_guarantee_left(self, line: LevelIndex) -> Iterable[Candidate]:
        """The reserved candidates that their guarantees would admit."""
        available = self._cycle.charges.available
        leaves = {leaf: left for leaf, least in line.least().items() if least <= (left := available(leaf))}
        return (each for each in self._left(line, leaves) if each.next_milli <= leaves[each.leaf])

    def _might_start(self, line: LevelIndex) -> bool:
        """Whether an elastic candidate might find a place that is open to it."""
        backfill, charges = self._cycle.backfill, self._cycle.charges
        # Where few pods of a request find no place, no more of them need to be tried.
        requests = {
            request
            for request, pods in line.fewest().items()
            if not backfill.is_without_place(request, pods, outside_head=False)
        }
        kinds = [kind for kind in line.kinds if kind[0] in requests] if requests else []
        if any(backfill.might_start(*kind) for kind in sorted(kinds, key=by_pods)):
            return True
        limited = [
            leaf
            for leaf in self._limited(line)
            if charges.ceiling_passed(leaf, line.least()[leaf], reserved=False) is None
            and any(backfill.might_fit(each.request, each.pods) for each in line.preemptor_kinds(leaf))
        ]
        return any(
            backfill.might_start(each.request, each.pods, each.workload.time_limit_ms)
            for each in self._left(line, limited)
        )

    def _limited(self, line: LevelIndex) -> list[int]:
        """The leaves of a level that stand under a ceiling."""
        return [leaf for leaf in self._cycle.kept_pool.limited if leaf in line.rows]

    # --- Victims ---------------------------------------------------------------------------------------------

    def _might_preempt(self, level: Level, line: LevelIndex) -> bool:
        """Whether an elastic candidate might find victims."""
        cycle = self._cycle
        policy = cycle.preemption_policy
        if not policy.has_elastic_preemption:
            return False
        if not policy.equal_only():
            eligible = cycle.eligible(reserved=False)
            own = [leaf for leaf in line.rows if eligible.any_in(leaf)]
            fair = self._with_fair_victims(line, None)
            return self._any_hopeful(level, line, dict.fromkeys((*own, *fair)))
        priority = -level[1]
        if not cycle.eligible(reserved=False).lower(ROOT, priority):
            return self._any_hopeful(level, line, self._with_fair_victims(line, priority))
        if self._might_take_lower(priority, line):
            return True
        return next(self._hopeful(line, self._with_fair_victims(line, priority)), None) is not None

    def _might_take_lower(self, priority: int, line: LevelIndex) -> bool:
        """Whether some might fit if workloads of lower priority, of any team, went."""
        kinds = {(request, pods) for request, pods, _ in line.kinds}
        if any(self._cycle.group_might_do(VictimGroup(priority, None), *kind) for kind in kinds):
            return True
        return not self._find_nothing(self._left(line, self._limited(line)))

    def _any_hopeful(self, level: Level, line: LevelIndex, leaves: Iterable[int]) -> bool:
        """Whether a candidate left of a level might find victims; only in these leaves one could."""
        self.suspects[level] = frozenset(self._hopeful(line, leaves))
        return bool(self.suspects[level])

    def _hopeful(self, line: LevelIndex, leaves: Iterable[int]) -> Iterator[int]:
        """Those of some leaves where a candidate that is left might find victims."""
        kept_pool, context = self._cycle.kept_pool, self._cycle.context(reserved=False)
        for leaf in leaves:
            infeasible = leaf not in kept_pool.limited and context.are_infeasible(
                leaf, line.preemptor_kinds(leaf)
            )
            if not (infeasible or self._find_nothing(self._left(line, (leaf,)))):
                yield leaf

    def _find_nothing(self, candidates: Iterable[Candidate]) -> bool:
        """Whether none of these might find victims; equal ones are looked at once."""
        seen = set()
        for each in candidates:
            kind = (each.leaf, each.priority, each.request, each.pods)
            if kind not in seen:
                seen.add(kind)
                if self._cycle.might_preempt(each):
                    return False
        return True

    def _with_fair_victims(self, line: LevelIndex, priority: int | None) -> list[int]:
        """The leaves where the one that needs least could take a workload by the fair-share rule, nothing gone
        before but those of lower priority.

        A preemptor may take from a branch beside its way down that is above its due, if its own branches from there
        on stay within theirs.
        """
        paths = self._cycle.kept_pool.tree_arrays
        leaves, needs = line.needs()
        rows = paths.rows[leaves]
        found = np.zeros(len(leaves), dtype=bool)
        lower = self._lower(priority)
        for head_room in self._head_rooms():
            above = self._branches_with_some(priority) & (head_room < 0)
            if not above.any():
                continue
            beside = paths.summed(above.astype(np.int64))
            within = np.ones(len(leaves), dtype=bool)
            for depth in range(rows.shape[1] - 1, -1, -1):
                branch = rows[:, depth]
                there = branch >= 0
                within &= ~there | (head_room[branch] + lower[branch] >= needs)
                found |= there & within & (beside[paths.parents[branch]] - above[branch] > 0)
        return [int(leaf) for leaf in leaves[found]]

    def _head_rooms(self) -> list[Ints]:
        """What each branch lacks of its entitlement, and of its guarantee; negative where it is above."""
        if self._known_head_rooms is None:
            cycle = self._cycle
            used = np.array(cycle.accounts.usage.used, dtype=np.int64)
            bases = (cycle.entitled, cycle.accounts.quotas.guarantee)
            self._known_head_rooms = [np.array(due, dtype=np.int64) - used for due in bases]
        return self._known_head_rooms

    def _lower(self, priority: int | None) -> Ints:
        """What those of lower priority hold below each branch; nothing if there is no priority."""
        held = np.zeros(len(self._tree), dtype=np.int64)
        if priority is not None:
            eligible = self._cycle.eligible(reserved=False)
            for each in eligible.lower(ROOT, priority):
                if each not in self._held:
                    self._held[each] = np.array(eligible.milli_by_branch(each), dtype=np.int64)
                held += self._held[each]
        return held

    def _branches_with_some(self, priority: int | None) -> NDArray[np.bool_]:
        """The branches below which a workload (of a priority) could be a victim."""
        found = self._some.get(priority)
        if found is None:
            found = self._some[priority] = np.zeros(len(self._tree), dtype=bool)
            eligible = self._cycle.eligible(reserved=False)
            found[[at for leaf, _ in eligible.cells(ROOT, priority) for at in self._tree.paths[leaf]]] = True
        return found
