"""What a search for victims looks at, and for whom it is made (section 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduling.engine.bounds import Bounds
from scheduling.engine.capacity import Tally
from scheduling.engine.ledger import Ledger
from scheduling.engine.lines import Sort
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.preemption.policy import Claim, PreemptionPolicy
from scheduling.engine.prospects import Prospects
from scheduling.engine.quota.charging import NOTHING_LEAVES, Ceiling, Charges
from scheduling.engine.roster import Roster
from scheduling.engine.standing import Standing
from scheduling.engine.yields import NOWHERE, Group


def nowhere() -> frozenset[int]:
    """No node."""
    return NOWHERE


@dataclass(slots=True)
class Court:
    """What the searches of a pool for one sort of newcomers look at: reserved ones, or elastic ones. Nothing of it
    changes while one searches; between two searches it is kept up to date, not built anew."""

    ledger: Ledger
    charges: Charges
    preemption_policy: PreemptionPolicy
    roster: Roster
    tallies: dict[PodRequest, Tally]
    bounds: Bounds
    prospects: Prospects

    def tally(self, request: PodRequest) -> Tally | None:
        """How many pods of the request the domains of its widest level hold; ``None`` if it has no domain."""
        found = self.tallies.get(request)
        if found is None:
            levels = self.ledger.nodes.domains(request)
            if not levels:
                return None
            found = self.tallies[request] = Tally.of_level(self.ledger, request, levels[-1])
        return found.refresh()

    def might_take(
        self, claim: Claim, request: PodRequest, pods: int, closed: Callable[[], frozenset[int]] = nowhere
    ) -> bool:
        """Whether a newcomer who may take somebody might find victims enough, on nodes that are not ``closed``, as
        things stand; false only if he certainly finds none."""
        passed = self.charges.ceiling_passed(claim.leaf, claim.milli, reserved=claim.reserved)
        if passed is not None:
            return self.prospects.most_below(claim, passed.branch) >= passed.excess
        if not self.prospects.might_take(claim, request, pods, self.tally):
            return False
        nodes = closed()
        return not nodes or self.prospects.might_take(claim, request, pods, self.tally, nodes)

    def might_take_as_of_now(self, plea: Plea) -> bool:
        """The same, whom he may take looked at anew: what is kept of that may be more than it is by now."""
        self.prospects.look_anew(plea.claim)
        return self.prospects.any_at_once(plea.claim) and self.might_take(
            plea.claim, plea.request, plea.pods, lambda: plea.closed
        )

    def group_might_do(self, group: Group, request: PodRequest, pods: int) -> bool:
        """Whether a group might make room, if all of it went; false only if it certainly does not."""
        return self.prospects.group_might_do(group, request, pods, self.tally)

    def are_hopeless(self, leaf: int, sorts: Sequence[Sort]) -> bool:
        """Whether certainly none of the elastic newcomers of a leaf, of these sorts, would find victims, ceilings
        aside."""
        return self.prospects.are_hopeless(leaf, sorts, self.tally)

    def among(self, standings: Iterable[Standing]) -> Roster:
        """A roster of a few workloads only."""
        return Roster(
            self.ledger, self.preemption_policy.accounts.tree, {each.workload.id: each for each in standings}
        )


@dataclass(frozen=True, slots=True)
class Plea:
    """A newcomer that asks for victims: who it is, what its pods ask, how many must start, which nodes are not for
    it, and up to which priority it may have victims at all (``None``: any)."""

    claim: Claim
    request: PodRequest
    pods: int
    closed: frozenset[int]
    highest_victim: int | None

    def may_take(self, standing: Standing) -> bool:
        """Whether the workload's priority is not too high."""
        return self.highest_victim is None or standing.workload.priority <= self.highest_victim

    def ceiling_passed(self, court: Court, leaving: Mapping[int, int] = NOTHING_LEAVES) -> Ceiling | None:
        """The ceiling it would pass if so much (by branch) left for it."""
        claim = self.claim
        return court.charges.ceiling_passed(claim.leaf, claim.milli, reserved=claim.reserved, leaving=leaving)
