"""Eligible victims by their place in the order of victims (section 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from scheduling.engine.model.quantities import UNLIMITED
from scheduling.engine.placement.ledger import Ledger
from scheduling.engine.preemption.victims import PlacedWorkload, Tier, Victim, VictimKey
from scheduling.engine.quota.tree import Tree


class TierIndex:
    """What can be taken of one tier, by leaf."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._by_leaf: dict[int, list[Victim]] = {}
        self._branches: set[int] = set()

    def add(self, leaf: int, victim: Victim) -> None:
        """Put in a victim."""
        self._by_leaf.setdefault(leaf, []).append(victim)
        self._branches.update(self._tree.paths[leaf])

    def sort(self) -> None:
        """Have the victims of each leaf in order."""
        for victims in self._by_leaf.values():
            victims.sort(key=attrgetter("key"))

    def of_leaf(self, leaf: int) -> Sequence[Victim]:
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
            for victim in placed.as_victims(ledger):
                tier = self._tiers.get(victim.tier)
                if tier is None:
                    tier = self._tiers[victim.tier] = TierIndex(tree)
                tier.add(placed.leaf, victim)
        for tier in self._tiers.values():
            tier.sort()

    def tiers(self) -> Sequence[Tier]:
        """The tiers of which there is any, in order."""
        return sorted(self._tiers)

    def of_tier(self, tier: Tier) -> TierIndex:
        """What there is of a tier."""
        return self._tiers[tier]


LAST: VictimKey = (UNLIMITED, "", 0)
"""Where there is none."""


class FirstVictims:
    """By leaf the first victim of one tier that ``serves``, given the leaf and the victim."""

    def __init__(self, tree: Tree, tier: TierIndex, serves: Callable[[int, Victim], bool]) -> None:
        self._tree = tree
        self._tier = tier
        self._serves = serves

    def victim(self, leaf: int) -> Victim | None:
        """The first victim of a leaf."""
        return next((victim for victim in self._tier.of_leaf(leaf) if self._serves(leaf, victim)), None)

    def any_in(self, branch: int) -> bool:
        """Whether there is any below a branch."""
        if self._tree.children[branch]:
            return any(map(self.any_in, self.children(branch)))
        return self.victim(branch) is not None

    def lowest(self, branches: Iterable[int]) -> VictimKey:
        """The first key of all below some branches: of equal branches that one decides."""
        return min(map(self._lowest_in, branches), default=LAST)

    def _lowest_in(self, branch: int) -> VictimKey:
        if self._tree.children[branch]:
            return self.lowest(self.children(branch))
        victim = self.victim(branch)
        return LAST if victim is None else victim.key

    def children(self, branch: int) -> Sequence[int]:
        """The children of a branch below which the tier has victims."""
        return self._tier.children(branch)
