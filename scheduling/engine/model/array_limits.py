"""Which members of arrays wait for others of their array (section 4): at most so many are placed or in a queue."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping

from scheduling.engine.model.snapshot import PLACED, DependencyState, OpenStatus, WorkloadInfo

Place = tuple[int, int, int, str]
"""A member's place among those of its array that wait: when it is tried again, priority, submission, id."""


def place_of(member: WorkloadInfo) -> Place:
    """Its place: first those that need not be tried again, then the higher priority, the earlier submission, the id."""
    return (member.backing_off_until or 0, -member.priority, member.submitted_at, member.id)


def joins(member: WorkloadInfo) -> bool:
    """Whether it would stand in a queue but for its array: it takes a place in the array's limit."""
    return (
        member.status is OpenStatus.PENDING and not member.held and member.dependency is DependencyState.NONE
    )


class _Members:
    """The members of one array: how many are placed, and those that wait, in their order."""

    def __init__(self) -> None:
        self._placed = 0
        self._limits: Counter[int] = Counter()
        self._waiting: list[Place] = []

    def __bool__(self) -> bool:
        return bool(self._limits)

    def add(self, member: WorkloadInfo) -> None:
        """Take a member in."""
        self._limits[member.max_parallel or 0] += 1
        self._placed += member.status in PLACED
        if joins(member):
            insort(self._waiting, place_of(member))

    def remove(self, member: WorkloadInfo) -> None:
        """Strike a member out."""
        limit = member.max_parallel or 0
        self._limits[limit] -= 1
        if not self._limits[limit]:
            del self._limits[limit]
        self._placed -= member.status in PLACED
        if joins(member):
            del self._waiting[bisect_left(self._waiting, place_of(member))]

    def inside(self) -> frozenset[str]:
        """Those that may stand in a queue; of members of differing limits the least counts."""
        free = min(self._limits, default=0) - self._placed
        return frozenset([place[-1] for place in self._waiting[: max(0, free)]])

    def waiting(self) -> list[str]:
        """All that wait."""
        return [place[-1] for place in self._waiting]


class ArrayLimits:
    """The arrays of a state by name. ``beyond`` are the workloads that wait for others of their array."""

    def __init__(self, workloads: Iterable[WorkloadInfo] = ()) -> None:
        self._arrays: dict[str, _Members] = {}
        self._inside: dict[str, frozenset[str]] = {}
        self.beyond: set[str] = set()
        for workload in workloads:
            if workload.array is not None:
                self._arrays.setdefault(workload.array, _Members()).add(workload)
        for name, array in self._arrays.items():
            self._inside[name] = array.inside()
            self.beyond.update(array.waiting())
            self.beyond -= self._inside[name]

    def change(self, replaced: Mapping[str, WorkloadInfo], new: Iterable[WorkloadInfo]) -> set[str]:
        """Take in rows that are ``new``, or other than those ``replaced``; returns which of the other rows came to be
        beyond the limit of their array, or are so no more.
        """
        joined: dict[str, set[str]] = {}
        for workload in replaced.values():
            if workload.array is not None:
                self._arrays[workload.array].remove(workload)
                self.beyond.discard(workload.id)
                joined.setdefault(workload.array, set())
        for workload in new:
            if workload.array is not None:
                self._arrays.setdefault(workload.array, _Members()).add(workload)
                ids = joined.setdefault(workload.array, set())
                if joins(workload):
                    ids.add(workload.id)
        flipped: set[str] = set()
        for name, ids in joined.items():
            flipped |= self._settle(name, ids, replaced)
        return flipped

    def _settle(self, name: str, joined: set[str], replaced: Mapping[str, WorkloadInfo]) -> set[str]:
        """Bring one array up to date, of which these have ``joined`` those that wait."""
        array, before = self._arrays[name], self._inside.pop(name, frozenset())
        if not array:
            del self._arrays[name]
            return set()
        now = self._inside[name] = array.inside()
        out = {id_ for id_ in before - now if id_ not in replaced}
        back = now & self.beyond
        self.beyond -= now
        self.beyond |= out | (joined - now)
        return (out | back) - joined
