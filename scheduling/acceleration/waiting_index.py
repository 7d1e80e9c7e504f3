"""The candidates of one pool in line, and what a glance at a whole level of the queue tells (section 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduling.acceleration.leaf_candidates import Kind, LeafCandidates, kind_of
from scheduling.engine.model.snapshot import Policy, WorkloadInfo
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.queue.candidate import Candidate
from scheduling.engine.queue.order import Level, level_at, level_of

Rows = Mapping[tuple[int, int], LeafCandidates]
"""Those that wait, by leaf and priority."""
Ints = NDArray[np.int64]


class PreemptorKind(NamedTuple):
    """What preemptors of one leaf have in common that find the same victims: ``pods`` of a request take ``milli``."""

    priority: int
    request: PodRequest
    pods: int
    milli: int


class LevelIndex:
    """The candidates of one level, in ``rows`` by leaf.

    ``kinds`` counts those that no ceiling limits, of all teams; ``several`` those that stand in other pools'
    queues too.
    """

    def __init__(self) -> None:
        self.rows: dict[int, LeafCandidates] = {}
        self.kinds: Counter[Kind] = Counter()
        self.several = 0
        self._leaves: dict[int, list[Candidate]] | None = None
        self._least: dict[int, int] = {}
        self._needs: tuple[Ints, Ints] | None = None
        self._fewest: dict[PodRequest, int] = {}
        self._preemptor_kinds: dict[int, tuple[PreemptorKind, ...]] = {}
        self._preemptor_kinds_known: set[int] = set()
        """The leaves whose kinds are still those."""

    @property
    def leaves(self) -> dict[int, list[Candidate]]:
        """All candidates by leaf, those of a leaf by their own keys; always the same object."""
        if self._leaves is None:
            self._leaves = {leaf: row.candidates() for leaf, row in self.rows.items()}
        return self._leaves

    def candidates(self, leaf: int) -> list[Candidate]:
        """Those of one leaf by their own keys."""
        return self.rows[leaf].candidates()

    def fill(self, row: LeafCandidates) -> None:
        """Put in all of a row, before anything is asked."""
        known = self.rows.setdefault(row.leaf, row)
        if known is not row:
            known.merge(row)
        self.several += row.several

    def add(self, candidate: Candidate, *, limited: bool) -> None:
        """Put in one."""
        leaf = candidate.leaf
        row = self.rows.get(leaf)
        if row is None:
            row = self.rows[leaf] = LeafCandidates(leaf, reserved=candidate.reserved)
            if self._leaves is not None:
                self._leaves[leaf] = row.candidates()
        if row.add(candidate):
            self._forget(leaf)
        self._count(candidate, 1, limited=limited)

    def remove(self, candidate: Candidate, *, limited: bool) -> None:
        """Take out one."""
        leaf = candidate.leaf
        if self.rows[leaf].remove(candidate):
            self._forget(leaf)
        self._count(candidate, -1, limited=limited)
        if not self.rows[leaf]:
            del self.rows[leaf]
            if self._leaves is not None:
                del self._leaves[leaf]

    def preemptor_kinds(self, leaf: int) -> tuple[PreemptorKind, ...]:
        """The kinds of a leaf's candidates; the same object as long as they are the same."""
        if leaf not in self._preemptor_kinds_known:
            self._preemptor_kinds_known.add(leaf)
            kinds = self.rows[leaf].preemptor_kinds
            rows = {
                PreemptorKind(priority, each.request, each.pods, each.next_milli): None
                for priority, each in kinds
            }
            if rows.keys() != set(self._preemptor_kinds.get(leaf, ())):
                self._preemptor_kinds[leaf] = tuple(rows)
        return self._preemptor_kinds[leaf]

    def least(self) -> Mapping[int, int]:
        """By leaf the least that one of them needs to start."""
        if len(self._least) < len(self.rows):
            for leaf, row in self.rows.items():
                if leaf not in self._least:
                    self._least[leaf] = min([each.next_milli for each in row.takes])
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

    def fewest(self) -> Mapping[PodRequest, int]:
        """By request the fewest pods of a kind."""
        if not self._fewest:
            for request, pods, _ in self.kinds:
                if pods < self._fewest.get(request, pods + 1):
                    self._fewest[request] = pods
        return self._fewest

    def _forget(self, leaf: int) -> None:
        """Forget what was asked of a leaf: others may be of other kinds."""
        self._least.pop(leaf, None)
        self._preemptor_kinds_known.discard(leaf)
        self._needs = None

    def _count(self, candidate: Candidate, by: int, *, limited: bool) -> None:
        """Count one more (or, negative, less)."""
        self.several += by if candidate.several else 0
        if not limited:
            kind = kind_of(candidate.pool_request)
            self.kinds[kind] += by
            if self.kinds[kind] in (0, by):
                self._fewest.clear()
            if not self.kinds[kind]:
                del self.kinds[kind]


class WaitingIndex(Mapping[Level, Mapping[int, Sequence[Candidate]]]):
    """The lines of one pool, by level, in the order of the queue: ``levels``. Looked at as a mapping, their candidates
    by leaf. ``limited`` tells which leaves stand under a ceiling; ``moved`` is told where a leaf's line changes."""

    def __init__(
        self, policy: Policy, limited: Callable[[int], bool], moved: Callable[[Level, int], None]
    ) -> None:
        self._policy = policy
        self._limited = limited
        self._moved = moved
        self.levels: dict[Level, LevelIndex] = {}

    def __getitem__(self, level: Level) -> dict[int, list[Candidate]]:
        """The candidates of a level."""
        return self.levels[level].leaves

    def __iter__(self) -> Iterator[Level]:
        """The levels where candidates wait."""
        return iter(self.levels)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.levels)

    def fill(self, rows: Rows) -> None:
        """Put in all at once. The rows may be kept as they are."""
        for (_, priority), row in rows.items():
            self._at(level_at(self._policy, priority)).fill(row)
        for line in self.levels.values():
            free = [row for leaf, row in line.rows.items() if not self._limited(leaf)]
            for pool_request, count in [each for row in free for each in row.takes.items()]:
                line.kinds[kind_of(pool_request)] += count

    def _at(self, level: Level) -> LevelIndex:
        """The line of a level, a new one if there is none."""
        line = self.levels.get(level)
        if line is None:
            line = self.levels[level] = LevelIndex()
            self.levels = dict(sorted(self.levels.items(), key=itemgetter(0)))
        return line

    def rows(self, leaf: int) -> list[LeafCandidates]:
        """The candidates of a leaf, those of a level together, in the order of the queue."""
        return [line.rows[leaf] for line in self.levels.values() if leaf in line.rows]

    def leaves(self) -> set[int]:
        """The leaves that have candidates."""
        return {leaf for line in self.levels.values() for leaf in line.rows}

    def find(self, leaf: int, workload: WorkloadInfo) -> Candidate | None:
        """A workload of a leaf as the candidate it is here, if it is one."""
        line = self.levels.get(level_at(self._policy, workload.priority))
        row = line and line.rows.get(leaf)
        return row.find(workload) if row else None

    def add(self, candidate: Candidate) -> None:
        """Put in one."""
        level = level_of(self._policy, candidate)
        self._moved(level, candidate.leaf)
        self._at(level).add(candidate, limited=self._limited(candidate.leaf))

    def remove(self, candidate: Candidate) -> None:
        """Take out one."""
        level = level_of(self._policy, candidate)
        self._moved(level, candidate.leaf)
        line = self.levels[level]
        line.remove(candidate, limited=self._limited(candidate.leaf))
        if not line.rows:
            del self.levels[level]
