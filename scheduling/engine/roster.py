"""Who could be a victim: by team and priority, in the order of victims, and by where he lies (section 7).

A roster lives as long as its workloads do: :meth:`Roster.drop` and :meth:`Roster.add` keep it right. What depends on
the time, the order inside a team, is worked out for the tiers that somebody looks at.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import attrgetter

from scheduling.engine.ledger import Ledger
from scheduling.engine.room import Picks
from scheduling.engine.standing import Standing, Tier, Unit
from scheduling.engine.tree import ROOT, Tree

Lying = tuple[Standing, int, Picks]
"""Whose pod lies on a node, its index, and the devices it holds there."""
Row = tuple[int, Picks]
"""The node (by rank) and the devices that a pod holds."""
Cell = tuple[int, int]
"""A leaf of the tree and a priority: no rule tells its workloads apart."""
NOBODY: Mapping[str, Standing] = {}
NOWHERE: Mapping[str, list[Lying]] = {}
by_key = attrgetter("key")


class Roster:
    """Workloads that somebody may preempt, as far as their own standing goes; kept up to date while they come and go.

    ``changed`` are the nodes where others lie than before, in order; ``joined`` those who were added, likewise.
    """

    def __init__(self, ledger: Ledger, tree: Tree, standings: Iterable[Standing]) -> None:
        self._ledger = ledger
        self._tree = tree
        self._standings = {standing.workload.id: standing for standing in standings}
        self._cells: dict[Cell, dict[str, Standing]] = {}
        self._below: dict[int, dict[int, dict[int, None]]] = {}
        self._milli: dict[tuple[int, int], int] = {}
        self._tiers: dict[Tier, dict[str, Standing]] | None = None
        self._shelves: dict[Tier, dict[int, list[Unit]]] = {}
        self._shelved_at: int | None = None
        self._on_rank: dict[int, dict[str, list[Lying]]] | None = None
        self._rows: dict[str, Mapping[int, Row]] = {}
        self.changed: list[int] = []
        self.joined: list[Standing] = []

    def __iter__(self) -> Iterator[Standing]:
        return iter(self._standings.values())

    def drop(self, standing: Standing) -> bool:
        """Take out a workload that is to go, or is added again when it has given something away; whether it was
        there."""
        id_ = standing.workload.id
        if self._standings.pop(id_, None) is None:
            return False
        if self._tiers is not None:
            for tier in standing.tiers():
                del self._tiers[tier][id_]
            self._unshelve(standing)
        if self._on_rank is not None:
            for rank in self.ranks(standing):
                self._on_rank[rank].pop(id_, None)
                self.changed.append(rank)
        if self._cells:
            self._strike(standing)
        self._rows.pop(id_, None)
        return True

    def add(self, standing: Standing) -> None:
        """Put in a workload."""
        self._standings[standing.workload.id] = standing
        self._rows.pop(standing.workload.id, None)
        self.joined.append(standing)
        if self._tiers is not None:
            self._file(self._tiers, standing)
            self._shelve(standing)
        if self._on_rank is not None:
            self._lay(self._on_rank, standing)
        if self._cells:
            self._enrol(standing)

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
            return sum(self._milli[branch, each] for each in self._below.get(branch, ()))
        return self._milli.get((branch, priority), 0)

    def _enrolled(self) -> None:
        """Enrol all at once, when somebody looks first."""
        if self._cells:
            return
        for standing in self:
            cell = (standing.leaf, standing.workload.priority)
            members = self._cells.get(cell)
            if members is None:
                members = self._cells[cell] = {}
            members[standing.workload.id] = standing
        for (leaf, priority), members in self._cells.items():
            milli = sum([standing.milli for standing in members.values()])
            for branch in (ROOT, *self._tree.paths[leaf]):
                self._below.setdefault(branch, {}).setdefault(priority, {})[leaf] = None
                self._milli[branch, priority] = self._milli.get((branch, priority), 0) + milli

    def _enrol(self, standing: Standing) -> None:
        leaf, priority = cell = (standing.leaf, standing.workload.priority)
        members = self._cells.get(cell)
        path = (ROOT, *self._tree.paths[leaf])
        if members is None:
            members = self._cells[cell] = {}
            for branch in path:
                self._below.setdefault(branch, {}).setdefault(priority, {})[leaf] = None
        members[standing.workload.id] = standing
        for branch in path:
            self._milli[branch, priority] = self._milli.get((branch, priority), 0) + standing.milli

    def _strike(self, standing: Standing) -> None:
        leaf, priority = cell = (standing.leaf, standing.workload.priority)
        path = (ROOT, *self._tree.paths[leaf])
        members = self._cells[cell]
        del members[standing.workload.id]
        for branch in path:
            self._milli[branch, priority] -= standing.milli
        if not members:
            del self._cells[cell]
            for branch in path:
                del self._below[branch][priority][leaf]
                if not self._below[branch][priority]:
                    del self._below[branch][priority]

    # --- In the order of victims ----------------------------------------------------------------------------

    def tiers(self) -> list[Tier]:
        """The tiers of all that can be taken, in order."""
        return sorted(tier for tier, standings in self._filed().items() if standings)

    def shelf(self, tier: Tier) -> dict[int, list[Unit]]:
        """All of a tier that can be taken: by leaf of the tree, in the order inside a team."""
        standings = self._filed().get(tier, NOBODY)
        for standing in standings.values():
            if standing.clock.now != self._shelved_at:
                self._shelves.clear()
                self._shelved_at = standing.clock.now
            break
        shelf = self._shelves.get(tier)
        if shelf is None:
            shelf = self._shelves[tier] = {}
            for standing in standings.values():
                units = [unit for unit in standing.units(self._ledger) if unit.tier == tier]
                shelf.setdefault(standing.leaf, []).extend(units)
            for units in shelf.values():
                units.sort(key=by_key)
        return shelf

    def _filed(self) -> dict[Tier, dict[str, Standing]]:
        if self._tiers is None:
            self._tiers = {}
            for standing in self:
                self._file(self._tiers, standing)
        return self._tiers

    def _file(self, tiers: dict[Tier, dict[str, Standing]], standing: Standing) -> None:
        for tier in standing.tiers():
            tiers.setdefault(tier, {})[standing.workload.id] = standing

    def _shelve(self, standing: Standing) -> None:
        if standing.clock.now == self._shelved_at:
            for unit in standing.units(self._ledger):
                if unit.tier in self._shelves:
                    insort(self._shelves[unit.tier].setdefault(standing.leaf, []), unit, key=by_key)

    def _unshelve(self, standing: Standing) -> None:
        if standing.clock.now == self._shelved_at:
            for unit in standing.units(self._ledger):
                if unit.tier in self._shelves:
                    self._shelves[unit.tier][standing.leaf].remove(unit)

    # --- By where they lie ----------------------------------------------------------------------------------

    def on(self, rank: int) -> Collection[list[Lying]]:
        """Who has pods on a node: the pods of each."""
        if self._on_rank is None:
            self._on_rank = {}
            for standing in self:
                self._lay(self._on_rank, standing)
        return self._on_rank.get(rank, NOWHERE).values()

    def all_ranks(self) -> list[int]:
        """The nodes where anybody lies."""
        self.on(0)
        return [rank for rank, there in (self._on_rank or {}).items() if there]

    def _lay(self, on_rank: dict[int, dict[str, list[Lying]]], standing: Standing) -> None:
        for index, (rank, picks) in self.rows(standing).items():
            lying = (standing, index, picks)
            on_rank.setdefault(rank, {}).setdefault(standing.workload.id, []).append(lying)
            self.changed.append(rank)

    def rows(self, standing: Standing) -> Mapping[int, Row]:
        """Where the pods of a workload lie, by index, as far as their nodes are there."""
        id_ = standing.workload.id
        found = self._rows.get(id_)
        if found is None:
            if len(standing.pods) == 1 and (spot := self._ledger.spot(standing.pods[0])) is not None:
                self._rows[id_] = found = {standing.pods[0].pod_index: spot}
                return found
            spots = [(pod.pod_index, self._ledger.spot(pod)) for pod in standing.pods]
            found = self._rows[id_] = {index: spot for index, spot in spots if spot is not None}
        return found

    def ranks(self, standing: Standing) -> Iterator[int]:
        """The nodes where a workload has pods."""
        for rank, _ in self.rows(standing).values():
            yield rank
