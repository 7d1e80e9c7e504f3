"""The order of the queue: one total order per pool, worked out while the cycle admits (section 4).

1. reserved before elastic
2. higher priority
3. the fairer team: from the root down into the branch with the lowest ratio that has candidates
4. earlier original submission
5. id

Where elastic work is not preempted by priority (``fair-share``, ``never``), 3 comes before 2 for elastic workloads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from operator import attrgetter
from typing import Generic, Protocol, TypeVar, cast

from scheduling.engine.candidate import OwnKey
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
    def key(self) -> OwnKey:
        """Its place inside its team."""

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


class Queue(Generic[C]):
    """Candidates of one pool, taken one by one in the order of this page.

    :meth:`touch` tells it that what a leaf uses has changed.
    """

    def __init__(self, tree: Tree, policy: Policy, ratio: Ratio, candidates: Iterable[C]) -> None:
        self._tree = tree
        self._ratio = ratio
        by_priority = policy.elastic_preemption is ElasticPreemption.PRIORITY
        buckets: dict[tuple[bool, int], list[C]] = {}
        for candidate in candidates:
            reserved = candidate.reserved
            level = candidate.key[0] if reserved or by_priority else 0
            buckets.setdefault((not reserved, level), []).append(candidate)
        self._buckets = [buckets[key] for key in sorted(buckets, reverse=True)]
        self._bucket: _Bucket[C] | None = None
        self._gone: set[str] = set()

    def peek(self) -> C | None:
        """The next candidate, which stays; ``None`` when nobody is left."""
        while True:
            if self._bucket is not None:
                head = self._bucket.head(self._gone)
                if head is not None:
                    return head
            if not self._buckets:
                return None
            self._bucket = _Bucket(self._tree, self._ratio, self._buckets.pop())

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
        for candidate in candidates:
            self._leaves.setdefault(candidate.leaf, []).append(candidate)
        for queue in self._leaves.values():
            queue.sort(key=attrgetter("key"), reverse=True)
        self._heaps: dict[int, list[tuple[float, int, str, int, int]]] = {ROOT: []}
        self._stamps: dict[int, int] = {}
        self._heads: dict[int, C | None] = {}
        branches = {branch for leaf in self._leaves for branch in tree.paths[leaf]}
        for branch in sorted(branches, reverse=True):
            if branch in self._leaves:
                head = self._leaves[branch][-1]
            else:
                heap = self._heaps[branch]
                heapify(heap)
                head = cast("C", self._heads[heap[0][-1]])
            self._heads[branch] = head
            self._stamps[branch] = 0
            self._heaps.setdefault(tree.parents[branch], []).append(self._entry(branch, head, 0))
        heapify(self._heaps[ROOT])
        self._renew_head(ROOT)

    def _entry(self, branch: int, head: C, stamp: int) -> tuple[float, int, str, int, int]:
        """The standing of a branch among its siblings."""
        _, submitted_at, id_ = head.key
        return (self._ratio(branch, head.next_milli), submitted_at, id_, stamp, branch)

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
        for branch in reversed(self._tree.paths[leaf]):
            if branch not in self._stamps:
                continue
            self._stamps[branch] = stamp = self._stamps[branch] + 1
            parent = self._tree.parents[branch]
            head = self._heads[branch]
            if head is not None:
                heap, entry = self._heaps[parent], self._entry(branch, head, stamp)
                if heap and heap[0][-1] == branch:
                    heapreplace(heap, entry)
                else:
                    heappush(heap, entry)
            self._renew_head(parent)

    def _renew_head(self, branch: int) -> None:
        """The head of a branch is that of its best child, whose entry is up to date."""
        heap = self._heaps[branch]
        while heap and self._stamps[heap[0][-1]] != heap[0][-2]:
            heappop(heap)
        self._heads[branch] = self._heads[heap[0][-1]] if heap else None
