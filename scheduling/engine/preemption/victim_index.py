"""Eligible victims by their place in the order of victims (section 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from scheduling.engine.model.quantities import UNLIMITED
from scheduling.engine.placement.ledger import Ledger
from scheduling.engine.preemption.victims import PlacedWorkload, Tier, Unit, UnitKey
from scheduling.engine.quota.tree import Tree


class TierIndex:
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


class VictimIndex:
    """What can be taken of these workloads, by tier."""

    def __init__(self, ledger: Ledger, tree: Tree, placed_workloads: Iterable[PlacedWorkload]) -> None:
        self._tiers: dict[Tier, TierIndex] = {}
        for placed in placed_workloads:
            for unit in placed.units(ledger):
                tier = self._tiers.get(unit.tier)
                if tier is None:
                    tier = self._tiers[unit.tier] = TierIndex(tree)
                tier.add(placed.leaf, unit)
        for tier in self._tiers.values():
            tier.sort()

    def tiers(self) -> Sequence[Tier]:
        """The tiers of which there is any, in order."""
        return sorted(self._tiers)

    def of_tier(self, tier: Tier) -> TierIndex:
        """What there is of a tier."""
        return self._tiers[tier]


First = Callable[[int, Sequence[Unit]], Unit | None]
"""The first unit of a leaf that is there and of use, given the leaf and all its units in order."""
LAST: UnitKey = (UNLIMITED, "", 0)
"""Where there is none."""


class Lineup:
    """By leaf the first unit of one tier that is still there and of use to the preemptor.

    A search goes down into few branches; in the others nothing is looked for. What was found holds until a unit of
    the leaf is chosen: whether a unit is there and of use does not hang on other teams.
    """

    def __init__(self, tree: Tree, shelf: TierIndex, first: First) -> None:
        self._tree = tree
        self._shelf = shelf
        self._first = first
        self._rows: dict[int, Sequence[Unit]] = {}
        self._units: dict[int, Unit | None] = {}
        self._any: dict[int, bool] = {}
        self._lowest: dict[int, UnitKey] = {}

    def unit(self, leaf: int) -> Unit | None:
        """The first unit of a leaf."""
        if leaf not in self._units:
            row = self._rows.get(leaf)
            if row is None:
                row = self._rows[leaf] = self._shelf.units(leaf)
            self._units[leaf] = self._first(leaf, row)
        return self._units[leaf]

    def any_in(self, branch: int) -> bool:
        """Whether there is any below a branch."""
        found = self._any.get(branch)
        if found is None:
            if self._tree.children[branch]:
                found = any(self.any_in(child) for child in self.children(branch))
            else:
                found = self.unit(branch) is not None
            self._any[branch] = found
        return found

    def lowest(self, branches: Iterable[int]) -> UnitKey:
        """The first key of all below some branches: of equal branches that one decides."""
        return min([self._lowest_of(each) for each in branches], default=LAST)

    def _lowest_of(self, branch: int) -> UnitKey:
        found = self._lowest.get(branch)
        if found is None:
            if self._tree.children[branch]:
                found = self.lowest(self.children(branch))
            else:
                unit = self.unit(branch)
                found = LAST if unit is None else unit.key
            self._lowest[branch] = found
        return found

    def children(self, branch: int) -> Sequence[int]:
        """The children of a branch below which the tier has units."""
        return self._shelf.children(branch)

    def renew(self, leaf: int) -> None:
        """Have the first unit of a leaf looked for again."""
        self._units.pop(leaf, None)
        for branch in self._tree.paths[leaf]:
            self._any.pop(branch, None)
            self._lowest.pop(branch, None)
