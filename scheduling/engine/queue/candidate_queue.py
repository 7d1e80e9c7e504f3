"""Candidates in the order of the queue: a port, and its plain answers (section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from scheduling.engine.queue.order import C, Level, Line, Ratio, branch_key
from scheduling.engine.quota.tree import ROOT, Tree


class CandidateQueue(Protocol[C]):
    """Candidates of one pool, taken one by one in the order of :mod:`scheduling.engine.queue.order`.

    An implementation must give the first of those left at each look, by the ratios of that moment.
    """

    def peek(self) -> C | None:
        """The next candidate, which stays; ``None`` when none is left."""

    def remove(self, candidate: C) -> None:
        """Take a candidate out, wherever it stands."""

    def touch(self, leaf: int) -> None:
        """What a leaf uses, or what its candidates take, has changed."""


class PlainQueue(CandidateQueue[C]):
    """Looks for the next candidate from the root down, at each look."""

    def __init__(self, tree: Tree, ratio: Ratio, levels: Mapping[Level, Line[C]]) -> None:
        self._tree = tree
        self._ratio = ratio
        self._levels = {
            level: {leaf: list(row) for leaf, row in levels[level].items()} for level in sorted(levels)
        }

    def peek(self) -> C | None:
        """The next candidate, which stays; ``None`` when none is left."""
        for line in self._levels.values():
            first = self._first(ROOT, line)
            if first is not None:
                return first
        return None

    def _first(self, branch: int, line: Line[C]) -> C | None:
        """The next candidate below a branch: that of the child with the lowest key."""
        children = self._tree.children[branch]
        if not children:
            row = line.get(branch)
            return row[0] if row else None
        firsts = [
            (branch_key(child, first, self._ratio), first)
            for child in children
            if (first := self._first(child, line)) is not None
        ]
        return min(firsts, key=lambda each: each[0])[1] if firsts else None

    def remove(self, candidate: C) -> None:
        """Take a candidate out, wherever it stands."""
        for line in self._levels.values():
            if candidate in (row := line.get(candidate.leaf, [])):
                row.remove(candidate)

    def touch(self, leaf: int) -> None:
        """Nothing to do: each look is a new one."""
