"""The search for victims, with what it has looked at remembered: a search goes down into few branches (section 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from scheduling.engine.model.plan import Rule
from scheduling.engine.placement.ledger import HeldPods
from scheduling.engine.preemption.joint_eligibility import JointEligibility
from scheduling.engine.preemption.policy import PreemptionPolicy, WorkloadClaim
from scheduling.engine.preemption.search import PreemptionContext, PreemptionRequest, Search
from scheduling.engine.preemption.victim_index import FirstVictims, TierIndex, VictimIndex
from scheduling.engine.preemption.victims import Tier, Victim, VictimKey
from scheduling.engine.quota.tree import ROOT, Tree


class KeptFirstVictims(FirstVictims):
    """The first victims of a tier. What was found holds until one of the leaf is chosen: whether one is there and of
    use depends on no other team, and what is of no use never comes to be."""

    def __init__(self, tree: Tree, tier: TierIndex, serves: Callable[[int, Victim], bool]) -> None:
        super().__init__(tree, tier, serves)
        self._at: dict[int, int] = {}
        self._victims: dict[int, Victim | None] = {}
        self._any: dict[int, bool] = {}
        self._lowest: dict[int, VictimKey] = {}

    def victim(self, leaf: int) -> Victim | None:
        """The first victim of a leaf."""
        if leaf not in self._victims:
            victims, at = self._tier.of_leaf(leaf), self._at.get(leaf, 0)
            while at < len(victims) and not self._serves(leaf, victims[at]):
                at += 1
            self._at[leaf] = at
            self._victims[leaf] = victims[at] if at < len(victims) else None
        return self._victims[leaf]

    def any_in(self, branch: int) -> bool:
        """Whether there is any below a branch."""
        found = self._any.get(branch)
        if found is None:
            found = self._any[branch] = super().any_in(branch)
        return found

    def _lowest_in(self, branch: int) -> VictimKey:
        found = self._lowest.get(branch)
        if found is None:
            found = self._lowest[branch] = super()._lowest_in(branch)
        return found

    def renew(self, leaf: int) -> None:
        """Have the first victim of a leaf looked for again."""
        self._victims.pop(leaf, None)
        for branch in self._tree.paths[leaf]:
            self._any.pop(branch, None)
            self._lowest.pop(branch, None)


class KeptJointEligibility(JointEligibility):
    """Joint eligibility that remembers the branch of each leaf and priority, and asks once for the rule of victims that
    differ in neither."""

    def __init__(
        self, policy: PreemptionPolicy, preemptor: WorkloadClaim, leaving: Mapping[int, int]
    ) -> None:
        super().__init__(policy, preemptor, leaving)
        self._branches: dict[tuple[int, int], int | None] = {}
        self._rules: dict[tuple[int, int], Rule | None] = {}

    def rules(self, victims: Sequence[Victim]) -> list[Rule] | None:
        """By which rule each of the victims may be taken; ``None`` if one of them may not."""
        self._rules.clear()
        return super().rules(victims)

    def _rule(self, victim: WorkloadClaim, before: Mapping[int, int]) -> Rule | None:
        key = (victim.leaf, victim.priority)
        if key not in self._rules:
            self._rules[key] = super()._rule(victim, before)
        return self._rules[key]

    def _shared_branch(self, victim: WorkloadClaim) -> int | None:
        key = (victim.leaf, victim.priority)
        if key not in self._branches:
            self._branches[key] = super()._shared_branch(victim)
        return self._branches[key]


class KeptSearch(Search):
    """A search that remembers first victims, ratios and fair branches until a victim changes them."""

    def __init__(
        self, context: PreemptionContext, request: PreemptionRequest, held: HeldPods, index: VictimIndex
    ) -> None:
        super().__init__(context, request, held, index)
        self._joint = KeptJointEligibility(self._policy, self._preemptor, self._leaving)
        self._under_ceilings = super()._passed() is None
        """Whether the preemptor passes no ceiling even without victims."""
        self._firsts: dict[Tier, KeptFirstVictims] = {}
        self._firsts_for: tuple[int | None, bool] | None = None
        self._above_by: dict[int, float] = {}
        self._above_beside: list[list[int]] | None = None
        self._fair: Sequence[Sequence[int]] | None = None

    def _passed(self) -> int | None:
        return None if self._under_ceilings else super()._passed()

    def _first_victims(self, tier: Tier) -> KeptFirstVictims:
        at_stake = (self._passed(), self._capacity.enough)
        if self._firsts_for != at_stake:
            self._firsts_for = at_stake
            self._firsts.clear()
        found = self._firsts.get(tier)
        if found is None:
            found = KeptFirstVictims(self._tree, self._index.of_tier(tier), self._serving())
            self._firsts[tier] = found
        return found

    def _first_of(self, firsts: FirstVictims, eligible: Sequence[Sequence[int]]) -> Victim | None:
        some = [branch for level in eligible for branch in level]
        return self._descend(firsts, some[0]) if len(some) == 1 else super()._first_of(firsts, eligible)

    def _fair_branches(self) -> Sequence[Sequence[int]]:
        if self._fair is None:
            self._fair = super()._fair_branches()
        return self._fair

    def _beside(self) -> Sequence[Sequence[int]]:
        """Those that are above their entitlement or guarantee: no others ever have a surplus."""
        if self._above_beside is None:
            excess = self._policy.excess
            self._above_beside = [[each for each in some if excess(each) > 0] for some in super()._beside()]
        return self._above_beside

    def _above(self, branch: int) -> float:
        found = self._above_by.get(branch)
        if found is None:
            found = self._above_by[branch] = super()._above(branch)
        return found

    def _take(self, victim: Victim) -> None:
        super()._take(victim)
        for firsts in self._firsts.values():
            firsts.renew(victim.placed.leaf)

    def _change(self, victim: Victim, sign: int) -> None:
        super()._change(victim, sign)
        self._fair = None
        for branch in (ROOT, *self._tree.paths[victim.placed.leaf]):
            self._above_by.pop(branch, None)

    def _may_take(self, victims: Sequence[Victim]) -> bool:
        """Whether the preemptor may take these victims: where all that were chosen are as near to it in the tree, none
        of them makes the others eligible."""
        leaf, parting = self._preemptor.leaf, self._tree.parting
        near = {parting(leaf, victim.placed.leaf) for victim in self._chosen}
        return self._preemptor.reserved or len(near) <= 1 or super()._may_take(victims)
