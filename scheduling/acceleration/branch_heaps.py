"""The next one among candidates of one level: the fairer team, then submission and id (section 4, keys 3 to 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic

from scheduling.engine.queue.candidate import Candidate
from scheduling.engine.queue.order import C, Line, Ratio, branch_key
from scheduling.engine.quota.tree import ROOT, Tree

_Entry = tuple[float, int, str, int, int, C]
MOST_OUT_OF_DATE = 4
"""So many entries a child may a heap have before those that are out of date are thrown away."""


class BranchHeaps(Generic[C]):
    """Candidates of one level: a heap of children at each branch of the tree that has several.

    A heap entry is (ratio, 4, 5, stamp, child, its head); one whose stamp is not the child's latest is out of date.
    ``ways`` leads from a leaf up: each child that has others beside it, and the heap where it stands among them. ``at``
    is where the first one of each leaf that is not ``gone`` stands. ``figures`` are those by branch that the ratio
    looks at: heaps that are kept see by them what has changed.
    """

    def __init__(
        self,
        tree: Tree,
        ratio: Ratio,
        line: Line[C],
        gone: set[str],
        figures: Sequence[list[int]] = (),
    ) -> None:
        self._tree = tree
        self._ratio = ratio
        self._line = line
        self._rows = dict(line)
        self._gone = gone
        self._figures = figures
        self._seen = [list(each) for each in figures]
        self._at = {leaf: _next(row, 0, gone) for leaf, row in line.items()}
        self._renewed = {leaf for leaf, at in self._at.items() if at}
        self._stale: dict[int, None] = {}
        """The leaves whose way up has to be renewed, since they or what they use have changed."""
        self._some_leaf = {branch: leaf for leaf in line for branch in tree.paths[leaf]}
        self._stamps = dict.fromkeys(sorted(self._some_leaf), 0)
        self._beside = Counter(tree.parents[branch] for branch in self._stamps)
        self._heaps = self._built()
        self._first = self._heaps[ROOT]
        self._ways: dict[int, list[tuple[int, list[_Entry[C]]]]] = {}
        for leaf in line:
            steps = [(branch, self._heaps.get(tree.parents[branch])) for branch in reversed(tree.paths[leaf])]
            self._ways[leaf] = [(branch, heap) for branch, heap in steps if heap is not None]

    def _built(self) -> dict[int, list[_Entry[C]]]:
        """The heaps, from the leaves up."""
        parents = self._tree.parents
        heaps: dict[int, list[_Entry[C]]] = {ROOT: []}
        heads: dict[int, C] = {}
        for branch in reversed(self._stamps):
            if branch in self._at:
                head = self._head_of(branch)
            elif branch in heaps:
                heapify(heaps[branch])
                head = heaps[branch][0][-1] if heaps[branch] else None
            else:
                head = heads.get(branch)
            parent = parents[branch]
            if self._beside[parent] > 1 or parent == ROOT:
                heap = heaps.setdefault(parent, [])
                if head is not None:
                    heap.append(self._entry(branch, head))
            elif head is not None:
                heads[parent] = head
        heapify(heaps[ROOT])
        return heaps

    def _head_of(self, leaf: int) -> C | None:
        """The first one of a leaf that is not gone."""
        row, at = self._rows[leaf], self._at[leaf]
        return row[at] if at < len(row) else None

    def _entry(self, branch: int, head: C) -> _Entry[C]:
        """The place of a branch among its siblings."""
        return (*branch_key(branch, head, self._ratio), self._stamps[branch], branch, head)

    def head(self) -> C | None:
        """The first candidate of the whole tree."""
        if self._stale:
            stale, self._stale = self._stale, {}
            for leaf in stale:
                self._climb(leaf)
        return self._first[0][-1] if self._first else None

    def remove(self, candidate: C) -> bool:
        """Take a candidate out, wherever it stands; whether it was the first one of its leaf."""
        self._gone.add(candidate.id)
        leaf = candidate.leaf
        at = self._at.get(leaf)
        if at is None:
            return False
        row = self._rows[leaf]
        if at >= len(row) or row[at] is not candidate:
            return False
        self._at[leaf] = _next(row, at + 1, self._gone)
        self.renew(leaf)
        return True

    def run(self) -> Iterator[C]:
        """The first candidate of the whole tree, and those of its leaf that come next while nothing changes: as far as
        each has a lower ratio than all others at each branch on its way."""
        head = self.head()
        if head is None:
            return
        row, ways = self._rows[head.leaf], self._ways[head.leaf]
        rivals: list[tuple[int, float]] | None = None
        most = -1
        for at in range(self._at[head.leaf], len(row)):
            each = row[at]
            if each.id in self._gone:
                continue
            milli = each.next_milli
            if milli > most and each is not head:
                if rivals is None:
                    rivals = [(branch, min(heap[1:3])[0]) for branch, heap in ways if len(heap) > 1]
                if any(self._ratio(branch, milli) >= rival for branch, rival in rivals):
                    return
                most = milli
            yield each

    def remove_run(self, run: Sequence[C]) -> None:
        """Take out the first candidates of a run."""
        leaf = run[0].leaf
        self._gone.update([each.id for each in run])
        self._at[leaf] = _next(self._rows[leaf], self._at[leaf], self._gone)
        self.renew(leaf)

    def first_left(self, leaf: int, row: Sequence[C]) -> int:
        """Where the first one of a row stands that is not taken out, at the earliest."""
        return self._at[leaf] if self._rows.get(leaf) is row else 0

    def renew(self, leaf: int) -> None:
        """Renew the heads and ratios on the way from a leaf up to the root, before the next look at the first one."""
        if leaf not in self._ways:
            nearest = next(
                (each for each in reversed(self._tree.paths[leaf]) if each in self._some_leaf), None
            )
            if nearest is None:
                return
            leaf = self._some_leaf[nearest]
        self._renewed.add(leaf)
        self._stale[leaf] = None

    def _climb(self, leaf: int) -> None:
        """Put the head of a leaf where it stands now, and so at each branch up to the root."""
        head = self._head_of(leaf)
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

    # --- From cycle to cycle ----------------------------------------------------------------------------------

    def catch_up(self, line: Line[C], gone: set[str], moved: Collection[int]) -> bool:
        """Have it as if made now; false where that would be no less work.

        ``moved`` are the leaves whose line is another than before, or have candidates that are ``gone`` already.
        """
        leaves = self._to_look_at(moved)
        if self._line is not line or leaves is None:
            return False
        self._gone = gone
        self._seen = [list(each) for each in self._figures]
        for leaf in leaves:
            self._at[leaf] = _next(self._rows[leaf], 0, gone)
            self.renew(leaf)
        self._renewed = {leaf for leaf in leaves if self._at[leaf]}
        for branch, heap in self._heaps.items():
            if len(heap) > MOST_OUT_OF_DATE * self._beside[branch]:
                heap[:] = [entry for entry in heap if self._stamps[entry[4]] == entry[3]]
                heapify(heap)
        return True

    def _to_look_at(self, moved: Collection[int]) -> set[int] | None:
        """The leaves to look at again, so that no branch is missed; ``None`` where it is other leaves that there are,
        or nearly all of them."""
        if any(self._line.get(leaf) is not self._rows.get(leaf) for leaf in moved):
            return None
        leaves = self._renewed.union(leaf for leaf in moved if leaf in self._rows)
        changed: set[int] = set()
        for now, then in zip(self._figures, self._seen, strict=True):
            if now != then:
                rows = enumerate(zip(now, then, strict=True))
                changed.update(branch for branch, (has, had) in rows if has != had)
        leaves.update(self._some_leaf[branch] for branch in changed if branch in self._some_leaf)
        return leaves if 2 * len(leaves) <= len(self._rows) + 2 else None


def _next(row: Sequence[Candidate], at: int, gone: Collection[str]) -> int:
    """Where the first one that is not gone stands, from some place on."""
    while at < len(row) and row[at].id in gone:
        at += 1
    return at
