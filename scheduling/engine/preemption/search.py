"""Choosing victims: in order, only enough, and only for a preemptor that then fits (section 7).

The order of victims: pods above a minimum before whole workloads; Queued, Starting, Running; lower priority; the team
most above its entitlement (from the root down into the branch of highest U/E); least work lost; id.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from scheduling.engine.model.plan import Rule
from scheduling.engine.placement.ledger import HeldPods, Ledger
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.preemption.capacity import VictimCapacity
from scheduling.engine.preemption.joint_eligibility import JointEligibility
from scheduling.engine.preemption.policy import PreemptionPolicy, WorkloadClaim
from scheduling.engine.preemption.victim_index import FirstVictims, VictimIndex
from scheduling.engine.preemption.victims import Cost, PlacedWorkload, Tier, Victim
from scheduling.engine.quota.charging import NOTHING_LEAVES, Ceiling, Charges
from scheduling.engine.quota.tree import ROOT


@dataclass(slots=True)
class PreemptionContext:
    """What the searches of one pool look at. Nothing of it changes during a search."""

    ledger: Ledger
    charges: Charges
    preemption_policy: PreemptionPolicy

    def search(self, request: PreemptionRequest, held: HeldPods, index: VictimIndex) -> Search:
        """A search among these workloads, in the domains of which ``held`` counts the pods."""
        return Search(self, request, held, index)


@dataclass(frozen=True, slots=True)
class PreemptionRequest:
    """A preemptor: its claim, what its pods request, how many must start, and which nodes are not for it.

    ``highest_victim``: up to which priority it may have victims at all (``None``: any).
    """

    claim: WorkloadClaim
    request: PodRequest
    pods: int
    closed: frozenset[int]
    highest_victim: int | None

    def may_take(self, placed: PlacedWorkload) -> bool:
        """Whether the workload's priority is not too high."""
        return self.highest_victim is None or placed.workload.priority <= self.highest_victim

    def ceiling_passed(
        self, context: PreemptionContext, leaving: Mapping[int, int] = NOTHING_LEAVES
    ) -> Ceiling | None:
        """The ceiling it would pass if so much (by branch) left for it."""
        claim = self.claim
        return context.charges.ceiling_passed(
            claim.leaf, claim.milli, reserved=claim.reserved, leaving=leaving
        )


@dataclass(frozen=True, slots=True)
class VictimSet:
    """A set of victims for one preemptor, in the order in which they were chosen."""

    victims: tuple[Victim, ...]
    rules: tuple[Rule, ...]

    @property
    def placed_workloads(self) -> Collection[PlacedWorkload]:
        """The workloads that are touched."""
        return {victim.placed.workload.id: victim.placed for victim in self.victims}.values()

    @property
    def cost(self) -> Cost:
        """The dearest victim's tier, then GPU-milliseconds lost in sum, GPUs, ids."""
        return (
            max(victim.tier for victim in self.victims),
            sum(victim.lost_gpu_ms for victim in self.victims),
            sum(victim.milli for victim in self.victims),
            tuple(sorted({victim.placed.workload.id for victim in self.victims})),
        )


