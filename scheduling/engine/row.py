"""Those of one leaf who wait at one level (section 4)."""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import attrgetter

from scheduling.engine.candidate import Candidate, Footprint
from scheduling.engine.types import Workload

by_key = attrgetter("key")


class Row:
    """Those of one leaf and class who wait at one level; they become candidates when somebody asks for these.

    Most cycles look at candidates of the first levels only. What is asked of the others, what they take, is the same
    for many and known before: ``footprints`` are theirs, in any order.
    """

    __slots__ = ("_candidates", "_footprints", "_workloads", "leaf", "reserved")

    def __init__(self, leaf: int, *, reserved: bool) -> None:
        self.leaf = leaf
        self.reserved = reserved
        self._workloads: list[Workload] = []
        self._footprints: list[Footprint] = []
        self._candidates: list[Candidate] = []

    def __len__(self) -> int:
        """How many there are."""
        return len(self._workloads) + len(self._candidates)

    def join(self, workload: Workload, footprint: Footprint) -> None:
        """Have somebody wait who is in no other queue."""
        self._workloads.append(workload)
        self._footprints.append(footprint)

    def add(self, candidate: Candidate) -> None:
        """Put in a candidate."""
        insort(self._candidates, candidate, key=by_key)

    def remove(self, candidate: Candidate) -> None:
        """Take out a candidate."""
        row = self.candidates()
        del row[bisect_left(row, candidate.key, key=by_key)]

    def merge(self, other: Row) -> None:
        """Put in those of another row."""
        self._workloads += other._workloads
        self._footprints += other._footprints
        self._candidates = sorted(self._candidates + other._candidates, key=by_key)

    def candidates(self) -> list[Candidate]:
        """All of them in the order of their own keys, always in the same list."""
        if self._workloads:
            leaf, rows = self.leaf, zip(self._workloads, self._footprints, strict=True)
            self._candidates += [Candidate(workload, leaf, footprint) for workload, footprint in rows]
            self._candidates.sort(key=by_key)
            self._workloads, self._footprints = [], []
        return self._candidates

    @property
    def footprints(self) -> list[Footprint]:
        """What each of them takes."""
        return [*self._footprints, *[each.footprint for each in self._candidates]]

    @property
    def several(self) -> int:
        """How many of them stand in other pools' queues too."""
        return sum([each.several for each in self._candidates])

    def find(self, workload: Workload) -> Candidate | None:
        """A workload as the candidate it is here, if it is one."""
        row = self.candidates()
        at = bisect_left(row, (-workload.priority, workload.submitted_at, workload.id), key=by_key)
        return row[at] if at < len(row) and row[at].id == workload.id else None
