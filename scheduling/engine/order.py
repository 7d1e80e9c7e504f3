"""The order of the queue: one total order per pool, worked out while the cycle admits (section 4).

1. reserved before elastic
2. higher priority
3. the fairer team: from the root down into the branch with the lowest ratio that has candidates
4. earlier original submission
5. id

Where elastic work is not preempted by priority (``fair-share``, ``never``), 3 comes before 2 for elastic workloads.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from math import inf
from typing import Generic, Protocol, TypeVar

from scheduling.engine.tree import ROOT, Accounts, Tree
from scheduling.engine.types import GPU_MILLI, HOUR_MS, ElasticPreemption, Fairness, Policy


class Queued(Protocol):
    """What the order has to know of a candidate."""

    @property
    def id(self) -> str:
        """Its id, the last key."""

    @property
    def leaf(self) -> int:
        """Its team's leaf of the tree."""

    @property
    def reserved(self) -> bool:
        """Its class."""

    @property
    def priority(self) -> int:
        """Its priority."""

    @property
    def submitted_at(self) -> int:
        """Its original submission."""

    @property
    def next_milli(self) -> int:
        """What it takes when its turn comes."""


C = TypeVar("C", bound=Queued)

Ratio = Callable[[int, int], float]
"""How well served a branch is, given the milli-GPUs its next candidate would add; lower comes first."""


@dataclass(frozen=True, slots=True)
class FairShare:
    """The ratio by entitlement, ``(U + the newcomer) / E``, or by decayed usage over weight."""

    policy: Policy
    accounts: Accounts
    entitled: list[int]
    given: list[int]
    """Milli-GPUs that this cycle has given each branch."""

    def __call__(self, branch: int, newcomer_milli: int) -> float:
        """The ratio of a branch; infinite where nothing is due to it."""
        if self.policy.fairness is Fairness.USAGE:
            weight = self.accounts.quotas.weight[branch]
            used = self.accounts.quotas.usage_gpu_ms[branch] + self.given[branch] * HOUR_MS // GPU_MILLI
            return used / weight if weight else inf
        entitled = self.entitled[branch]
        return (self.accounts.usage.used[branch] + newcomer_milli) / entitled if entitled else inf


def bucket_key(policy: Policy, candidate: Queued) -> tuple[int, int]:
    """Keys 1 and 2: candidates of one bucket are ordered by the fairness of their teams."""
    if candidate.reserved:
        return (0, -candidate.priority)
    return (1, -candidate.priority if policy.elastic_preemption is ElasticPreemption.PRIORITY else 0)


def own_key(candidate: Queued) -> tuple[int, int, str]:
    """Keys 2, 4 and 5: the order inside a team."""
    return (-candidate.priority, candidate.submitted_at, candidate.id)


class Queue(Generic[C]):
    """Candidates of one pool, taken one by one in the order of this page.

    :meth:`touch` tells it that what a leaf uses has changed.
    """

    def __init__(self, tree: Tree, policy: Policy, ratio: Ratio, candidates: Iterable[C]) -> None:
        self._tree = tree
        self._ratio = ratio
        ordered = sorted(candidates, key=lambda each: (bucket_key(policy, each), own_key(each)))
        self._buckets: Iterator[list[C]] = (
            list(group) for _, group in groupby(ordered, key=lambda each: bucket_key(policy, each))
        )
        self._bucket: _Bucket[C] | None = None
        self._gone: set[str] = set()

    def peek(self) -> C | None:
        """The next candidate, which stays; ``None`` when nobody is left."""
        while True:
            if self._bucket is not None:
                head = self._bucket.head(self._gone)
                if head is not None:
                    return head
            following = next(self._buckets, None)
            if following is None:
                return None
            self._bucket = _Bucket(self._tree, self._ratio, following)

    def remove(self, candidate: C) -> None:
        """Take a candidate out, wherever it stands."""
        self._gone.add(candidate.id)
        if self._bucket is not None:
            self._bucket.refresh(candidate.leaf, self._gone)

    def touch(self, leaf: int) -> None:
        """Work out the ratios of a leaf and of the branches above it anew."""
        if self._bucket is not None:
            self._bucket.refresh(leaf, self._gone)


class _Bucket(Generic[C]):
    """Candidates that differ in keys 3 to 5 only: a heap of children at each branch of the tree.

    A heap entry is (ratio, 4, 5, stamp, child); one whose stamp is not the child's latest is out of date.
    """

    def __init__(self, tree: Tree, ratio: Ratio, candidates: list[C]) -> None:
        self._tree = tree
        self._ratio = ratio
        self._leaves: dict[int, list[C]] = {}
        for candidate in reversed(candidates):
            self._leaves.setdefault(candidate.leaf, []).append(candidate)
        self._heaps: dict[int, list[tuple[float, tuple[int, str], int, int]]] = {}
        self._stamps: dict[int, int] = {}
        self._heads: dict[int, C | None] = {}
        for leaf in self._leaves:
            self.refresh(leaf, set())

    def head(self, gone: set[str]) -> C | None:
        """The first candidate of the whole tree that is not gone."""
        head = self._heads.get(ROOT)
        while head is not None and head.id in gone:
            self.refresh(head.leaf, gone)
            head = self._heads.get(ROOT)
        return head

    def refresh(self, leaf: int, gone: set[str]) -> None:
        """Renew the heads and ratios on the way from a leaf up to the root."""
        candidates = self._leaves.get(leaf)
        while candidates and candidates[-1].id in gone:
            candidates.pop()
        if candidates is not None:
            self._heads[leaf] = candidates[-1] if candidates else None
        path = self._tree.paths[leaf]
        for depth in range(len(path) - 1, -1, -1):
            parent = path[depth - 1] if depth else ROOT
            self._push(parent, path[depth])
            self._heads[parent] = self._top(parent)

    def _push(self, parent: int, child: int) -> None:
        """Put the child's present standing into its parent's heap, and outdate the former one."""
        stamp = self._stamps.get(child, 0) + 1
        self._stamps[child] = stamp
        head = self._heads.get(child)
        if head is not None:
            entry = (self._ratio(child, head.next_milli), (head.submitted_at, head.id), stamp, child)
            heapq.heappush(self._heaps.setdefault(parent, []), entry)

    def _top(self, parent: int) -> C | None:
        """The head of the best child that is up to date."""
        heap = self._heaps.get(parent, [])
        while heap:
            _, _, stamp, child = heap[0]
            head = self._heads.get(child)
            if self._stamps[child] == stamp and head is not None:
                return head
            heapq.heappop(heap)
        return None
