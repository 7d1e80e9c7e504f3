"""The order of the queue: one total order per pool, worked out while the cycle admits (section 4).

1. reserved before elastic
2. higher priority
3. the fairer team: from the root down into the branch with the lowest ratio that has candidates
4. earlier original submission
5. id

Where elastic work is not preempted by priority (``fair-share``, ``never``), 3 comes before 2 for elastic workloads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
Level = tuple[bool, int]
"""Keys 1 and 2 of the order, as far as they come before 3: whether elastic, and minus the priority."""
Line = Mapping[int, Sequence[C]]
"""Candidates that differ in keys 3 to 5 only, by leaf; those of a leaf by their own keys."""


def level_of(policy: Policy, candidate: Queued) -> Level:
    """The level a candidate stands at."""
    ordered = candidate.reserved or policy.elastic_preemption is ElasticPreemption.PRIORITY
    return (not candidate.reserved, candidate.key[0] if ordered else 0)


def lined_up(policy: Policy, candidates: Iterable[C]) -> dict[Level, dict[int, list[C]]]:
    """The candidates in line."""
    levels: dict[Level, dict[int, list[C]]] = {}
    for candidate in candidates:
        leaves = levels.setdefault(level_of(policy, candidate), {})
        leaves.setdefault(candidate.leaf, []).append(candidate)
    for leaves in levels.values():
        for line in leaves.values():
            line.sort(key=attrgetter("key"))
    return levels


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

    :meth:`touch` tells it that what a leaf uses has changed. The lines are not changed by it. A level of which
    ``is_idle`` is true when its turn comes is passed over. ``gone`` are those who have had their turn.
    """

    def __init__(
        self,
        tree: Tree,
        ratio: Ratio,
        lines: Mapping[Level, Line[C]],
        is_idle: Callable[[Level], bool] = lambda _: False,
    ) -> None:
        self._tree = tree
        self._ratio = ratio
        self._lines = lines
        self._levels = sorted(lines, reverse=True)
        self._is_idle = is_idle
        self._bucket: _Bucket[C] | None = None
        self.gone: set[str] = set()
        self.level: Level | None = None

    def peek(self) -> C | None:
        """The next candidate, which stays; ``None`` when nobody is left."""
        while True:
            if self._bucket is not None:
                head = self._bucket.head(self.gone)
                if head is not None:
                    return head
            if not self._levels:
                return None
            self.level = self._levels.pop()
            if not self._is_idle(self.level):
                self._bucket = _Bucket(self._tree, self._ratio, self._lines[self.level])

    def remove(self, candidate: C) -> None:
        """Take a candidate out, wherever it stands."""
        self.gone.add(candidate.id)
        if self._bucket is not None:
            self._bucket.refresh(candidate.leaf, self.gone)

    def touch(self, leaf: int) -> None:
        """Work out the ratios of a leaf and of the branches above it anew."""
        if self._bucket is not None:
            self._bucket.refresh(leaf, self.gone)

    def levels_to_come(self) -> list[Level]:
        """The level whose turn it is and those after it."""
        return [*([] if self.level is None else [self.level]), *reversed(self._levels)]


def in_order(tree: Tree, ratio: Ratio, line: Line[C]) -> Iterable[C]:
    """The candidates of one level in their order, while nothing changes."""
    bucket: _Bucket[C] = _Bucket(tree, ratio, line)
    gone: set[str] = set()
    while (head := bucket.head(gone)) is not None:
        yield head
        gone.add(head.id)
        bucket.refresh(head.leaf, gone)


class _Bucket(Generic[C]):
    """Candidates that differ in keys 3 to 5 only: a heap of children at each branch of the tree.

    A heap entry is (ratio, 4, 5, stamp, child); one whose stamp is not the child's latest is out of date.
    """

    def __init__(self, tree: Tree, ratio: Ratio, line: Line[C]) -> None:
        self._tree = tree
        self._ratio = ratio
        self._line = line
        self._next = dict.fromkeys(line, 0)
        self._heaps: dict[int, list[tuple[float, int, str, int, int]]] = {ROOT: []}
        self._stamps: dict[int, int] = {}
        self._heads: dict[int, C | None] = {}
        branches = {branch for leaf in line for branch in tree.paths[leaf]}
        for branch in sorted(branches, reverse=True):
            if branch in line:
                head = line[branch][0]
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
        candidates = self._line.get(leaf)
        if candidates is not None:
            at = self._next[leaf]
            while at < len(candidates) and candidates[at].id in gone:
                at += 1
            self._next[leaf] = at
            self._heads[leaf] = candidates[at] if at < len(candidates) else None
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
