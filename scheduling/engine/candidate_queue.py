"""Candidates of one pool, taken in the order of the queue (section 4): kept heaps answer who is next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Generic

from scheduling.engine.bucket import Bucket, Lead
from scheduling.engine.queue.order import C, Level, Line, Ratio
from scheduling.engine.quota.tree import Tree


class Buckets(Generic[C]):
    """The bucket of each level of one pool, kept from cycle to cycle.

    ``figures`` are the lists by branch that the ratio looks at. :meth:`note` tells whose line is another.
    """

    def __init__(self, tree: Tree, ratio: Ratio, figures: Sequence[list[int]] = ()) -> None:
        self._tree = tree
        self._ratio = ratio
        self._figures = figures
        self._buckets: dict[Level, Bucket[C]] = {}
        self._moved: dict[Level, set[int]] = {}

    def note(self, level: Level, leaf: int) -> None:
        """The line of a leaf is not what it was."""
        if level in self._buckets:
            self._moved.setdefault(level, set()).add(leaf)

    def of(self, level: Level, line: Line[C], gone: set[str], early: Iterable[int] = ()) -> Bucket[C]:
        """The bucket of a level as things stand; ``early`` are the leaves of those who are ``gone`` already."""
        found = self._buckets.get(level)
        moved = self._moved.pop(level, set())
        if found is None or not found.catch_up(line, gone, moved.union(early)):
            found = self._buckets[level] = Bucket(self._tree, self._ratio, line, gone, self._figures)
        return found

    def once(self, line: Line[C], gone: set[str]) -> Bucket[C]:
        """A bucket of some leaves of a level, which is not kept."""
        return Bucket(self._tree, self._ratio, line, gone)


class Queue(Generic[C]):
    """Candidates of one pool, taken one by one in the order of :mod:`scheduling.engine.queue.order`.

    :meth:`touch` tells it that what a leaf uses has changed. The lines are not changed by it. ``with_turns`` says, when
    a level's turn comes, which of its leaves have theirs, if not all. ``gone`` are those who have had their turn, but
    for those who were skipped; ``last`` is the last of all.
    """

    def __init__(
        self,
        buckets: Buckets[C],
        lines: Mapping[Level, Line[C]],
        with_turns: Callable[[Level], Line[C] | None] = lambda _: None,
    ) -> None:
        self._buckets = buckets
        self._lines = lines
        self._levels = sorted(lines, reverse=True)
        self._with_turns = with_turns
        self._bucket: Bucket[C] | None = None
        self._early: set[int] = set()
        self.gone: set[str] = set()
        self.last: C | None = None
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
            some = self._with_turns(self.level)
            if some is None:
                self._bucket = self._buckets.of(self.level, self._lines[self.level], self.gone, self._early)
            else:
                self._bucket = self._buckets.once(some, self.gone)

    def remove(self, candidate: C) -> None:
        """Take a candidate out, wherever it stands."""
        self.last = candidate
        self.gone.add(candidate.id)
        if self._bucket is None or not self._bucket.remove(candidate):
            self._early.add(candidate.leaf)

    def run(self) -> Iterable[C]:
        """The next candidate, and those who certainly follow it, in order, while nothing changes. All stay."""
        return () if self.peek() is None or self._bucket is None else self._bucket.run()

    def remove_run(self, run: Sequence[C]) -> None:
        """Take out those who came first in a run."""
        if run and self._bucket is not None:
            self._bucket.remove_run(run)
            self.last = run[-1]

    def lead(self) -> Lead[C] | None:
        """Where the next candidate stands in its leaf's row, and who certainly follows it."""
        return None if self.peek() is None or self._bucket is None else self._bucket.lead()

    def skip(self, lead: Lead[C], at: int) -> None:
        """Take out those who lead and stand before some place in their row."""
        if self._bucket is not None:
            self.last = lead.row[at - 1]
            self._bucket.skip(self.last.leaf, at)

    def left(self, leaf: int, row: Sequence[C]) -> Iterator[C]:
        """Those of a row, all of a leaf at some level, who have not had their turn."""
        at = self._bucket.first_left(leaf, row) if self._bucket is not None else 0
        return (each for each in islice(row, at, None) if each.id not in self.gone)

    def touch(self, leaf: int) -> None:
        """Work out the ratios of a leaf and of the branches above it anew."""
        if self._bucket is not None:
            self._bucket.renew(leaf)

    def levels_to_come(self) -> list[Level]:
        """The level whose turn it is and those after it."""
        return [*([] if self.level is None else [self.level]), *reversed(self._levels)]
