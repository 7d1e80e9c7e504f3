"""What nodes would have left if some of their workloads went (section 7)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from scheduling.acceleration.eligible_victims import Cell, EligibleVictims
from scheduling.acceleration.free_arrays import filled
from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.acceleration.typical_arrays import Ints
from scheduling.engine.model.snapshot import GPU_MILLI
from scheduling.engine.placement.free import Picks
from scheduling.engine.preemption.policy import PreemptionPolicy
from scheduling.engine.preemption.victims import PlacedWorkload
from scheduling.engine.quota.tree import ROOT, Tree

Fair = tuple[int, int]
"""A branch that the fair-share rule takes from, and by which bases (bits of the preemption policy)."""


@dataclass(frozen=True, slots=True)
class VictimGroup:
    """What some preemptors may take: of all teams, or the ``own`` one, those of priority ``below`` some; and of the
    ``fair`` branches those of priority ``equal``. No priority: whatever it is."""

    below: int | None
    own: int | None
    fair: tuple[Fair, ...] = ()
    equal: int | None = None

    def alone(self) -> list[VictimGroup]:
        """Those of lower priority, and those of each of the fair branches, on their own."""
        fair = [VictimGroup(self.below, self.own, (each,), self.equal) for each in self.fair]
        return [VictimGroup(self.below, self.own), *fair]

    def has(self, placed: PlacedWorkload, tree: Tree) -> bool:
        """Whether the workload is one of them."""
        return self.through((placed.leaf, placed.workload.priority), tree) is not None

    def is_lower(self, cell: Cell) -> bool:
        """Whether those of a cell are of lower priority."""
        leaf, priority = cell
        return (self.below is None or priority < self.below) and self.own in (None, leaf)

    def through(self, cell: Cell, tree: Tree) -> int | None:
        """Why those of a cell could go: they are of lower priority (``ROOT``), or of that fair branch; ``None`` if they
        could not. No two fair branches lie one above the other."""
        if self.is_lower(cell):
            return ROOT
        leaf, priority = cell
        if self.equal not in (None, priority):
            return None
        path = tree.paths[leaf]
        return next((branch for branch, _ in self.fair if branch in path), None)

    def cells(self, eligible: EligibleVictims) -> list[Cell]:
        """The cells of the fair branches; where there are none, those of lower priority."""
        top = ROOT if self.own is None else self.own
        if self.fair:
            groups: list[tuple[int, int | None]] = [(branch, self.equal) for branch, _ in self.fair]
        else:
            groups = [(top, priority) for priority in eligible.lower(top, self.below or 0)]
        return [cell for group in groups for cell in eligible.cells(*group)]

    def ranks(self, eligible: EligibleVictims) -> Collection[int]:
        """The nodes where those of the fair branches lie; where there are none, the others."""
        if self == EVERY_WORKLOAD:
            return eligible.all_ranks()
        return {
            rank
            for cell in self.cells(eligible)
            for each in eligible.of(cell)
            for rank in eligible.ranks(each)
        }


EVERY_WORKLOAD = VictimGroup(None, None)
NOWHERE: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Need:
    """What one pod needs of a node's devices: one object for all requests that need the same.

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
            free = [1 for left, cost in zip(most, costs, strict=True) if cost and left >= cost]
            return len(free) // self.whole
        return sum([left // cost for left, cost in zip(most, costs, strict=True) if cost and left > 0])

    def pods_on(self, kinds: Sequence[int], most: Sequence[Sequence[int]]) -> Ints:
        """The same for many nodes, of these kinds, in one step."""
        width = max(map(len, most), default=0)
        number = {kind: at for at, kind in enumerate(self.costs)}
        # The last row is that of kinds that let no pod in.
        table = filled([*[costs[:width] for costs in self.costs.values()], ()], width)
        costs = table[[number.get(kind, -1) for kind in kinds]]
        left = np.maximum(filled(most, width), 0)
        if self.whole:
            free: Ints = ((left >= costs) & (costs > 0)).sum(1)
            return free // self.whole
        pods: Ints = np.where(costs > 0, left // np.maximum(costs, 1), 0).sum(1)
        return pods


class Heir(Protocol):
    """Is told when there is more."""

    is_stale: bool
    """Set where there may be more, at the next :meth:`Yields.refresh`."""

    def rise(self, part: FreeableDevices, rank: int, before: Sequence[int] | None) -> None:
        """There is more on a node than before (``None``: it was not one of the nodes)."""


class FreeableDevices:
    """What the nodes where some ``group`` lies would have on each device if all went of it that may; by now it may be
    less.

    A fair branch gives no more than brings it down to what is due to it: all of its victims but the last workload, or
    pod, together are less than its excess. Where there may be more, it is marked, and looked at when it is asked for:
    :meth:`refresh` tells the ``heirs`` where there is.

    ``parts`` are what those of lower priority, and those of each fair branch, leave on their own, as far as that is
    known; ``among``: on these nodes of theirs only.
    """

    def __init__(
        self,
        ledger: KeptLedger,
        preemption_policy: PreemptionPolicy,
        eligible: EligibleVictims,
        group: VictimGroup,
        *,
        parts: Sequence[FreeableDevices] = (),
        among: Iterable[int] | None = None,
    ) -> None:
        self._ledger = ledger
        self._preemption_policy = preemption_policy
        self._eligible = eligible
        self._tree = preemption_policy.accounts.tree
        self.group = group
        self.kind_of = ledger.nodes.class_of
        self.heirs: list[Heir] = []
        self._among = None if among is None else frozenset(among)
        self._by = dict(group.fair)
        self._excess = self._excesses()
        self._through: dict[Cell, int | None] = {}
        self._stale: set[int] = set()
        self._is_all_stale = False
        self.given: dict[int, list[int]] = {}
        """By node what of it the group would give."""
        lower = parts[0].ranks if parts else NOWHERE
        if group == EVERY_WORKLOAD:
            self.most = self._most_of_all()
        elif self._among is None:
            self.most = self._most_of_cells(lower)
        else:
            self.most = {
                rank: self._most(rank) if rank in lower else self._most_of_parts(rank, parts)
                for rank in self._among
            }
        self._infeasible: dict[Need, frozenset[int]] = {}
        """What no node meets outside these."""
        self._last: dict[Need, int] = {}

    @property
    def ranks(self) -> Collection[int]:
        """The nodes where some of the group lie, or did."""
        return self.most.keys() | self._stale

    def _most(self, rank: int) -> list[int]:
        """What a node would have on each device."""
        held: dict[tuple[int, int], list[int]] = {}
        known = self._through
        for pods in self._eligible.on(rank):
            placed = pods[0][0]
            cell = (placed.leaf, placed.workload.priority)
            if cell not in known:
                known[cell] = self.group.through(cell, self._tree)
            through = known[cell]
            if through is not None:
                for at, milli in _by_device([picks for _, _, picks in pods]):
                    held.setdefault((at, through), []).append(milli)
        return self._with_room(rank, held)

    def _most_of_cells(self, lower: Collection[int]) -> dict[int, list[int]]:
        """What the nodes would have where those of some cells lie; they, and on the ``lower`` nodes others too, are all
        of the group."""
        held: dict[int, dict[tuple[int, int], list[int]]] = {}
        for cell in self.group.cells(self._eligible):
            through = self.group.through(cell, self._tree) or ROOT
            for placed in self._eligible.of(cell):
                on: dict[int, list[Picks]] = {}
                for rank, picks in placed.spots(self._ledger).values():
                    on.setdefault(rank, []).append(picks)
                for rank, picks_there in on.items():
                    there = held.setdefault(rank, {})
                    for at, milli in _by_device(picks_there):
                        there.setdefault((at, through), []).append(milli)
        return {
            rank: self._most(rank) if rank in lower else self._with_room(rank, there)
            for rank, there in held.items()
            if self.kind_of[rank] >= 0
        }

    def _with_room(self, rank: int, held: Mapping[tuple[int, int], list[int]]) -> list[int]:
        """What a node would have on each device, where that is ``held``: by device and by fair branch, what each
        workload holds.

        All pods of a workload may leave at once, as the last of a branch's victims.
        """
        node_free = self._ledger.later.free[rank].gpu
        given = self.given[rank] = [0] * len(node_free)
        for (at, branch), shares in held.items():
            if branch == ROOT:
                given[at] += sum(shares)
            elif self._excess[branch]:
                given[at] += min(sum(shares), self._excess[branch] - 1 + max(shares))
        return [left + more for left, more in zip(node_free, given, strict=True)]

    def _most_of_parts(self, rank: int, parts: Iterable[FreeableDevices]) -> list[int]:
        """What a node would have on each device where several fair branches lie, and nothing else of the group."""
        given = [each.given[rank] for each in parts if rank in each.given]
        return [sum(column) for column in zip(self._ledger.later.free[rank].gpu, *given, strict=True)]

    def _most_of_all(self) -> dict[int, list[int]]:
        """What all nodes with pods would have."""
        left, free = self._ledger.later.grid.refresh().gpu, self._ledger.later.free
        lain_on, held = self._eligible.holdings.by_node(*left.shape)
        ranks = np.flatnonzero(lain_on & (np.array(self.kind_of) >= 0))
        most = (left + held)[ranks].tolist()
        return {rank: row[: len(free[rank].gpu)] for rank, row in zip(ranks.tolist(), most, strict=True)}

    def _excesses(self) -> dict[int, int]:
        """By how much each fair branch is above what is due to it, as far as that matters for one device."""
        excess = self._preemption_policy.excess
        return {branch: max(0, min(GPU_MILLI, excess(branch, by))) for branch, by in self._by.items()}

    # --- What could be more than before ----------------------------------------------------------------------

    def mark(self, rank: int) -> bool:
        """Have a node looked at again where there may be more; whether it is one of the nodes."""
        if self.kind_of[rank] < 0 or not (self._among is None or rank in self._among):
            return False
        self._stale.add(rank)
        self._tell()
        return True

    def mark_excess(self, branch: int) -> bool:
        """Have all nodes looked at again, if a fair branch may give more; whether it may."""
        known = self._excess[branch]
        if known >= GPU_MILLI or self._preemption_policy.excess(branch, self._by[branch]) <= known:
            return False
        self._is_all_stale = True
        self._tell()
        return True

    def _tell(self) -> None:
        for heir in self.heirs:
            heir.is_stale = True

    def refresh(self) -> None:
        """Look again where there may be more."""
        if self._is_all_stale:
            self._is_all_stale = False
            excess = self._excesses()
            if any(milli > self._excess[branch] for branch, milli in excess.items()):
                self._excess = excess
                self._stale.update(self.most)
        if self._stale:
            stale, self._stale = self._stale, set()
            for rank in stale:
                self._look_again(rank)

    def _look_again(self, rank: int) -> None:
        before = self.most.get(rank)
        most = self.most[rank] = self._most(rank)
        if before is None or any(now > then for now, then in zip(most, before, strict=True)):
            self._infeasible.clear()
            for heir in self.heirs:
                heir.rise(self, rank, before)

    def meet(self, need: Need, closed: frozenset[int] = NOWHERE) -> bool:
        """Whether one of the nodes that are not ``closed`` has the devices for a pod."""
        infeasible = self._infeasible.get(need)
        if infeasible is not None and infeasible <= closed:
            return False
        last = self._last.get(need)
        if last is not None and last not in closed and self._meets(need, last):
            return True
        for rank, most in self.most.items():
            if rank not in closed and need.pods(self.kind_of[rank], most) and self._meets(need, rank):
                self._last[need] = rank
                return True
        self._infeasible[need] = closed
        return False

    def _meets(self, need: Need, rank: int) -> bool:
        """Whether a node has them by now."""
        self._excess = self._excesses()
        most = self.most[rank] = self._most(rank)
        return need.pods(self.kind_of[rank], most) > 0


def _by_device(picks: Sequence[Picks]) -> Iterable[tuple[int, int]]:
    """What the pods of a workload hold together of each device of a node."""
    if len(picks) == 1:
        return picks[0]
    held: dict[int, int] = {}
    for of_pod in picks:
        for at, milli in of_pod:
            held[at] = held.get(at, 0) + milli
    return held.items()
