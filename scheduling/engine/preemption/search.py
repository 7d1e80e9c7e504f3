"""Choosing victims: in order, only enough, and only for a preemptor that then fits (section 7).

The order of victims: pods above a minimum before whole workloads; Queued, Starting, Running; lower priority; the team
most above its entitlement (from the root down into the branch of highest U/E); least work lost; id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

from scheduling.engine.model.plan import Rule
from scheduling.engine.model.snapshot import ElasticPreemption
from scheduling.engine.placement.held_pods import HeldPods
from scheduling.engine.preemption.capacity import VictimCapacity
from scheduling.engine.preemption.lawful import Lawful, Sizes
from scheduling.engine.preemption.request import PreemptionContext, PreemptionRequest
from scheduling.engine.preemption.victim_index import Lineup, VictimIndex
from scheduling.engine.preemption.victims import Cost, PlacedWorkload, Tier, Unit
from scheduling.engine.quota.tree import ROOT


@dataclass(frozen=True, slots=True)
class Victims:
    """A set of victims for one preemptor, in the order in which they were chosen."""

    units: tuple[Unit, ...]
    rules: tuple[Rule, ...]

    @property
    def placed_workloads(self) -> Collection[PlacedWorkload]:
        """The workloads that are touched."""
        return {unit.placed.workload.id: unit.placed for unit in self.units}.values()

    @property
    def workloads(self) -> int:
        """How many they are."""
        return len(self.placed_workloads)

    @property
    def cost(self) -> Cost:
        """What a set costs: whether a workload leaves whole and the dearest victim's status and priority, then
        GPU-seconds lost in sum, GPUs, ids."""
        return (
            max(unit.tier for unit in self.units),
            sum(unit.lost_gpu_ms for unit in self.units),
            sum(unit.milli for unit in self.units),
            tuple(sorted({unit.placed.workload.id for unit in self.units})),
        )


class Search:
    """One search for victims: inside given domains, among given workloads, by the order of this page."""

    def __init__(
        self,
        context: PreemptionContext,
        request: PreemptionRequest,
        held: HeldPods,
        victims: VictimIndex,
    ) -> None:
        self._context = context
        self._request = request
        self._preemptor = request.claim
        self._tree = context.preemption_policy.accounts.tree
        self._capacity = VictimCapacity(context.ledger, request.request, request.pods, held, request.closed)
        self._leaving: dict[int, int] = {}
        self._lawful = Lawful(context.preemption_policy, request.claim, self._leaving)
        self._chosen: list[Unit] = []
        self._shared: dict[int, Sizes] = {}
        self._taken: dict[str, set[int]] = {}
        self._gone: set[str] = set()
        self._depths: dict[int, int] = {}
        self._above_by: dict[int, float] = {}
        self._above_beside: list[list[int]] | None = None
        self._fair: list[list[int]] | None = None
        self._under_ceilings = False
        self._under_ceilings = self._passed() is None
        self._victims = victims
        most = request.highest_victim
        self._tiers = [tier for tier in victims.tiers() if most is None or tier[2] <= most]
        self._lineups: dict[Tier, Lineup] = {}
        self._lineups_for: tuple[int | None, bool] | None = None
        self._at: dict[tuple[Tier, int, bool], int] = {}

    def run(self, chosen: Sequence[Unit] = ()) -> Victims | None:
        """The victims by the plain order, after those that are ``chosen`` already; ``None`` if the eligible ones do
        not suffice for the preemptor."""
        for each in chosen:
            self._take(each)
        while not self._enough():
            unit = self._next() or self._next_in_another_order()
            if unit is None:
                return None
            self._take(unit)
        self._give_back()
        rules = self._lawful.rules(self._chosen)
        if rules is None or not self._chosen or self._ping_pong():
            return None
        return Victims(tuple(self._chosen), tuple(rules))

    def _enough(self) -> bool:
        return self._capacity.enough and self._passed() is None

    def _passed(self) -> int | None:
        """The branch whose ceiling the preemptor would still pass; ``None`` too if it passes none with no victims."""
        if self._under_ceilings:
            return None
        passed = self._request.ceiling_passed(self._context, self._leaving)
        return None if passed is None else passed.branch

    # --- The next in order ----------------------------------------------------------------------------------

    def _next(self) -> Unit | None:
        """The first unit of the order that is lawful and of use."""
        passed, lacks_place = self._passed(), not self._capacity.enough
        if self._lineups_for != (passed, lacks_place):
            self._lineups_for = (passed, lacks_place)
            self._lineups.clear()
        for tier in self._tiers:
            lineup = self._lineups.get(tier)
            if lineup is None:
                lineup = self._lineups[tier] = self._line_up(tier, passed, lacks_place=lacks_place)
            unit = self._choose(tier, lineup)
            if unit is not None:
                return unit
        return None

    def _line_up(self, tier: Tier, passed: int | None, *, lacks_place: bool) -> Lineup:
        """The first units of a tier: under a passed ceiling any will do, elsewhere what the preemptor could use."""

        def first(leaf: int, units: Sequence[Unit]) -> Unit | None:
            any_will_do = passed is not None and passed in self._tree.paths[leaf]
            if not (any_will_do or lacks_place):
                return None
            key = (tier, leaf, any_will_do)
            at = self._at.get(key, 0)
            while at < len(units) and not self._serves(units[at], any_will_do=any_will_do):
                at += 1
            self._at[key] = at
            return units[at] if at < len(units) else None

        return Lineup(self._tree, self._victims.of_tier(tier), first)

    def _serves(self, unit: Unit, *, any_will_do: bool) -> bool:
        """Whether a unit is still there and of use: what is left of it, if some of its pods were chosen."""
        id_ = unit.placed.workload.id
        taken = self._taken.get(id_)
        if id_ in self._gone or (taken and not unit.whole and unit.pods[0].pod_index in taken):
            return False
        return any_will_do or self._capacity.concerns(unit.without(frozenset(taken)) if taken else unit)

    def _choose(self, tier: Tier, lineup: Lineup) -> Unit | None:
        """Of a tier's first units the lawful one of the team most above its entitlement."""
        preemptor, priority = self._preemptor, tier[2]
        mode = self._context.preemption_policy.policy.elastic_preemption
        if preemptor.reserved or (mode is ElasticPreemption.PRIORITY and priority < preemptor.priority):
            return self._descend(lineup, ROOT)
        if self._fair is None:
            preemption_policy = self._context.preemption_policy
            if self._above_beside is None:
                self._above_beside = preemption_policy.above_beside(preemptor)
            self._fair = preemption_policy.fair_branches(preemptor, self._leaving, self._above_beside)
        if mode is ElasticPreemption.FAIR_SHARE and priority < preemptor.priority:
            *above, own = self._fair
            return self._first_of(lineup, [*above, [*own, preemptor.leaf]])
        return self._first_of(lineup, self._fair)

    def _first_of(self, lineup: Lineup, lawful: Sequence[Sequence[int]]) -> Unit | None:
        """The first unit of that one of these branches which is most above its entitlement, level by level. They are
        given by the depth at which they part from the preemptor's way down. Often it is one alone."""
        some = [branch for level in lawful for branch in level]
        if len(some) == 1:
            return self._descend(lineup, some[0])
        for depth, mine in enumerate(self._tree.paths[self._preemptor.leaf]):
            branch = self._most_above(lineup, lawful[depth])
            if branch is None:
                continue
            deeper = [each for level in lawful[depth + 1 :] for each in level]
            if not (deeper and self._is_more_above(lineup, mine, deeper, branch)):
                return self._descend(lineup, branch)
        return None

    def _is_more_above(self, lineup: Lineup, mine: int, deeper: Sequence[int], other: int) -> bool:
        """Whether a branch of the preemptor's own, of which only those ``deeper`` are eligible, is more above its
        entitlement than another beside it, or their unit comes first."""
        if not any(map(lineup.any_in, deeper)):
            return False
        if self._above(mine) > self._above(other):
            return True
        return self._above(mine) == self._above(other) and lineup.lowest(deeper) < lineup.lowest((other,))

    def _descend(self, lineup: Lineup, top: int) -> Unit | None:
        """The first unit from a branch down into the one that is most above its entitlement; none, if none is
        there."""
        branch: int | None = top
        while branch is not None and self._tree.children[branch]:
            branch = self._most_above(lineup, lineup.children(branch))
        return None if branch is None else lineup.unit(branch)

    def _most_above(self, lineup: Lineup, branches: Iterable[int]) -> int | None:
        """That of some branches which is most above its entitlement and has a unit; of equal ones whose unit comes
        first."""
        most, equal = -inf, []
        for branch in branches:
            above = self._above(branch)
            if above >= most and lineup.any_in(branch):
                if above > most:
                    most, equal = above, [branch]
                else:
                    equal.append(branch)
        if len(equal) > 1:
            return min(equal, key=lambda branch: lineup.lowest((branch,)))
        return equal[0] if equal else None

    def _above(self, branch: int) -> float:
        """How far a branch is above its entitlement."""
        found = self._above_by.get(branch)
        if found is None:
            found = self._context.preemption_policy.above(branch, self._preemptor, self._leaving)
            self._above_by[branch] = found
        return found

    def _next_in_another_order(self) -> Unit | None:
        """Where no unit is eligible any more: the first that would be if it left before some of those chosen."""
        allowances = self._lawful.allowances(self._shared)
        lawful: list[list[int]] = [[] for _ in self._tree.paths[self._preemptor.leaf]]
        for branch in allowances:
            lawful[len(self._tree.paths[branch]) - 1].append(branch)
        for tier in self._tiers if allowances else ():
            first = partial(self._first_in_another_order, allowances)
            unit = self._first_of(Lineup(self._tree, self._victims.of_tier(tier), first), lawful)
            if unit is not None:
                return unit
        return None

    def _first_in_another_order(
        self, allowances: Mapping[int, int], leaf: int, units: Sequence[Unit]
    ) -> Unit | None:
        """The first of a leaf's units that may go together with those chosen."""
        passed = self._passed()
        any_will_do = passed is not None and passed in self._tree.paths[leaf]
        if self._capacity.enough and not any_will_do:
            return None
        allowance = allowances[self._lawful.branch(leaf)]
        for unit in units:
            begun = unit.whole and unit.placed.workload.id in self._taken
            serves = (begun or unit.milli < allowance) and self._serves(unit, any_will_do=any_will_do)
            if serves and self._may_join(unit, begun=begun):
                return unit
        return None

    def _may_join(self, unit: Unit, *, begun: bool) -> bool:
        """Whether a unit may go together with those chosen. Its branch gives so much; where some of
        its pods were chosen, it leaves at once with them, and that is judged anew."""
        if not begun:
            return True
        rest = unit.without(frozenset(self._taken[unit.placed.workload.id]))
        return self._lawful.rules([*self._chosen, rest]) is not None

    # --- Taking and giving back -----------------------------------------------------------------------------

    def _take(self, unit: Unit) -> None:
        """Choose a unit. Of a workload that goes whole, only what was not chosen already counts."""
        id_ = unit.placed.workload.id
        taken = self._taken.setdefault(id_, set())
        if unit.whole:
            self._gone.add(id_)
            unit = unit.without(frozenset(taken)) if taken else unit
        taken.update(pod.pod_index for pod in unit.pods)
        self._chosen.append(unit)
        self._lawful.share(unit, self._shared)
        self._change(unit, 1)
        for lineup in self._lineups.values():
            lineup.renew(unit.placed.leaf)

    def _change(self, unit: Unit, sign: int) -> None:
        self._capacity.change(unit, sign)
        self._fair = None
        milli = sign * unit.milli
        for branch in (ROOT, *self._tree.paths[unit.placed.leaf]):
            self._leaving[branch] = self._leaving.get(branch, 0) + milli
            self._above_by.pop(branch, None)

    def _give_back(self) -> None:
        """Spare each unit without which the preemptor fits and may take the others, last chosen first."""
        depths = Counter(map(self._depth, self._chosen))
        # If all are as near to it in the tree, none of them makes the others eligible.
        near = not self._preemptor.reserved and len(depths) > 1
        for unit in reversed(tuple(self._chosen)):
            if not unit.whole and any(each.whole and each.placed is unit.placed for each in self._chosen):
                continue
            depth = self._depth(unit)
            self._change(unit, -1)
            if not self._enough() or (near and depth > min(depths) and self._makes_lawful(unit)):
                self._change(unit, 1)
                continue
            self._chosen.remove(unit)
            depths -= Counter((depth,))
            if near:
                self._shared = self._shared_without(unit)

    def _makes_lawful(self, unit: Unit) -> bool:
        """Whether the preemptor may take the others only because this one, nearer to it in the tree, goes."""
        rest = self._shared_without(unit)
        return any(self._lawful.allowance(branch, sizes) <= 0 for branch, sizes in rest.items())

    def _shared_without(self, unit: Unit) -> dict[int, Sizes]:
        """What is taken by the fair-share rule if a unit is not."""
        others = [each for each in self._chosen if each.placed is unit.placed and each is not unit]
        return self._lawful.without(unit, self._shared, others)

    def _depth(self, unit: Unit) -> int:
        """How far down the unit's branch and the preemptor's are the same."""
        leaf = unit.placed.leaf
        depth = self._depths.get(leaf)
        if depth is None:
            depth = self._depths[leaf] = self._tree.parting(self._preemptor.leaf, leaf)
        return depth

    def _ping_pong(self) -> bool:
        """Whether a victim that leaves whole could at once preempt the preemptor in turn."""
        if self._preemptor.reserved:
            return False
        preemption_policy = self._context.preemption_policy
        return any(
            unit.whole and preemption_policy.loops(self._preemptor, unit.claim, self._leaving)
            for unit in self._chosen
        )
