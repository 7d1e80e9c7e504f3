"""Where a preemptor's victims are chosen: anywhere by the plain order, or in each place that would do (section 7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.acceleration.candidate_places import CandidatePlaces
from scheduling.acceleration.indexed_pods import IndexedPods
from scheduling.acceleration.search_context import SearchContext
from scheduling.acceleration.sweep import Sweep, Sweeps
from scheduling.engine.model.plan import Rule
from scheduling.engine.model.quantities import UNLIMITED
from scheduling.engine.model.snapshot import GPU_MILLI
from scheduling.engine.placement.domains import Domain
from scheduling.engine.placement.free import NodeFree, pods_in
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.preemption.candidate_domains import find_victims as victims_in_places
from scheduling.engine.preemption.candidate_domains import spared_elsewhere
from scheduling.engine.preemption.capacity import VictimCapacity
from scheduling.engine.preemption.search import PreemptionRequest, VictimSet
from scheduling.engine.preemption.victims import PlacedWorkload


def find_victims(context: SearchContext, preemptor: PreemptionRequest) -> VictimSet | None:
    """The victims whose departure lets the preemptor start, ``None`` if there are none.

    First by the plain order. Where that takes more than one, or none serves, and the preemptor needs one place (a
    device, a node, a domain), also in each place that would do; the cheapest set wins. Of that one
    those are spared without which the preemptor fits elsewhere.
    """
    widest = context.tally(preemptor.request)
    if widest is None:
        return None
    if (
        preemptor.claim.reserved
        and preemptor.pods > 1
        and len(widest.domains) > 1
        and preemptor.ceiling_passed(context) is None
    ):
        swept = _cheapest_domain(context, preemptor, widest)
        if swept is not None:
            return swept
    places = CandidatePlaces(context, preemptor).places(widest)
    return victims_in_places(context, preemptor, widest, context.eligible, places)


def _cheapest_domain(
    context: SearchContext, preemptor: PreemptionRequest, widest: IndexedPods
) -> VictimSet | None:
    """The cheapest victims inside one domain, for a gang that may take any; none, if one workload alone might do."""
    if _one_alone_would_do(context, preemptor, widest):
        return None
    most = context.searches.most_pods(preemptor.claim, preemptor.request, widest)
    ranks = context.ledger.nodes.ranks
    places = [
        place
        for place, pods in zip(widest.domains, most, strict=True)
        if pods >= preemptor.pods and any(rank not in preemptor.closed for rank, _ in ranks(place))
    ]
    best: Sweep | None = None
    for sweep in Sweeps(context, preemptor, places).by_bound() if places else ():
        if best is not None and (sweep.tier, sweep.least_lost()) > best.cost[:2]:
            continue
        if best is None or sweep.cost < best.cost:
            best = sweep
    if best is None:
        return None
    victims = best.victims()
    found = VictimSet(victims, (Rule.RESERVED,) * len(victims))
    if _would_do_elsewhere(context, preemptor, widest, best.place, best.placed_workloads):
        return spared_elsewhere(context, preemptor, widest, found)
    return found


def _would_do_elsewhere(
    context: SearchContext,
    preemptor: PreemptionRequest,
    widest: IndexedPods,
    place: Domain,
    few: Sequence[PlacedWorkload],
) -> bool:
    """Whether some of these workloads, all of them gone, could make room in another domain too, or others of their
    pods in the same."""
    if any(len(placed.pods) > placed.workload.min_pods for placed in few):
        return True
    capacity = VictimCapacity(context.ledger, preemptor.request, preemptor.pods, widest, preemptor.closed)
    rank_of, where = context.ledger.nodes.rank, widest.where
    for placed in few:
        lying = [where[rank][0] for pod in placed.pods if (rank := rank_of.get(pod.node, -1)) in where]
        if any(widest.domains[number] is not place for number in lying):
            capacity.change(placed.as_victims(context.ledger)[-1], 1)
    return any(widest.domains[number] is not place for number in capacity.ready)


def _all_of(costs: Sequence[int], request: PodRequest) -> list[int]:
    """At least what devices have on which a pod costs so much: a pod that takes whole ones, or a slice, pays for all of
    it."""
    return list(costs) if request.whole else [GPU_MILLI] * len(costs)


def _one_alone_would_do(context: SearchContext, preemptor: PreemptionRequest, widest: IndexedPods) -> bool:
    """Whether the departure of one workload could make room for all pods."""
    missing = preemptor.pods - max(widest.totals)
    most = max(
        pods_in(NodeFree(_all_of(costs, preemptor.request), UNLIMITED, UNLIMITED), costs, preemptor.request)
        for costs in {tuple(costs) for _, costs in widest.where.values()}
    )
    holdings = context.eligible.holdings
    many = np.flatnonzero(holdings.there & (holdings.owners.pods * most >= missing))
    for number in many.tolist():
        capacity = VictimCapacity(context.ledger, preemptor.request, preemptor.pods, widest, preemptor.closed)
        capacity.change(holdings.placed_workloads[number].as_victims(context.ledger)[-1], 1)
        if capacity.enough:
            return True
    return False
