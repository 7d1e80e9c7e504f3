"""Whether a preemptor could find victims at all: what would be free if all that it could ever take went (section 7).

It never says no to one that would find some. What it worked out is kept: GPUs that are taken and victims that are gone
leave preemptors less, never more. Only what could leave them more makes it look again: a branch that comes to be above
what is due to it; room in a branch of their own that was too full for them; a workload of another priority that joins
the index; something that is given back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduling.acceleration.eligible_victims import EligibleVictims
from scheduling.acceleration.group_bounds import GroupBounds, GroupBoundsIndex, TallyOf
from scheduling.acceleration.indexed_pods import IndexedPods
from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.acceleration.reachable_groups import Full, ReachableIndex
from scheduling.acceleration.victim_groups import NOWHERE, Need, VictimGroup
from scheduling.acceleration.waiting_index import PreemptorKind
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.preemption.policy import PreemptionPolicy, WorkloadClaim

Kind = tuple[int, int, int, PodRequest | Need, int]
"""A preemptor's leaf, priority and size, what each of its pods asks, and how many there are. One pod alone may lie on
any node that has the devices it needs, whatever else it asks."""


@dataclass(slots=True)
class _KnownInfeasible:
    """Preemptors of which it was found, at some ``time``, that none could find victims: so it is as long as branches
    are ``full``, none of the bounds has become more, and the gangs find no room among them; these need not be asked
    while no more nodes than ``freed`` have been given something back."""

    time: int
    preemptor_kinds: Sequence[PreemptorKind]
    full: Sequence[Full]
    group_bounds: Sequence[tuple[GroupBounds, int]]
    gangs: Sequence[tuple[GroupBounds, PodRequest, int]]
    freed: int


class InfeasibleSearches:
    """What the preemptors of one class, reserved or elastic, could hope for in one pool.

    :meth:`renew` is called when a cycle begins.
    """

    def __init__(
        self, ledger: KeptLedger, preemption_policy: PreemptionPolicy, eligible: EligibleVictims
    ) -> None:
        self._ledger = ledger
        self._policy = preemption_policy
        self._eligible = eligible
        self._group_bounds = GroupBoundsIndex(ledger, preemption_policy, eligible)
        self._reachable = ReachableIndex(preemption_policy, eligible, self._group_bounds)
        self._known_infeasible: dict[tuple[int, int], _KnownInfeasible] = {}
        self._needs: dict[PodRequest, Need] = {}
        self._same_needs: dict[tuple[object, ...], Need] = {}
        self._gains = 0
        self._changes = (0, 0, 0, 0)
        self._alone: dict[tuple[int, int], int] = {}
        """By leaf and priority, the smallest request known to have no eligible victim."""
        self._infeasible: dict[Kind, frozenset[int]] = {}
        """Preemptors that find no victims outside these nodes."""
        self._found: dict[Kind, frozenset[int]] = {}
        """Preemptors that might find victims outside these nodes."""

    def renew(self) -> None:
        """Take note of what is due and used by now: entitlements were worked out anew, or a cycle was taken back."""
        self._reachable.renew()

    def any_at_once(self, claim: WorkloadClaim) -> bool:
        """Whether there is a workload that the preemptor may take as things stand."""
        if any(self._eligible.any_in(*each) for each in self._reachable.of(claim).at_once):
            return True
        self._alone[claim.leaf, claim.priority] = claim.milli
        return False

    def known_infeasible(
        self, leaf: int, priority: int, milli: int, request: PodRequest, pods: int
    ) -> frozenset[int] | None:
        """The nodes outside which it is known that such preemptors find no victims (empty: nor anywhere);
        ``None`` where nothing is known.

        It is so as long as no preemptor could get more. What others start with leaves all fewer devices and
        less room in their branches; and a larger request may take no more.
        """
        self._forget_answers()
        alone = self._alone.get((leaf, priority))
        if alone is not None and alone <= milli:
            return NOWHERE
        return self._infeasible.get(
            (leaf, priority, milli, self._need(request) if pods == 1 else request, pods)
        )

    def might_take(
        self,
        claim: WorkloadClaim,
        request: PodRequest,
        pods: int,
        tally: TallyOf,
        closed: frozenset[int] = NOWHERE,
    ) -> bool:
        """Whether so many pods might find a place, on nodes that are not ``closed``, if all that the
        preemptor could ever take went. A no is remembered, for fewer nodes too, as long as no preemptor could get more;
        a yes, as long as nothing at all has changed."""
        self._forget_answers()
        need = self._need(request)
        kind = (claim.leaf, claim.priority, claim.milli, need if pods == 1 else request, pods)
        infeasible, found = self._infeasible.get(kind), self._found.get(kind)
        if infeasible is not None and infeasible <= closed:
            return False
        if found is not None and closed <= found:
            return True
        group_bounds = self._group_bounds.of(self._reachable.of(claim).group)
        might = group_bounds.hold(request, need, pods, tally, closed)
        (self._found if might else self._infeasible)[kind] = closed
        return might

    def look_anew(self, claim: WorkloadClaim) -> None:
        """Have it worked out anew what a preemptor could take."""
        self._reachable.look_anew(claim)
        self._found.clear()

    def _forget_answers(self) -> None:
        """Forget those that may be others by now."""
        reaches = self._reachable
        reaches.catch_up()
        if reaches.gains != self._gains:
            self._gains = reaches.gains
            self._alone.clear()
            self._infeasible.clear()
        changes = (len(self._ledger.later.changed), len(self._eligible.changed), reaches.time, reaches.gains)
        if changes != self._changes:
            self._changes = changes
            self._found.clear()

    def group_might_do(self, group: VictimGroup, request: PodRequest, pods: int, tally: TallyOf) -> bool:
        """Whether so many pods might find a place if all of a group went."""
        self._reachable.catch_up()
        return self._group_bounds.of(group).hold(request, self._need(request), pods, tally)

    def group(self, claim: WorkloadClaim) -> VictimGroup:
        """What the preemptor could take, or could as soon as others have left."""
        return self._reachable.of(claim).group

    def most_below(self, claim: WorkloadClaim, branch: int) -> int:
        """What those below a branch hold whose priority is not too high for the preemptor."""
        highest = None if claim.reserved else self._policy.highest_victim(claim.priority)
        if highest is None:
            return self._eligible.milli(branch, None)
        priorities = (*self._eligible.lower(branch, highest), highest)
        return sum([self._eligible.milli(branch, each) for each in priorities])

    def most_pods(self, claim: WorkloadClaim, request: PodRequest, tally: IndexedPods) -> list[int]:
        """How many pods each domain of a tally might hold at most if all that the preemptor could take went."""
        return self._group_bounds.of(self._reachable.of(claim).group).most_pods(
            request, self._need(request), tally
        )

    # --- All of a leaf --------------------------------------------------------------------------------------

    def are_infeasible(self, leaf: int, kinds: Sequence[PreemptorKind], tally: TallyOf) -> bool:
        """Whether none of the elastic preemptors of a leaf, of these kinds, might find victims, ceilings aside."""
        self._reachable.catch_up()
        key = (leaf, kinds[0].priority)
        known = self._known_infeasible.get(key)
        if known is not None and known.preemptor_kinds is kinds and self._is_still(known, leaf, tally):
            return True
        found = self._found_infeasible(leaf, kinds, tally)
        if found is None:
            self._known_infeasible.pop(key, None)
            return False
        self._known_infeasible[key] = found
        return True

    def _is_still(self, known: _KnownInfeasible, leaf: int, tally: TallyOf) -> bool:
        """Whether nothing has become more since."""
        if self._reachable.last_change(leaf) > known.time or not self._reachable.are_full(known.full):
            return False
        for group_bounds, version in known.group_bounds:
            if group_bounds.version != version:
                return False
        freed = len(self._ledger.freed)
        if known.freed != freed:
            if any(
                there.hold(request, self._need(request), pods, tally) for there, request, pods in known.gangs
            ):
                return False
            known.freed = freed
        return True

    def _found_infeasible(
        self, leaf: int, kinds: Sequence[PreemptorKind], tally: TallyOf
    ) -> _KnownInfeasible | None:
        """What it depends on that no preemptor of a leaf could find victims; ``None`` if one might."""
        group_bounds: dict[GroupBounds, int] = {}
        full: dict[Full, None] = {}
        freed = len(self._ledger.freed)
        gangs: list[tuple[GroupBounds, PodRequest, int]] = []
        seen: set[tuple[int, int, Need]] = set()
        for sort in kinds:
            need = self._need(sort.request)
            if sort.pods == 1 and (sort.priority, sort.milli, need) in seen:
                continue
            seen.add((sort.priority, sort.milli, need))
            reach = self._reachable.of(
                WorkloadClaim("", leaf, sort.priority, reserved=False, milli=sort.milli)
            )
            full.update(dict.fromkeys(reach.full))
            if not reach.at_once:
                continue
            there = self._group_bounds.of(reach.group)
            if there.hold(sort.request, need, sort.pods, tally):
                return None
            group_bounds[there] = there.version
            if sort.pods > 1:
                gangs.append((there, sort.request, sort.pods))
        return _KnownInfeasible(
            self._reachable.time, kinds, _emptiest(full), tuple(group_bounds.items()), gangs, freed
        )

    def _need(self, request: PodRequest) -> Need:
        found = self._needs.get(request)
        if found is None:
            usable = [(each.number, each.costs) for each in self._ledger.nodes.usable(request)]
            key = (request.whole, *usable)
            found = self._needs[request] = self._same_needs.setdefault(key, Need(request.whole, dict(usable)))
        return found


def _emptiest(full: Iterable[Full]) -> tuple[Full, ...]:
    """Of the same branches those that need the least room."""
    least: dict[tuple[int, int, bool], Full] = {}
    for each in full:
        key = each[:3]
        if key not in least or each.slack < least[key].slack:
            least[key] = each
    return tuple(least.values())
