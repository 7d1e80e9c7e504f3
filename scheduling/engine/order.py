"""The order of the queue: one total order per pool, worked out while the cycle admits (section 4).

1. reserved before elastic
2. higher priority
3. the fairer team: from the root down into the branch with the lowest ratio that has candidates
4. earlier original submission
5. id

Where elastic work is not preempted by priority (``fair-share``, ``never``), 3 comes before 2 for elastic workloads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

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
_Entry = tuple[float, int, str, int, int, C]
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


def fair_share(policy: Policy, accounts: Accounts, entitled: Sequence[int], given: Sequence[int]) -> Ratio:
    """The ratio by entitlement, ``(U + the newcomer) / E``, or by decayed usage over weight; infinite where nothing is
    due to a branch. ``given`` are the milli-GPUs that this cycle has given each branch."""
    weights, decayed, used = accounts.quotas.weight, accounts.quotas.usage_gpu_ms, accounts.usage.used

    def by_entitlement(branch: int, newcomer_milli: int) -> float:
        due = entitled[branch]
        return (used[branch] + newcomer_milli) / due if due else inf

    def by_usage(branch: int, _: int) -> float:
        weight = weights[branch]
        return (decayed[branch] + given[branch] * HOUR_MS // GPU_MILLI) / weight if weight else inf

    return by_usage if policy.fairness is Fairness.USAGE else by_entitlement


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
                head = self._bucket.head()
                if head is not None:
                    return head
            if not self._levels:
                return None
            self.level = self._levels.pop()
            if not self._is_idle(self.level):
                self._bucket = _Bucket(self._tree, self._ratio, self._lines[self.level], self.gone)

    def remove(self, candidate: C) -> None:
        """Take a candidate out, wherever it stands."""
        self.gone.add(candidate.id)
        if self._bucket is not None:
            self._bucket.remove(candidate)

    def touch(self, leaf: int) -> None:
        """Work out the ratios of a leaf and of the branches above it anew."""
        if self._bucket is not None:
            self._bucket.renew(leaf)

    def levels_to_come(self) -> list[Level]:
        """The level whose turn it is and those after it."""
        return [*([] if self.level is None else [self.level]), *reversed(self._levels)]


def in_order(tree: Tree, ratio: Ratio, line: Line[C]) -> Iterable[C]:
    """The candidates of one level in their order, while nothing changes."""
    bucket: _Bucket[C] = _Bucket(tree, ratio, line, set())
    while (head := bucket.head()) is not None:
        yield head
        bucket.remove(head)


def _next(row: Sequence[C], at: int, gone: set[str]) -> int:
    """Where the first one who is not gone stands, from some place on."""
    while at < len(row) and row[at].id in gone:
        at += 1
    return at


class _Bucket(Generic[C]):
    """Candidates that differ in keys 3 to 5 only: a heap of children at each branch of the tree that has several.

    A heap entry is (ratio, 4, 5, stamp, child, its head); one whose stamp is not the child's latest is out of date.
    ``ways`` leads from a leaf up: each child that has others beside it, and the heap where it stands among them. ``at``
    is where the first one of each leaf stands who is not ``gone``.
    """

    def __init__(self, tree: Tree, ratio: Ratio, line: Line[C], gone: set[str]) -> None:
        self._tree = tree
        self._ratio = ratio
        self._line = line
        self._gone = gone
        starts = {leaf: _next(row, 0, gone) for leaf, row in line.items()}
        self._at = {leaf: at for leaf, at in starts.items() if at < len(line[leaf])}
        self._some_leaf = {branch: leaf for leaf in self._at for branch in tree.paths[leaf]}
        self._stamps = dict.fromkeys(sorted(self._some_leaf), 0)
        beside = Counter(tree.parents[branch] for branch in self._stamps)
        heaps: dict[int, list[_Entry[C]]] = {ROOT: []}
        heads: dict[int, C] = {}
        for branch in reversed(self._stamps):
            if branch in self._at:
                heads[branch] = line[branch][self._at[branch]]
            elif heaps.get(branch):
                heapify(heaps[branch])
                heads[branch] = heaps[branch][0][-1]
            parent = tree.parents[branch]
            if beside[parent] > 1 or parent == ROOT:
                heaps.setdefault(parent, []).append(self._entry(branch, heads[branch]))
            else:
                heads[parent] = heads[branch]
        heapify(heaps[ROOT])
        self._first = heaps[ROOT]
        self._ways: dict[int, list[tuple[int, list[_Entry[C]]]]] = {}
        for leaf in self._at:
            steps = [(branch, heaps.get(tree.parents[branch])) for branch in reversed(tree.paths[leaf])]
            self._ways[leaf] = [(branch, heap) for branch, heap in steps if heap is not None]

    def _entry(self, branch: int, head: C) -> _Entry[C]:
        """The standing of a branch among its siblings."""
        _, submitted_at, id_ = head.key
        return (self._ratio(branch, head.next_milli), submitted_at, id_, self._stamps[branch], branch, head)

    def head(self) -> C | None:
        """The first candidate of the whole tree."""
        return self._first[0][-1] if self._first else None

    def remove(self, candidate: C) -> None:
        """Take a candidate out, wherever it stands."""
        self._gone.add(candidate.id)
        leaf = candidate.leaf
        if leaf in self._at:
            row, at = self._line[leaf], self._at[leaf]
            if at < len(row) and row[at] is candidate:
                self._at[leaf] = _next(row, at + 1, self._gone)
                self.renew(leaf)

    def renew(self, leaf: int) -> None:
        """Renew the heads and ratios on the way from a leaf up to the root."""
        if leaf not in self._ways:
            nearest = next(
                (each for each in reversed(self._tree.paths[leaf]) if each in self._some_leaf), None
            )
            if nearest is None:
                return
            leaf = self._some_leaf[nearest]
        row, at = self._line[leaf], self._at[leaf]
        head = row[at] if at < len(row) else None
        stamps = self._stamps
        for branch, heap in self._ways[leaf]:
            stamps[branch] += 1
            if head is not None:
                entry = self._entry(branch, head)
                if heap and heap[0][4] == branch:
                    heapreplace(heap, entry)
                else:
                    heappush(heap, entry)
            while heap and stamps[heap[0][4]] != heap[0][3]:
                heappop(heap)
            head = heap[0][5] if heap else None
