"""Who could be a victim, in the order of victims and by where he lies (section 7)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import attrgetter

from scheduling.engine.ledger import Ledger
from scheduling.engine.space import Picks
from scheduling.engine.standing import Standing, Tier, Unit
from scheduling.engine.tree import ROOT, Tree

Lying = tuple[Standing, int, Picks]
"""Whose pod lies on a node, its index, and the devices it holds there."""
NOBODY: Mapping[str, Standing] = {}
NOWHERE: Mapping[int, Mapping[str, Standing]] = {}


class Roster:
    """Workloads that somebody may preempt, as far as their own standing goes; kept up to date while victims go."""

    def __init__(self, ledger: Ledger, tree: Tree, standings: Iterable[Standing]) -> None:
        self._ledger = ledger
        self._tree = tree
        self._standings = {standing.workload.id: standing for standing in standings}
        self._shelves: dict[Tier, dict[int, list[Unit]]] | None = None
        self._on_rank: dict[int, dict[str, list[Lying]]] | None = None
        self._within: dict[int | None, dict[int, dict[str, Standing]]] = {}
        self._milli: dict[tuple[int, int | None], int] = {}
        self.changed: list[int] = []

    def __iter__(self) -> Iterator[Standing]:
        return iter(self._standings.values())

    def drop(self, standing: Standing) -> bool:
        """Take out a workload that is to go, or is added again when it has given something away; whether it was
        there."""
        if self._standings.pop(standing.workload.id, None) is None:
            return False
        if self._shelves is not None:
            for unit in standing.units(self._ledger):
                self._shelves[unit.tier][standing.leaf].remove(unit)
        if self._on_rank is not None:
            for rank in self.ranks(standing):
                self._on_rank[rank].pop(standing.workload.id, None)
                self.changed.append(rank)
        self._strike(standing)
        return True

    def add(self, standing: Standing) -> None:
        """Put in a workload."""
        self._standings[standing.workload.id] = standing
        if self._shelves is not None:
            self._shelve(self._shelves, standing)
        if self._on_rank is not None:
            self._lay(self._on_rank, standing)
        self._enrol(standing)

    # --- In the order of victims ----------------------------------------------------------------------------

    def shelves(self) -> dict[Tier, dict[int, list[Unit]]]:
        """All that can be taken: by tier, then by leaf of the tree, then in the order inside a team."""
        if self._shelves is None:
            self._shelves = {}
            for standing in self:
                for unit in standing.units(self._ledger):
                    self._shelves.setdefault(unit.tier, {}).setdefault(standing.leaf, []).append(unit)
            for leaves in self._shelves.values():
                for units in leaves.values():
                    units.sort(key=attrgetter("key"))
        return self._shelves

    def _shelve(self, shelves: dict[Tier, dict[int, list[Unit]]], standing: Standing) -> None:
        for unit in standing.units(self._ledger):
            units = shelves.setdefault(unit.tier, {}).setdefault(standing.leaf, [])
            units.append(unit)
            units.sort(key=attrgetter("key"))

    # --- By what they are -----------------------------------------------------------------------------------

    def within(self, branch: int, priority: int | None = None) -> Collection[Standing]:
        """Those (of this priority) in a branch."""
        if not self._within:
            self._within = {None: {}}
            for standing in self:
                self._enrol(standing)
        return self._within.get(priority, NOWHERE).get(branch, NOBODY).values()

    def lower(self, branch: int, priority: int) -> list[int]:
        """The priorities below this one that somebody in a branch has."""
        return [
            each
            for each in (self._within if self.within(branch) else ())
            if each is not None and each < priority and self.within(branch, each)
        ]

    def milli(self, branch: int, priority: int | None) -> int:
        """What those of a branch and priority hold."""
        return self._milli.get((branch, priority), 0)

    def _enrol(self, standing: Standing) -> None:
        if self._within:
            for key in (None, standing.workload.priority):
                branches = self._within.setdefault(key, {})
                for branch in (ROOT, *self._tree.paths[standing.leaf]):
                    branches.setdefault(branch, {})[standing.workload.id] = standing
                    self._milli[branch, key] = self._milli.get((branch, key), 0) + standing.milli

    def _strike(self, standing: Standing) -> None:
        if self._within:
            for key in (None, standing.workload.priority):
                for branch in (ROOT, *self._tree.paths[standing.leaf]):
                    del self._within[key][branch][standing.workload.id]
                    self._milli[branch, key] -= standing.milli

    # --- By where they lie ----------------------------------------------------------------------------------

    def on(self, rank: int) -> Iterable[list[Lying]]:
        """Who has pods on a node: the pods of each."""
        if self._on_rank is None:
            self._on_rank = {}
            for standing in self:
                self._lay(self._on_rank, standing)
        return self._on_rank.get(rank, {}).values()

    def _lay(self, on_rank: dict[int, dict[str, list[Lying]]], standing: Standing) -> None:
        for pod in standing.pods:
            spot = self._ledger.spot(pod)
            if spot is not None:
                lying = (standing, pod.pod_index, spot[1])
                on_rank.setdefault(spot[0], {}).setdefault(standing.workload.id, []).append(lying)
                self.changed.append(spot[0])

    def ranks(self, standing: Standing) -> Iterator[int]:
        """The nodes where a workload has pods."""
        for pod in standing.pods:
            rank = self._ledger.fleet.rank.get(pod.node)
            if rank is not None:
                yield rank
