"""What a search for victims looks at, and the preemptor for which it is made (section 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduling.acceleration.cost_bounds import CostBounds
from scheduling.acceleration.eligible_victims import EligibleVictims
from scheduling.acceleration.indexed_pods import IndexedPods
from scheduling.acceleration.infeasible_searches import InfeasibleSearches
from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.acceleration.kept_search import KeptSearch
from scheduling.acceleration.victim_groups import NOWHERE, VictimGroup
from scheduling.acceleration.waiting_index import PreemptorKind
from scheduling.engine.placement.ledger import HeldPods
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.preemption.policy import WorkloadClaim
from scheduling.engine.preemption.search import PreemptionContext, PreemptionRequest
from scheduling.engine.preemption.victim_index import VictimIndex


def nowhere() -> frozenset[int]:
    """No node."""
    return NOWHERE


@dataclass(slots=True)
class SearchContext(PreemptionContext):
    """What the searches of a pool for one sort of preemptors look at: reserved ones, or elastic ones. Nothing of it
    changes while one searches; between two searches it is kept up to date, not built anew."""

    ledger: KeptLedger
    eligible: EligibleVictims
    tallies: dict[PodRequest, IndexedPods]
    bounds: CostBounds
    searches: InfeasibleSearches

    def search(self, request: PreemptionRequest, held: HeldPods, index: VictimIndex) -> KeptSearch:
        """A search among these workloads, in the domains of which ``held`` counts the pods."""
        return KeptSearch(self, request, held, index)

    def tally(self, request: PodRequest) -> IndexedPods | None:
        """How many pods of the request the domains of its widest level hold; ``None`` if it has no domain."""
        found = self.tallies.get(request)
        if found is None:
            levels = self.ledger.nodes.domains(request)
            if not levels:
                return None
            found = self.tallies[request] = IndexedPods(self.ledger, request, levels[-1])
        return found.refresh()

    def might_take(
        self,
        claim: WorkloadClaim,
        request: PodRequest,
        pods: int,
        closed: Callable[[], frozenset[int]] = nowhere,
    ) -> bool:
        """Whether a preemptor that may take some workload might find victims enough, on nodes that are not ``closed``,
        as things stand; false only if it certainly finds none."""
        passed = self.charges.ceiling_passed(claim.leaf, claim.milli, reserved=claim.reserved)
        if passed is not None:
            return self.searches.most_below(claim, passed.branch) >= passed.excess
        if not self.searches.might_take(claim, request, pods, self.tally):
            return False
        nodes = closed()
        return not nodes or self.searches.might_take(claim, request, pods, self.tally, nodes)

    def might_take_as_of_now(self, preemptor: PreemptionRequest) -> bool:
        """The same, what it may take looked at anew: what is kept of that may be more than it is by now."""
        self.searches.look_anew(preemptor.claim)
        return self.searches.any_at_once(preemptor.claim) and self.might_take(
            preemptor.claim, preemptor.request, preemptor.pods, lambda: preemptor.closed
        )

    def group_might_do(self, group: VictimGroup, request: PodRequest, pods: int) -> bool:
        """Whether a group might make room, if all of it went; false only if it certainly does not."""
        return self.searches.group_might_do(group, request, pods, self.tally)

    def are_infeasible(self, leaf: int, kinds: Sequence[PreemptorKind]) -> bool:
        """Whether certainly none of the elastic preemptors of a leaf, of these kinds, would find victims, ceilings
        aside."""
        return self.searches.are_infeasible(leaf, kinds, self.tally)
