"""Eligible victims by team and priority, in the order of victims, and by node (section 7).

An index lives as long as its workloads do: :meth:`EligibleVictims.drop` and :meth:`EligibleVictims.add` keep it right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from scheduling.acceleration.holdings import Holdings
from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.acceleration.tier_victims import TierVictims
from scheduling.engine.model.snapshot import OpenStatus
from scheduling.engine.placement.free import Picks
from scheduling.engine.preemption.victim_index import VictimIndex
from scheduling.engine.preemption.victims import PlacedWorkload, Tier
from scheduling.engine.quota.tree import ROOT, Tree

PodOnNode = tuple[PlacedWorkload, int, Picks]
"""Whose pod lies on a node, its index, and the devices it holds there."""
Cell = tuple[int, int]
"""A leaf of the tree and a priority: no rule tells its workloads apart."""
NO_WORKLOADS: Mapping[str, PlacedWorkload] = {}


def tiers_of(placed: PlacedWorkload) -> set[Tier]:
    """The tiers of all that can be taken of a workload."""
    spare = len(placed.pods) > placed.workload.min_pods
    return {placed.tier(whole=whole) for whole in ((True, False) if spare else (True,))}


class Joined(NamedTuple):
    """What is noted of a workload that joins an index: the note outlives it by far."""

    leaf: int
    priority: int
    milli: int
    ranks: tuple[int, ...]


class EligibleVictims(VictimIndex):
    """Workloads that may be preempted, by id, as far as that depends on themselves; kept up to date.

    ``changed`` are the nodes with other pods than before, in order; ``joined`` those that were added, likewise.
    """

    def __init__(self, ledger: KeptLedger, tree: Tree, placed_workloads: dict[str, PlacedWorkload]) -> None:
        self._ledger = ledger
        self._tree = tree
        self._placed_workloads = placed_workloads
        self._cells: dict[Cell, dict[str, PlacedWorkload]] = {}
        self._below: dict[int, dict[int, dict[int, None]]] = {}
        self._milli: dict[int, list[int]] = {}
        self._by_tier: dict[Tier, TierVictims] | None = None
        self._by_rank: dict[int, dict[str, PlacedWorkload]] | None = None
        self._on_rank: dict[int, list[list[PodOnNode]]] = {}
        self._holdings: Holdings | None = None
        self.changed: list[int] = []
        self.joined: list[Joined] = []

    def __iter__(self) -> Iterator[PlacedWorkload]:
        return iter(self._placed_workloads.values())

    def drop(self, placed: PlacedWorkload) -> bool:
        """Take out a workload that is to go, or is added again when it has given something away; whether it was
        there."""
        id_ = placed.workload.id
        if self._placed_workloads.pop(id_, None) is None:
            return False
        if self._by_tier is not None:
            for tier in tiers_of(placed):
                self._by_tier[tier].take_out(placed)
        if self._by_rank is not None:
            for rank in self.ranks(placed):
                self._by_rank[rank].pop(id_, None)
            self._note_moved(placed)
        if self._cells:
            self._strike(placed)
        if self._holdings is not None:
            self._holdings.drop(placed)
        return True

    def add(self, placed: PlacedWorkload) -> None:
        """Put in a workload."""
        self._placed_workloads[placed.workload.id] = placed
        ranks = tuple(self.ranks(placed))
        self.joined.append(Joined(placed.leaf, placed.workload.priority, placed.milli, ranks))
        if self._by_tier is not None:
            for tier in tiers_of(placed):
                self._victims(tier).put(placed)
        if self._by_rank is not None:
            for rank in self.ranks(placed):
                self._by_rank.setdefault(rank, {})[placed.workload.id] = placed
            self._note_moved(placed)
        if self._cells:
            self._enrol(placed)
        if self._holdings is not None:
            self._holdings.add(placed)

    # --- By what they are -----------------------------------------------------------------------------------

    def of(self, cell: Cell) -> Collection[PlacedWorkload]:
        """Those of a cell."""
        self._enrolled()
        return self._cells.get(cell, NO_WORKLOADS).values()

    def cells(self, branch: int, priority: int | None = None) -> Iterator[Cell]:
        """The cells (of this priority) below a branch that are not empty."""
        self._enrolled()
        priorities = self._below.get(branch, {})
        for each in priorities if priority is None else (priority,):
            for leaf in priorities.get(each, ()):
                yield leaf, each

    def any_in(self, branch: int, priority: int | None = None) -> bool:
        """Whether there is a workload (of this priority) below a branch."""
        if branch == ROOT and priority is None:
            return bool(self._placed_workloads)
        self._enrolled()
        priorities = self._below.get(branch, {})
        return bool(priorities) if priority is None else priority in priorities

    def lower(self, branch: int, priority: int) -> list[int]:
        """The priorities below this one that workloads below a branch have."""
        self._enrolled()
        return [each for each in self._below.get(branch, ()) if each < priority]

    def milli(self, branch: int, priority: int | None) -> int:
        """What those (of this priority) below a branch hold."""
        self._enrolled()
        if priority is None:
            return sum(self._milli[each][branch] for each in self._below.get(branch, ()))
        return self._milli[priority][branch] if priority in self._milli else 0

    def milli_by_branch(self, priority: int) -> Sequence[int]:
        """What the workloads of a priority hold below each branch; there must be one."""
        self._enrolled()
        return self._milli[priority]

    def _enrolled(self) -> None:
        """Enrol all at once, at the first look."""
        if self._cells:
            return
        cells = self._cells
        for id_, placed in self._placed_workloads.items():
            cell = (placed.leaf, placed.workload.priority)
            members = cells.get(cell)
            if members is None:
                members = cells[cell] = {}
            members[id_] = placed
        self._milli = {priority: [0] * len(self._tree) for priority in {priority for _, priority in cells}}
        for (leaf, priority), members in cells.items():
            milli = sum([placed.milli for placed in members.values()])
            held = self._milli[priority]
            for branch in (ROOT, *self._tree.paths[leaf]):
                self._below.setdefault(branch, {}).setdefault(priority, {})[leaf] = None
                held[branch] += milli

    def _enrol(self, placed: PlacedWorkload) -> None:
        leaf, priority = cell = (placed.leaf, placed.workload.priority)
        members = self._cells.get(cell)
        path = (ROOT, *self._tree.paths[leaf])
        if members is None:
            members = self._cells[cell] = {}
            for branch in path:
                self._below.setdefault(branch, {}).setdefault(priority, {})[leaf] = None
        members[placed.workload.id] = placed
        held = self._milli.setdefault(priority, [0] * len(self._tree))
        for branch in path:
            held[branch] += placed.milli

    def _strike(self, placed: PlacedWorkload) -> None:
        leaf, priority = cell = (placed.leaf, placed.workload.priority)
        path = (ROOT, *self._tree.paths[leaf])
        members = self._cells[cell]
        del members[placed.workload.id]
        held = self._milli[priority]
        for branch in path:
            held[branch] -= placed.milli
        if not members:
            del self._cells[cell]
            for branch in path:
                del self._below[branch][priority][leaf]
                if not self._below[branch][priority]:
                    del self._below[branch][priority]

    # --- In the order of victims ----------------------------------------------------------------------------

    def tiers(self) -> list[Tier]:
        """The tiers of all that can be taken, in order."""
        return sorted(tier for tier, victims in self._filed().items() if victims)

    def of_tier(self, tier: Tier) -> TierVictims:
        """All of one of the tiers that can be taken."""
        return self._filed()[tier]

    def _filed(self) -> dict[Tier, TierVictims]:
        """All of them by tier; filed at the first look."""
        if self._by_tier is None:
            self._by_tier = {}
            whole: dict[tuple[OpenStatus, int, int], dict[str, PlacedWorkload]] = {}
            for id_, placed in self._placed_workloads.items():
                workload = placed.workload
                if len(placed.pods) > workload.min_pods:
                    for tier in tiers_of(placed):
                        self._victims(tier).put(placed)
                    continue
                sort = (workload.status, workload.priority, placed.leaf)
                members = whole.get(sort)
                if members is None:
                    (tier,) = tiers_of(placed)
                    members = whole[sort] = self._victims(tier).members(placed.leaf)
                members[id_] = placed
        return self._by_tier

    def _victims(self, tier: Tier) -> TierVictims:
        shelves = self._filed()
        found = shelves.get(tier)
        if found is None:
            found = shelves[tier] = TierVictims(self._ledger, self._tree, tier)
        return found

    # --- By where they lie ----------------------------------------------------------------------------------

    @property
    def holdings(self) -> Holdings:
        """What they hold, as arrays."""
        if self._holdings is None:
            self._holdings = Holdings(self._ledger, self._placed_workloads)
        return self._holdings.refresh()

    def on(self, rank: int) -> Sequence[list[PodOnNode]]:
        """The workloads with pods on a node: the pods of each."""
        found = self._on_rank.get(rank)
        if found is None:
            near = self._near().get(rank, NO_WORKLOADS).values()
            found = self._on_rank[rank] = [self._pods_on(placed, rank) for placed in near]
        return found

    def all_ranks(self) -> list[int]:
        """The nodes with pods of these workloads."""
        return [rank for rank, there in self._near().items() if there]

    def ranks(self, placed: PlacedWorkload) -> Iterator[int]:
        """The nodes where a workload has pods."""
        for rank, _ in placed.spots(self._ledger).values():
            yield rank

    def _pods_on(self, placed: PlacedWorkload, rank: int) -> list[PodOnNode]:
        """The pods of a workload on a node."""
        spots = placed.spots(self._ledger)
        return [(placed, index, picks) for index, (at, picks) in spots.items() if at == rank]

    def _near(self) -> dict[int, dict[str, PlacedWorkload]]:
        """The workloads with pods on each node; laid out at the first look."""
        if self._by_rank is None:
            by_node: defaultdict[str, dict[str, PlacedWorkload]] = defaultdict(dict)
            for id_, placed in self._placed_workloads.items():
                for pod in placed.pods:
                    by_node[pod.node][id_] = placed
            ranks = self._ledger.nodes.rank
            self._by_rank = {ranks[node]: there for node, there in by_node.items() if node in ranks}
        return self._by_rank

    def _note_moved(self, placed: PlacedWorkload) -> None:
        """Note that a workload has come to its nodes, or left them."""
        for rank in self.ranks(placed):
            self._on_rank.pop(rank, None)
            self.changed.append(rank)
