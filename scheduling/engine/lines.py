"""The candidates of one pool in line, and what a glance at a whole level of the queue tells (section 4)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.ask import Ask
from scheduling.engine.candidate import Candidate, Kind
from scheduling.engine.order import Level, level_of
from scheduling.engine.types import Policy

Rows = Mapping[tuple[int, int], list[Candidate]]
"""Candidates by leaf and priority."""
Ints = NDArray[np.int64]
by_key, kind_of = attrgetter("key"), attrgetter("kind")


class Sort(NamedTuple):
    """What candidates of one leaf have in common who find the same victims: ``pods`` of an ask take ``milli``."""

    priority: int
    ask: Ask
    pods: int
    milli: int


class Line:
    """The candidates of one level: by leaf, in a leaf by their own keys.

    ``kinds`` counts those whom no ceiling limits, whatever their team; ``several`` those who stand in other pools'
    queues too.
    """

    def __init__(self) -> None:
        self.leaves: dict[int, list[Candidate]] = {}
        self.kinds: Counter[Kind] = Counter()
        self.several = 0
        self._least: dict[int, int] = {}
        self._needs: tuple[Ints, Ints] | None = None
        self._fewest: dict[Ask, int] = {}
        self._sorts: dict[int, tuple[Sort, ...]] = {}

    def sorts(self, leaf: int) -> tuple[Sort, ...]:
        """The sorts of a leaf's candidates; the same object as long as they are the same."""
        found = self._sorts.get(leaf)
        if found is None:
            rows = [Sort(each.priority, each.ask, each.pods, each.next_milli) for each in self.leaves[leaf]]
            found = self._sorts[leaf] = tuple(dict.fromkeys(rows))
        return found

    def least(self) -> Mapping[int, int]:
        """By leaf the least that one of them needs to start."""
        if len(self._least) < len(self.leaves):
            for leaf, candidates in self.leaves.items():
                if leaf not in self._least:
                    self._least[leaf] = min([each.next_milli for each in candidates])
        return self._least

    def needs(self) -> tuple[Ints, Ints]:
        """The leaves, and the least that one of each needs to start."""
        if self._needs is None:
            least = self.least()
            counted = len(least)
            self._needs = (
                np.fromiter(least, np.int64, counted),
                np.fromiter(least.values(), np.int64, counted),
            )
        return self._needs

    def fewest(self) -> Mapping[Ask, int]:
        """By ask the fewest pods of a kind."""
        if not self._fewest:
            for ask, pods, _ in self.kinds:
                if pods < self._fewest.get(ask, pods + 1):
                    self._fewest[ask] = pods
        return self._fewest

    def count(self, candidate: Candidate, by: int, *, limited: bool) -> None:
        """Count one more (or, negative, less)."""
        self._least.pop(candidate.leaf, None)
        self._sorts.pop(candidate.leaf, None)
        self._needs = None
        self.several += by if candidate.several else 0
        if not limited:
            kind = candidate.kind
            self.kinds[kind] += by
            if self.kinds[kind] in (0, by):
                self._fewest.clear()
            if not self.kinds[kind]:
                del self.kinds[kind]


class Lines:
    """The lines of one pool, by level. ``limited`` tells which leaves stand under a ceiling; ``moved`` is told where
    a leaf's line changes."""

    def __init__(
        self, policy: Policy, limited: Callable[[int], bool], moved: Callable[[Level, int], None]
    ) -> None:
        self._policy = policy
        self._limited = limited
        self._moved = moved
        self.levels: dict[Level, Line] = {}

    def fill(self, rows: Rows) -> None:
        """Put in all at once. The lists may be kept as they are."""
        for (leaf, _), those in rows.items():
            level = level_of(self._policy, those[0])
            line = self.levels.get(level)
            if line is None:
                line = self.levels[level] = Line()
            queue = line.leaves.setdefault(leaf, those)
            if queue is not those:
                queue.extend(those)
        for line in self.levels.values():
            free: list[Candidate] = []
            for leaf, queue in line.leaves.items():
                queue.sort(key=by_key)
                if not self._limited(leaf):
                    free += queue
                line.several += sum([each.several for each in queue])
            line.kinds.update(map(kind_of, free))

    def rows(self, leaf: int) -> list[list[Candidate]]:
        """The candidates of a leaf, those of a level together, in the order of their own keys."""
        return [line.leaves[leaf] for line in self.levels.values() if leaf in line.leaves]

    def leaves(self) -> set[int]:
        """The leaves that have candidates."""
        return {leaf for line in self.levels.values() for leaf in line.leaves}

    def add(self, candidate: Candidate) -> None:
        """Put in one."""
        level = level_of(self._policy, candidate)
        self._moved(level, candidate.leaf)
        line = self.levels.setdefault(level, Line())
        insort(line.leaves.setdefault(candidate.leaf, []), candidate, key=by_key)
        line.count(candidate, 1, limited=self._limited(candidate.leaf))

    def remove(self, candidate: Candidate) -> None:
        """Take out one."""
        level = level_of(self._policy, candidate)
        self._moved(level, candidate.leaf)
        line = self.levels[level]
        queue = line.leaves[candidate.leaf]
        del queue[bisect_left(queue, candidate.key, key=by_key)]
        line.count(candidate, -1, limited=self._limited(candidate.leaf))
        if not queue:
            del line.leaves[candidate.leaf]
        if not line.leaves:
            del self.levels[level]
