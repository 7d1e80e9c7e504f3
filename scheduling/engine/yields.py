"""What nodes would have left if some went of those who lie there (section 7)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from scheduling.engine.ledger import Ledger
from scheduling.engine.rights import Rights
from scheduling.engine.roster import Roster
from scheduling.engine.standing import Standing
from scheduling.engine.tree import ROOT, Tree
from scheduling.engine.types import GPU_MILLI

Fair = tuple[int, int]
"""A branch that the fair-share rule takes from, and by which due (:data:`~scheduling.engine.rights.ANY_DUE`: both)."""


@dataclass(frozen=True, slots=True)
class Group:
    """Whom some newcomers may take: of all teams, or the ``own`` one, those of priority ``below`` some; and of the
    ``fair`` branches those of priority ``equal``. No priority: whatever it is."""

    below: int | None
    own: int | None
    fair: tuple[Fair, ...] = ()
    equal: int | None = None

    def alone(self) -> list[Group]:
        """Those of lower priority, and those of each of the fair branches, on their own."""
        fair = [Group(self.below, self.own, (each,), self.equal) for each in self.fair]
        return [Group(self.below, self.own), *fair]

    def has(self, standing: Standing, tree: Tree) -> bool:
        """Whether the workload is one of them."""
        return self.is_lower(standing) or self.through(standing, tree) is not None

    def is_lower(self, standing: Standing) -> bool:
        """Whether it is one of those of lower priority."""
        below = self.below is None or standing.workload.priority < self.below
        return below and self.own in (None, standing.leaf)

    def through(self, standing: Standing, tree: Tree) -> int | None:
        """The fair branch where it is one of those who could go; no two of them lie one above the other."""
        if self.equal not in (None, standing.workload.priority):
            return None
        path = tree.paths[standing.leaf]
        return next((branch for branch, _ in self.fair if branch in path), None)

    def ranks(self, roster: Roster) -> Collection[int]:
        """The nodes where those of the fair branches lie; where there are none, the others."""
        top = ROOT if self.own is None else self.own
        if self.fair:
            groups: list[tuple[int, int | None]] = [(branch, self.equal) for branch, _ in self.fair]
        elif self.below is None and self.own is None:
            return roster.all_ranks()
        else:
            groups = [(top, priority) for priority in roster.lower(top, self.below or 0)]
        cells = [cell for group in groups for cell in roster.cells(*group)]
        return {rank for cell in cells for each in roster.of(cell) for rank in roster.ranks(each)}


EVERYBODY = Group(None, None)
NOWHERE: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Need:
    """What one pod needs of a node's devices: one object for all asks that need the same.

    ``costs`` are those on each kind of node that lets the pod in.
    """

    whole: int
    costs: dict[int, tuple[int, ...]]

    def pods(self, kind: int, most: Sequence[int]) -> int:
        """For how many such pods a node of this kind with so much on its devices has enough of them."""
        costs = self.costs.get(kind)
        if costs is None:
            return 0
        if self.whole:
            free = [1 for left, cost in zip(most, costs, strict=True) if left >= GPU_MILLI and cost]
            return len(free) // self.whole
        return sum([left // cost for left, cost in zip(most, costs, strict=True) if cost and left > 0])


class Heir(Protocol):
    """Who wants to know when there is more."""

    def rise(self, part: Yields, rank: int, before: Sequence[int] | None) -> None:
        """There is more on a node than before (``None``: it was not one of the nodes)."""


class Yields:
    """What the nodes where some ``group`` lies would have on each device if all went of it that may; by now it may be
    less.

    A fair branch gives no more than brings it down to what is due to it: all but the last of its victims together are
    less than its excess. ``among``: on these nodes only. ``heirs`` are told where :meth:`look_again` finds more.
    """

    def __init__(
        self, ledger: Ledger, rights: Rights, roster: Roster, group: Group, among: Iterable[int] | None = None
    ) -> None:
        self._ledger = ledger
        self._rights = rights
        self._roster = roster
        self._tree = rights.accounts.tree
        self.group = group
        self.kind_of = ledger.fleet.kind_of
        self.heirs: list[Heir] = []
        self._among = None if among is None else frozenset(among)
        self._excess = self._excesses()
        if self._among is None and group == EVERYBODY:
            self.most = self._most_of_all()
        else:
            ranks = group.ranks(roster) if self._among is None else self._among
            self.most = {rank: self._most(rank) for rank in ranks if self.kind_of[rank] >= 0}
        self._vain: dict[Need, frozenset[int]] = {}
        """What no node meets outside these."""
        self._last: dict[Need, int] = {}

    def _most(self, rank: int) -> list[int]:
        """What a node would have on each device."""
        most = list(self._ledger.later.rooms[rank].gpu)
        fair: dict[tuple[int, int], list[int]] = {}
        everybody = self.group == EVERYBODY
        for pods in self._roster.on(rank):
            standing = pods[0][0]
            freely = everybody or self.group.is_lower(standing)
            through = None if freely else self.group.through(standing, self._tree)
            if not freely and through is None:
                continue
            for _, _, picks in pods:
                for at, milli in picks:
                    if through is None:
                        most[at] += milli
                    else:
                        fair.setdefault((at, through), []).append(milli)
        for (at, branch), shares in fair.items():
            if self._excess[branch]:
                most[at] += min(sum(shares), self._excess[branch] - 1 + max(shares))
        return most

    def _most_of_all(self) -> dict[int, list[int]]:
        """What all nodes would have where anybody lies."""
        held, rooms = self._roster.holdings.by_node(), self._ledger.later.rooms
        return {
            rank: [left + more for left, more in zip(rooms[rank].gpu, held_there, strict=False)]
            for rank, held_there in held.items()
            if self.kind_of[rank] >= 0
        }

    def _excesses(self) -> dict[int, int]:
        """By how much each fair branch is above what is due to it, as far as that matters for one device."""
        excess = self._rights.excess
        return {branch: max(0, min(GPU_MILLI, excess(branch, by))) for branch, by in self.group.fair}

    def look_again(self, rank: int) -> bool:
        """Look again at a node where there may be more; whether it is one of the nodes."""
        if self.kind_of[rank] < 0 or not (self._among is None or rank in self._among):
            return False
        before = self.most.get(rank)
        most = self.most[rank] = self._most(rank)
        if before is None or any(now > then for now, then in zip(most, before, strict=True)):
            self._vain.clear()
            for heir in self.heirs:
                heir.rise(self, rank, before)
        return True

    def look_at_excess(self) -> None:
        """Look again at all nodes, if a branch may give more."""
        excess = self._excesses()
        if any(milli > self._excess[branch] for branch, milli in excess.items()):
            self._excess = excess
            for rank in tuple(self.most):
                self.look_again(rank)

    def meet(self, need: Need, closed: frozenset[int] = NOWHERE) -> bool:
        """Whether one of the nodes that are not ``closed`` has the devices for a pod."""
        vain = self._vain.get(need)
        if vain is not None and vain <= closed:
            return False
        last = self._last.get(need)
        if last is not None and last not in closed and self._meets(need, last):
            return True
        for rank, most in self.most.items():
            if rank not in closed and need.pods(self.kind_of[rank], most) and self._meets(need, rank):
                self._last[need] = rank
                return True
        self._vain[need] = closed
        return False

    def _meets(self, need: Need, rank: int) -> bool:
        """Whether a node has them by now."""
        self._excess = self._excesses()
        most = self.most[rank] = self._most(rank)
        return need.pods(self.kind_of[rank], most) > 0
