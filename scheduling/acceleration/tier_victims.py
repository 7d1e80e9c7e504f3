"""What can be taken of one tier: by team, in the order inside it (section 7)."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from operator import attrgetter

from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.engine.preemption.victim_index import TierIndex
from scheduling.engine.preemption.victims import PlacedWorkload, Tier, Victim
from scheduling.engine.quota.tree import Tree

by_key = attrgetter("key")


class TierVictims(TierIndex):
    """All of a tier that can be taken, by leaf of the tree; the order inside a team, which depends on the time, is
    worked out for the leaves that are looked at.

    A branch below which some were, and are no more, may still count as one of the ``children``.
    """

    def __init__(self, ledger: KeptLedger, tree: Tree, tier: Tier) -> None:
        self._ledger = ledger
        self._tree = tree
        self._tier = tier
        self._members: dict[int, dict[str, PlacedWorkload]] = {}
        self._victims: dict[int, list[Victim]] = {}
        self._sorted_at: int | None = None
        self._branches: set[int] = set()
        self._children: dict[int, list[int]] = {}

    def __bool__(self) -> bool:
        return bool(self._members)

    def __iter__(self) -> Iterator[int]:
        """The leaves with workloads of the tier."""
        return iter(self._members)

    def members(self, leaf: int) -> dict[str, PlacedWorkload]:
        """Those of a leaf, to be filled with some."""
        found = self._members.get(leaf)
        if found is None:
            found = self._members[leaf] = {}
            self._branches.update(self._tree.paths[leaf])
            self._children.clear()
        return found

    def of_leaf(self, leaf: int) -> Sequence[Victim]:
        """What can be taken of a leaf, in order."""
        members = self._members.get(leaf)
        if members is None:
            return ()
        now = next(iter(members.values())).clock.now
        if now != self._sorted_at:
            self._victims.clear()
            self._sorted_at = now
        found = self._victims.get(leaf)
        if found is None:
            found = self._victims[leaf] = [victim for each in members.values() for victim in self._of(each)]
            found.sort(key=by_key)
        return found

    def children(self, branch: int) -> Sequence[int]:
        """The children of a branch below which the tier has workloads."""
        found = self._children.get(branch)
        if found is None:
            found = [child for child in self._tree.children[branch] if child in self._branches]
            self._children[branch] = found
        return found

    def put(self, placed: PlacedWorkload) -> None:
        """Put in a workload."""
        self.members(placed.leaf)[placed.workload.id] = placed
        if self._is_sorted(placed):
            for victim in self._of(placed):
                insort(self._victims[placed.leaf], victim, key=by_key)

    def take_out(self, placed: PlacedWorkload) -> None:
        """Take out a workload."""
        leaf = placed.leaf
        if self._is_sorted(placed):
            for victim in self._of(placed):
                self._victims[leaf].remove(victim)
        members = self._members[leaf]
        del members[placed.workload.id]
        if not members:
            del self._members[leaf]

    def _is_sorted(self, placed: PlacedWorkload) -> bool:
        """Whether its leaf was looked at, at this time."""
        return placed.clock.now == self._sorted_at and placed.leaf in self._victims

    def _of(self, placed: PlacedWorkload) -> Sequence[Victim]:
        """What can be taken of a workload, of this tier."""
        *spare, whole = placed.as_victims(self._ledger)
        return (whole,) if self._tier[0] else spare
