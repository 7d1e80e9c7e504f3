"""The candidates of one leaf at one level (section 4)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Mapping
from operator import attrgetter
from typing import TypeVar

from scheduling.engine.model.snapshot import WorkloadInfo
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.queue.candidate import Candidate, PoolRequest

K = TypeVar("K")
by_key = attrgetter("key")
Kind = tuple[PodRequest, int, int | None]
"""What candidates have in common that the same thing keeps from a place: the request, the pods, the time limit."""
Takes = tuple[int, PoolRequest]
"""A priority, and what candidates that have it request."""


def kind_of(takes: PoolRequest) -> Kind:
    """The kind of the candidates that request this."""
    return (takes.request, takes.pods, takes.time_limit_ms)


class LeafCandidates:
    """The workloads of one leaf and class that wait at one level; they become candidates when these are asked for.

    Most cycles look at candidates of the first levels only. What is asked of the others, what they take, is the same
    for many and known before. How many take the same is counted at the first question, and kept from then on: a
    cycle after which few come and go is not to count all that wait.
    """

    __slots__ = (
        "_candidates",
        "_pool_requests",
        "_preemptor_kinds",
        "_takes",
        "_workloads",
        "leaf",
        "reserved",
    )

    def __init__(self, leaf: int, *, reserved: bool) -> None:
        self.leaf = leaf
        self.reserved = reserved
        self._workloads: list[WorkloadInfo] = []
        self._pool_requests: list[PoolRequest] = []
        self._candidates: list[Candidate] = []
        self._takes: Counter[PoolRequest] | None = None
        self._preemptor_kinds: Counter[Takes] | None = None

    def __len__(self) -> int:
        """How many there are."""
        return len(self._workloads) + len(self._candidates)

    def join(self, workload: WorkloadInfo, pool_request: PoolRequest) -> None:
        """Have a workload wait that is in no other queue."""
        self._workloads.append(workload)
        self._pool_requests.append(pool_request)
        self._takes = self._preemptor_kinds = None

    def add(self, candidate: Candidate) -> bool:
        """Put in a candidate; false if others have its priority and take the same, as far as it was asked."""
        insort(self._candidates, candidate, key=by_key)
        return self._count(candidate, 1)

    def remove(self, candidate: Candidate) -> bool:
        """Take out a candidate; false if others are left that have its priority and take the same, as far as it was
        asked."""
        row = self.candidates()
        del row[bisect_left(row, candidate.key, key=by_key)]
        return self._count(candidate, -1)

    def _count(self, candidate: Candidate, by: int) -> bool:
        """Count one more (or, negative, less); whether it is the only one of its kind."""
        only = self._takes is None and self._preemptor_kinds is None
        if self._takes is not None:
            only = _count_one(self._takes, candidate.pool_request, by)
        if self._preemptor_kinds is not None:
            only = _count_one(self._preemptor_kinds, (candidate.priority, candidate.pool_request), by) or only
        return only

    def merge(self, other: LeafCandidates) -> None:
        """Put in those of another row."""
        self._takes = self._preemptor_kinds = None
        self._workloads += other._workloads
        self._pool_requests += other._pool_requests
        self._candidates = sorted(self._candidates + other._candidates, key=by_key)

    def candidates(self) -> list[Candidate]:
        """All of them in the order of their own keys, always in the same list."""
        if self._workloads:
            leaf, rows = self.leaf, zip(self._workloads, self._pool_requests, strict=True)
            self._candidates += [Candidate(workload, leaf, pool_request) for workload, pool_request in rows]
            self._candidates.sort(key=by_key)
            self._workloads, self._pool_requests = [], []
        return self._candidates

    @property
    def takes(self) -> Mapping[PoolRequest, int]:
        """How many of them take what."""
        if self._takes is None:
            self._takes = Counter(self._pool_requests)
            self._takes.update([each.pool_request for each in self._candidates])
        return self._takes

    @property
    def preemptor_kinds(self) -> Mapping[Takes, int]:
        """How many of them have the same priority and take the same."""
        if self._preemptor_kinds is None:
            self._preemptor_kinds = Counter(
                [(each.priority, each.pool_request) for each in self.candidates()]
            )
        return self._preemptor_kinds

    @property
    def several(self) -> int:
        """How many of them stand in other pools' queues too."""
        return sum([each.several for each in self._candidates])

    def find(self, workload: WorkloadInfo) -> Candidate | None:
        """A workload as the candidate it is here, if it is one."""
        row = self.candidates()
        at = bisect_left(row, (-workload.priority, workload.submitted_at, workload.id), key=by_key)
        return row[at] if at < len(row) and row[at].id == workload.id else None


def _count_one(counts: Counter[K], key: K, by: int) -> bool:
    """Count one more of these (or, negative, less); whether it is the only one, or the last."""
    counts[key] += by
    count = counts[key]
    if not count:
        del counts[key]
    return count in (0, by)
