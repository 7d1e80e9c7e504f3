"""Candidates of one pool, taken in the order of the queue (section 4): kept heaps tell which is next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Generic

from scheduling.acceleration.branch_heaps import BranchHeaps
from scheduling.engine.queue.order import C, CandidateQueue, Level, Line, Ratio
from scheduling.engine.quota.tree import Tree


class LevelHeaps(Generic[C]):
    """The heaps of each level of one pool, kept from cycle to cycle.

    ``figures`` are the lists by branch that the ratio looks at. :meth:`note` tells whose line is another.
    """

    def __init__(self, tree: Tree, ratio: Ratio, figures: Sequence[list[int]] = ()) -> None:
        self._tree = tree
        self._ratio = ratio
        self._figures = figures
        self._level_heaps: dict[Level, BranchHeaps[C]] = {}
        self._moved: dict[Level, set[int]] = {}

    def note(self, level: Level, leaf: int) -> None:
        """The line of a leaf is not what it was."""
        if level in self._level_heaps:
            self._moved.setdefault(level, set()).add(leaf)

    def of(self, level: Level, line: Line[C], gone: set[str], early: Iterable[int] = ()) -> BranchHeaps[C]:
        """The heaps of a level as things stand; ``early`` are the leaves of those that are ``gone`` already."""
        found = self._level_heaps.get(level)
        moved = self._moved.pop(level, set())
        if found is None or not found.catch_up(line, gone, moved.union(early)):
            found = self._level_heaps[level] = BranchHeaps(self._tree, self._ratio, line, gone, self._figures)
        return found

    def once(self, line: Line[C], gone: set[str]) -> BranchHeaps[C]:
        """Heaps of some leaves of a level, which are not kept."""
        return BranchHeaps(self._tree, self._ratio, line, gone)


class HeapQueue(CandidateQueue[C]):
    """Candidates of one pool, taken one by one in the order of :mod:`scheduling.engine.queue.order`.

    :meth:`touch` tells it that what a leaf uses has changed. The lines are not changed by it. ``with_turns`` says, when
    a level's turn comes, which of its leaves have theirs, if not all. ``gone`` are the candidates that have had their
    turn; ``last`` is the last of them.
    """

    def __init__(
        self,
        level_heaps: LevelHeaps[C],
        lines: Mapping[Level, Line[C]],
        with_turns: Callable[[Level], Line[C] | None] = lambda _: None,
    ) -> None:
        self._level_heaps = level_heaps
        self._lines = lines
        self._to_come = sorted(lines, reverse=True)
        self._with_turns = with_turns
        self._heaps: BranchHeaps[C] | None = None
        self._early: set[int] = set()
        self.gone: set[str] = set()
        self.last: C | None = None
        self.level: Level | None = None

    def peek(self) -> C | None:
        """The next candidate, which stays; ``None`` when nothing is left."""
        while True:
            if self._heaps is not None:
                head = self._heaps.head()
                if head is not None:
                    return head
            if not self._to_come:
                return None
            self.level = self._to_come.pop()
            some = self._with_turns(self.level)
            if some is None:
                self._heaps = self._level_heaps.of(
                    self.level, self._lines[self.level], self.gone, self._early
                )
            else:
                self._heaps = self._level_heaps.once(some, self.gone)

    def remove(self, candidate: C) -> None:
        """Take a candidate out, wherever it stands."""
        self.last = candidate
        self.gone.add(candidate.id)
        if self._heaps is None or not self._heaps.remove(candidate):
            self._early.add(candidate.leaf)

    def run(self) -> Iterable[C]:
        """The next candidate, and those that certainly follow it, in order, while nothing changes. All stay."""
        return () if self.peek() is None or self._heaps is None else self._heaps.run()

    def remove_run(self, run: Sequence[C]) -> None:
        """Take out those that came first in a run."""
        if run and self._heaps is not None:
            self._heaps.remove_run(run)
            self.last = run[-1]

    def left(self, leaf: int, row: Sequence[C]) -> Iterator[C]:
        """Those of a row, all of a leaf at some level, that have not had their turn."""
        at = self._heaps.first_left(leaf, row) if self._heaps is not None else 0
        return (each for each in islice(row, at, None) if each.id not in self.gone)

    def touch(self, leaf: int) -> None:
        """Work out the ratios of a leaf and of the branches above it anew."""
        if self._heaps is not None:
            self._heaps.renew(leaf)

    def levels_to_come(self) -> list[Level]:
        """The level whose turn it is and those after it."""
        return [*([] if self.level is None else [self.level]), *reversed(self._to_come)]