class Search:
    """One search for victims: inside given domains, among given workloads, by the order of this page."""

    def __init__(
        self, context: PreemptionContext, request: PreemptionRequest, held: HeldPods, index: VictimIndex
    ) -> None:
        self._context = context
        self._policy = context.preemption_policy
        self._request = request
        self._preemptor = request.claim
        self._tree = self._policy.accounts.tree
        self._capacity = VictimCapacity(context.ledger, request.request, request.pods, held, request.closed)
        self._leaving: dict[int, int] = {}
        self._joint = JointEligibility(self._policy, request.claim, self._leaving)
        self._chosen: list[Victim] = []
        self._taken: dict[str, set[int]] = {}
        self._gone: set[str] = set()
        self._index = index
        most = request.highest_victim
        self._tiers = [tier for tier in index.tiers() if most is None or tier[2] <= most]

    def run(self, chosen: Sequence[Victim] = ()) -> VictimSet | None:
        """Victims in order, after those ``chosen`` already; ``None`` if the eligible ones do not suffice."""
        for each in chosen:
            self._take(each)
        while not self._enough():
            victim = self._next() or self._next_in_another_order()
            if victim is None:
                return None
            self._take(victim)
        self._give_back()
        rules = self._joint.rules(self._chosen)
        if rules is None or not self._chosen or self._loops():
            return None
        return VictimSet(tuple(self._chosen), tuple(rules))

    def _enough(self) -> bool:
        return self._capacity.enough and self._passed() is None

    def _passed(self) -> int | None:
        """The branch whose ceiling the preemptor would still pass."""
        passed = self._request.ceiling_passed(self._context, self._leaving)
        return None if passed is None else passed.branch

    # --- The next in order ----------------------------------------------------------------------------------

    def _next(self) -> Victim | None:
        """The first victim of the order that is eligible and of use."""
        for tier in self._tiers:
            victim = self._choose(tier, self._first_victims(tier))
            if victim is not None:
                return victim
        return None

    def _first_victims(self, tier: Tier) -> FirstVictims:
        """The first victims of a tier that are of use."""
        return FirstVictims(self._tree, self._index.of_tier(tier), self._serving())

    def _serving(self) -> Callable[[int, Victim], bool]:
        """Tells whether a victim of a leaf is of use as things stand."""
        passed, enough = self._passed(), self._capacity.enough

        def serves(leaf: int, victim: Victim) -> bool:
            any_will_do = passed is not None and passed in self._tree.paths[leaf]
            return (any_will_do or not enough) and self._serves(victim, any_will_do=any_will_do)

        return serves

    def _serves(self, victim: Victim, *, any_will_do: bool) -> bool:
        """Whether a victim is still there and of use: what is left of it, if some of its pods were chosen."""
        id_ = victim.placed.workload.id
        taken = self._taken.get(id_)
        if id_ in self._gone or (taken and not victim.whole and victim.pods[0].pod_index in taken):
            return False
        return any_will_do or self._capacity.concerns(victim.without(frozenset(taken)) if taken else victim)

    def _choose(self, tier: Tier, firsts: FirstVictims) -> Victim | None:
        """Of a tier's first victims the eligible one of the team most above its entitlement."""
        preemptor, policy = self._preemptor, self._policy
        lower = tier[2] < preemptor.priority
        if preemptor.reserved or (lower and policy.lower_in(preemptor) == ROOT):
            return self._descend(firsts, ROOT)
        *above, own = self._fair_branches()
        return self._first_of(firsts, [*above, [*own, preemptor.leaf] if lower else own])

    def _fair_branches(self) -> Sequence[Sequence[int]]:
        return self._policy.fair_branches(self._preemptor, self._leaving, self._beside())

    def _beside(self) -> Sequence[Sequence[int]]:
        """The branches beside the preemptor's own that may have a surplus."""
        return self._tree.beside(self._preemptor.leaf)

    def _first_of(self, firsts: FirstVictims, eligible: Sequence[Sequence[int]]) -> Victim | None:
        """The first victim of the branch that is most above its entitlement, of those eligible at each depth."""
        for depth, mine in enumerate(self._tree.paths[self._preemptor.leaf]):
            branch = self._most_above(firsts, eligible[depth])
            if branch is None:
                continue
            deeper = [each for level in eligible[depth + 1 :] for each in level]
            if not self._is_more_above(firsts, mine, deeper, branch):
                return self._descend(firsts, branch)
        return None

    def _is_more_above(self, firsts: FirstVictims, mine: int, deeper: Sequence[int], other: int) -> bool:
        """Whether the preemptor's own branch, as far as those ``deeper`` are eligible, comes before another beside
        it."""
        if not any(map(firsts.any_in, deeper)) or self._above(mine) < self._above(other):
            return False
        return self._above(mine) > self._above(other) or firsts.lowest(deeper) < firsts.lowest((other,))

    def _descend(self, firsts: FirstVictims, top: int) -> Victim | None:
        """The first victim, from a branch down into the child that is most above its entitlement."""
        branch: int | None = top
        while branch is not None and self._tree.children[branch]:
            branch = self._most_above(firsts, firsts.children(branch))
        return None if branch is None else firsts.victim(branch)

    def _most_above(self, firsts: FirstVictims, branches: Iterable[int]) -> int | None:
        """The branch with a victim that is most above its entitlement; of equal ones the one with the first victim."""
        most = -inf
        equal: list[int] = []
        for branch in branches:
            above = self._above(branch)
            if above >= most and firsts.any_in(branch):
                equal = [*equal, branch] if above == most else [branch]
                most = above
        if len(equal) > 1:
            return min(equal, key=lambda branch: firsts.lowest((branch,)))
        return equal[0] if equal else None

    def _above(self, branch: int) -> float:
        return self._policy.above(branch, self._preemptor, self._leaving)

    def _next_in_another_order(self) -> Victim | None:
        """Where no victim is eligible any more: the first that would be if it left before some of those chosen."""
        allowances = self._joint.allowances(self._joint.shared(self._chosen))
        eligible: list[list[int]] = [[] for _ in self._tree.paths[self._preemptor.leaf]]
        for branch in allowances:
            eligible[len(self._tree.paths[branch]) - 1].append(branch)
        serves = self._serving()

        def joins(leaf: int, victim: Victim) -> bool:
            """Whether it is of use, and may go together with those chosen: what its branch still gives, or, of a
            workload of which some pods were chosen, the rest with them."""
            id_, branch = victim.placed.workload.id, self._policy.branch_beside(self._preemptor.leaf, leaf)
            begun = victim.whole and id_ in self._taken
            if not (begun or victim.milli < allowances[branch]) or not serves(leaf, victim):
                return False
            rest = victim.without(frozenset(self._taken[id_])) if begun else victim
            return not begun or self._joint.rules([*self._chosen, rest]) is not None

        for tier in self._tiers if allowances else ():
            firsts = FirstVictims(self._tree, self._index.of_tier(tier), joins)
            victim = self._first_of(firsts, eligible)
            if victim is not None:
                return victim
        return None

    # --- Taking and giving back -----------------------------------------------------------------------------

    def _take(self, victim: Victim) -> None:
        """Choose a victim. Of a workload that goes whole, only what was not chosen already counts."""
        id_ = victim.placed.workload.id
        taken = self._taken.setdefault(id_, set())
        if victim.whole:
            self._gone.add(id_)
            victim = victim.without(frozenset(taken)) if taken else victim
        taken.update(pod.pod_index for pod in victim.pods)
        self._chosen.append(victim)
        self._change(victim, 1)

    def _change(self, victim: Victim, sign: int) -> None:
        self._capacity.change(victim, sign)
        for branch in (ROOT, *self._tree.paths[victim.placed.leaf]):
            self._leaving[branch] = self._leaving.get(branch, 0) + sign * victim.milli

    def _give_back(self) -> None:
        """Spare each victim without which the preemptor fits and may take the others, last chosen first."""
        for victim in reversed(tuple(self._chosen)):
            if not victim.whole and any(each.whole and each.placed is victim.placed for each in self._chosen):
                continue
            self._change(victim, -1)
            others = [each for each in self._chosen if each is not victim]
            if self._enough() and self._may_take(others):
                self._chosen = others
            else:
                self._change(victim, 1)

    def _may_take(self, victims: Sequence[Victim]) -> bool:
        """Whether the preemptor may take these victims, without some that were chosen besides."""
        return self._joint.rules(victims) is not None

    def _loops(self) -> bool:
        """Whether a victim that leaves whole could at once preempt the preemptor in turn."""
        return not self._preemptor.reserved and any(
            victim.whole and self._policy.loops(self._preemptor, victim.claim, self._leaving)
            for victim in self._chosen
        )
