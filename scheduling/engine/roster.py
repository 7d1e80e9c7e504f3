"""Who could be a victim: by team and priority, in the order of victims, and by where he lies (section 7).

A roster lives as long as its workloads do: :meth:`Roster.drop` and :meth:`Roster.add` keep it right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from scheduling.engine.holdings import Holdings
from scheduling.engine.ledger import Ledger
from scheduling.engine.model.snapshot import Status
from scheduling.engine.placement.free import Picks
from scheduling.engine.quota.tree import ROOT, Tree
from scheduling.engine.shelf import Shelf
from scheduling.engine.standing import Standing, Tier

Lying = tuple[Standing, int, Picks]
"""Whose pod lies on a node, its index, and the devices it holds there."""
Cell = tuple[int, int]
"""A leaf of the tree and a priority: no rule tells its workloads apart."""
NOBODY: Mapping[str, Standing] = {}


class Joined(NamedTuple):
    """What is noted of a workload that joins a roster: the note outlives it by far."""

    leaf: int
    priority: int
    milli: int
    ranks: tuple[int, ...]


class Roster:
    """Workloads that somebody may preempt, by id, as far as their own standing goes; kept up to date while they come
    and go.

    ``changed`` are the nodes where others lie than before, in order; ``joined`` those who were added, likewise.
    """

    def __init__(self, ledger: Ledger, tree: Tree, standings: dict[str, Standing]) -> None:
        self._ledger = ledger
        self._tree = tree
        self._standings = standings
        self._cells: dict[Cell, dict[str, Standing]] = {}
        self._below: dict[int, dict[int, dict[int, None]]] = {}
        self._milli: dict[int, list[int]] = {}
        self._shelves: dict[Tier, Shelf] | None = None
        self._by_rank: dict[int, dict[str, Standing]] | None = None
        self._on_rank: dict[int, list[list[Lying]]] = {}
        self._holdings: Holdings | None = None
        self.changed: list[int] = []
        self.joined: list[Joined] = []

    def __iter__(self) -> Iterator[Standing]:
        return iter(self._standings.values())

    def drop(self, standing: Standing) -> bool:
        """Take out a workload that is to go, or is added again when it has given something away; whether it was
        there."""
        id_ = standing.workload.id
        if self._standings.pop(id_, None) is None:
            return False
        if self._shelves is not None:
            for tier in standing.tiers():
                self._shelves[tier].take_out(standing)
        if self._by_rank is not None:
            for rank in self.ranks(standing):
                self._by_rank[rank].pop(id_, None)
            self._note_moved(standing)
        if self._cells:
            self._strike(standing)
        if self._holdings is not None:
            self._holdings.drop(standing)
        return True

    def add(self, standing: Standing) -> None:
        """Put in a workload."""
        self._standings[standing.workload.id] = standing
        ranks = tuple(self.ranks(standing))
        self.joined.append(Joined(standing.leaf, standing.workload.priority, standing.milli, ranks))
        if self._shelves is not None:
            for tier in standing.tiers():
                self._shelf(tier).put(standing)
        if self._by_rank is not None:
            for rank in self.ranks(standing):
                self._by_rank.setdefault(rank, {})[standing.workload.id] = standing
            self._note_moved(standing)
        if self._cells:
            self._enrol(standing)
        if self._holdings is not None:
            self._holdings.add(standing)

    # --- By what they are -----------------------------------------------------------------------------------

    def of(self, cell: Cell) -> Collection[Standing]:
        """Those of a cell."""
        self._enrolled()
        return self._cells.get(cell, NOBODY).values()

    def cells(self, branch: int, priority: int | None = None) -> Iterator[Cell]:
        """The cells (of this priority) below a branch, those that hold somebody."""
        self._enrolled()
        priorities = self._below.get(branch, {})
        for each in priorities if priority is None else (priority,):
            for leaf in priorities.get(each, ()):
                yield leaf, each

    def any_in(self, branch: int, priority: int | None = None) -> bool:
        """Whether there is anybody (of this priority) below a branch."""
        if branch == ROOT and priority is None:
            return bool(self._standings)
        self._enrolled()
        priorities = self._below.get(branch, {})
        return bool(priorities) if priority is None else priority in priorities

    def lower(self, branch: int, priority: int) -> list[int]:
        """The priorities below this one that somebody below a branch has."""
        self._enrolled()
        return [each for each in self._below.get(branch, ()) if each < priority]

    def milli(self, branch: int, priority: int | None) -> int:
        """What those (of this priority) below a branch hold."""
        self._enrolled()
        if priority is None:
            return sum(self._milli[each][branch] for each in self._below.get(branch, ()))
        return self._milli[priority][branch] if priority in self._milli else 0

    def milli_by_branch(self, priority: int) -> Sequence[int]:
        """What those of a priority that somebody has hold below each branch."""
        self._enrolled()
        return self._milli[priority]

    def _enrolled(self) -> None:
        """Enrol all at once, when somebody looks first."""
        if self._cells:
            return
        cells = self._cells
        for id_, standing in self._standings.items():
            cell = (standing.leaf, standing.workload.priority)
            members = cells.get(cell)
            if members is None:
                members = cells[cell] = {}
            members[id_] = standing
        self._milli = {priority: [0] * len(self._tree) for priority in {priority for _, priority in cells}}
        for (leaf, priority), members in cells.items():
            milli = sum([standing.milli for standing in members.values()])
            held = self._milli[priority]
            for branch in (ROOT, *self._tree.paths[leaf]):
                self._below.setdefault(branch, {}).setdefault(priority, {})[leaf] = None
                held[branch] += milli

    def _enrol(self, standing: Standing) -> None:
        leaf, priority = cell = (standing.leaf, standing.workload.priority)
        members = self._cells.get(cell)
        path = (ROOT, *self._tree.paths[leaf])
        if members is None:
            members = self._cells[cell] = {}
            for branch in path:
                self._below.setdefault(branch, {}).setdefault(priority, {})[leaf] = None
        members[standing.workload.id] = standing
        held = self._milli.setdefault(priority, [0] * len(self._tree))
        for branch in path:
            held[branch] += standing.milli

    def _strike(self, standing: Standing) -> None:
        leaf, priority = cell = (standing.leaf, standing.workload.priority)
        path = (ROOT, *self._tree.paths[leaf])
        members = self._cells[cell]
        del members[standing.workload.id]
        held = self._milli[priority]
        for branch in path:
            held[branch] -= standing.milli
        if not members:
            del self._cells[cell]
            for branch in path:
                del self._below[branch][priority][leaf]
                if not self._below[branch][priority]:
                    del self._below[branch][priority]

    # --- In the order of victims ----------------------------------------------------------------------------

    def tiers(self) -> list[Tier]:
        """The tiers of all that can be taken, in order."""
        return sorted(tier for tier, shelf in self._filed().items() if shelf)

    def shelf(self, tier: Tier) -> Shelf:
        """All of one of the tiers that can be taken."""
        return self._filed()[tier]

    def _filed(self) -> dict[Tier, Shelf]:
        """All of them by tier; filed when somebody looks first."""
        if self._shelves is None:
            self._shelves = {}
            whole: dict[tuple[Status, int, int], dict[str, Standing]] = {}
            for id_, standing in self._standings.items():
                workload = standing.workload
                if len(standing.pods) > workload.min_pods:
                    for tier in standing.tiers():
                        self._shelf(tier).put(standing)
                    continue
                sort = (workload.status, workload.priority, standing.leaf)
                members = whole.get(sort)
                if members is None:
                    (tier,) = standing.tiers()
                    members = whole[sort] = self._shelf(tier).members(standing.leaf)
                members[id_] = standing
        return self._shelves

    def _shelf(self, tier: Tier) -> Shelf:
        shelves = self._filed()
        found = shelves.get(tier)
        if found is None:
            found = shelves[tier] = Shelf(self._ledger, self._tree, tier)
        return found

    # --- By where they lie ----------------------------------------------------------------------------------

    @property
    def holdings(self) -> Holdings:
        """What they hold, as arrays."""
        if self._holdings is None:
            self._holdings = Holdings(self._ledger, self._standings)
        return self._holdings.refresh()

    def on(self, rank: int) -> Sequence[list[Lying]]:
        """Who has pods on a node: the pods of each."""
        found = self._on_rank.get(rank)
        if found is None:
            near = self._near().get(rank, NOBODY).values()
            found = self._on_rank[rank] = [self._lying(standing, rank) for standing in near]
        return found

    def all_ranks(self) -> list[int]:
        """The nodes where anybody lies."""
        return [rank for rank, there in self._near().items() if there]

    def ranks(self, standing: Standing) -> Iterator[int]:
        """The nodes where a workload has pods."""
        for rank, _ in standing.spots(self._ledger).values():
            yield rank

    def _lying(self, standing: Standing, rank: int) -> list[Lying]:
        """The pods of a workload on a node."""
        spots = standing.spots(self._ledger)
        return [(standing, index, picks) for index, (at, picks) in spots.items() if at == rank]

    def _near(self) -> dict[int, dict[str, Standing]]:
        """Who has pods on each node; laid out when somebody looks first."""
        if self._by_rank is None:
            by_node: defaultdict[str, dict[str, Standing]] = defaultdict(dict)
            for id_, standing in self._standings.items():
                for pod in standing.pods:
                    by_node[pod.node][id_] = standing
            ranks = self._ledger.nodes.rank
            self._by_rank = {ranks[node]: there for node, there in by_node.items() if node in ranks}
        return self._by_rank

    def _note_moved(self, standing: Standing) -> None:
        """Note that somebody comes to lie on his nodes, or lies there no more."""
        for rank in self.ranks(standing):
            self._on_rank.pop(rank, None)
            self.changed.append(rank)
