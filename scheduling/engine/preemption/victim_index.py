"""Eligible victims by their place in the order of victims: a port, and its plain answers (section 7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Protocol

from scheduling.engine.placement.ledger import AnyLedger
from scheduling.engine.preemption.victims import PlacedWorkload, Tier, Unit
from scheduling.engine.quota.tree import Tree


class TierIndex(Protocol):
    """What can be taken of one tier."""

    def units(self, leaf: int) -> Sequence[Unit]:
        """All of a leaf, by their keys."""

    def children(self, branch: int) -> Sequence[int]:
        """The children of a branch, but for those below which there is none."""


class VictimIndex(Protocol):
    """What can be taken of some workloads, by tier. An implementation must leave nothing out."""

    def tiers(self) -> Sequence[Tier]:
        """The tiers of which there is any, in order."""

    def of_tier(self, tier: Tier) -> TierIndex:
        """What there is of a tier."""


class PlainTier:
    """What can be taken of one tier, by leaf."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._by_leaf: dict[int, list[Unit]] = {}
        self._branches: set[int] = set()

    def add(self, leaf: int, unit: Unit) -> None:
        """Put in a unit."""
        self._by_leaf.setdefault(leaf, []).append(unit)
        self._branches.update(self._tree.paths[leaf])

    def sort(self) -> None:
        """Have the units of each leaf in order."""
        for units in self._by_leaf.values():
            units.sort(key=attrgetter("key"))

    def units(self, leaf: int) -> Sequence[Unit]:
        """All of a leaf, by their keys."""
        return self._by_leaf.get(leaf, ())

    def children(self, branch: int) -> Sequence[int]:
        """The children of a branch, but for those below which there is none."""
        return [child for child in self._tree.children[branch] if child in self._branches]


class PlainVictims:
    """What can be taken of these workloads, sorted at once."""

    def __init__(self, ledger: AnyLedger, tree: Tree, placed_workloads: Iterable[PlacedWorkload]) -> None:
        self._tiers: dict[Tier, PlainTier] = {}
        for placed in placed_workloads:
            for unit in placed.units(ledger):
                tier = self._tiers.get(unit.tier)
                if tier is None:
                    tier = self._tiers[unit.tier] = PlainTier(tree)
                tier.add(placed.leaf, unit)
        for tier in self._tiers.values():
            tier.sort()

    def tiers(self) -> Sequence[Tier]:
        """The tiers of which there is any, in order."""
        return sorted(self._tiers)

    def of_tier(self, tier: Tier) -> PlainTier:
        """What there is of a tier."""
        return self._tiers[tier]
