"""Where a newcomer's victims are chosen: anywhere by the plain order, or in each place that would do (section 7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduling.engine.capacity import Capacity, Tally
from scheduling.engine.court import Court, Plea
from scheduling.engine.model.plan import Rule
from scheduling.engine.model.quantities import UNLIMITED
from scheduling.engine.model.snapshot import GPU_MILLI
from scheduling.engine.placement.domains import Domain
from scheduling.engine.placement.free import NodeFree, pods_in
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.places import Hearing
from scheduling.engine.search import Search, Victims
from scheduling.engine.standing import Standing
from scheduling.engine.sweep import Sweep, Sweeps


def find_victims(court: Court, plea: Plea) -> Victims | None:
    """The victims whose departure lets the newcomer start, ``None`` if nobody lawfully can.

    First by the plain order. Where that takes more than one, or none serves, and the newcomer needs one place (a
    device, a node, a domain), also in each place that would do; the cheapest set wins. Of that one
    those are spared without whom the newcomer fits elsewhere.
    """
    widest = court.tally(plea.request)
    if widest is None:
        return None
    if (
        plea.claim.reserved
        and plea.pods > 1
        and len(widest.domains) > 1
        and plea.ceiling_passed(court) is None
    ):
        swept = _cheapest_domain(court, plea, widest)
        if swept is not None:
            return swept
    hearing = Hearing(court, plea)
    best = Search(court, plea, widest, court.roster).run()
    if best is not None and len(best.units) == 1:
        return best
    where: tuple[str, ...] = ()
    for bound, place, nearby in hearing.places(widest):
        if best is not None and bound > best.cost[:2]:
            break
        tally = Tally(court.ledger, plea.request, [place])
        found = Search(court, plea, tally, court.among(nearby)).run()
        if found is None or (best is not None and (best.cost, where) <= (found.cost, place.key)):
            continue
        best, where = found, place.key
    if best is not None and where and len(best.units) > 1:
        return _spared_elsewhere(court, plea, widest, best)
    return best


def _cheapest_domain(court: Court, plea: Plea, widest: Tally) -> Victims | None:
    """The cheapest victims inside one domain, for a gang that may take anybody; none, if somebody alone might do."""
    if _anybody_alone(court, plea, widest):
        return None
    most = court.prospects.most_pods(plea.claim, plea.request, widest)
    ranks = court.ledger.nodes.ranks
    places = [
        place
        for place, pods in zip(widest.domains, most, strict=True)
        if pods >= plea.pods and any(rank not in plea.closed for rank, _ in ranks(place))
    ]
    best: Sweep | None = None
    for sweep in Sweeps(court, plea, places).by_bound() if places else ():
        if best is not None and (sweep.tier, sweep.least_lost()) > best.cost[:2]:
            continue
        if best is None or sweep.cost < best.cost:
            best = sweep
    if best is None:
        return None
    units = best.victims()
    found = Victims(units, (Rule.RESERVED,) * len(units))
    if _would_do_elsewhere(court, plea, widest, best.place, best.standings):
        return _spared_elsewhere(court, plea, widest, found)
    return found


def _would_do_elsewhere(
    court: Court, plea: Plea, widest: Tally, place: Domain, few: Sequence[Standing]
) -> bool:
    """Whether some of these workloads, all of them gone, could make room in another domain too, or others of their
    pods in the same."""
    if any(len(standing.pods) > standing.workload.min_pods for standing in few):
        return True
    capacity = Capacity(court.ledger, plea.request, plea.pods, widest, plea.closed)
    rank_of, where = court.ledger.nodes.rank, widest.where
    for standing in few:
        lying = [where[rank][0] for pod in standing.pods if (rank := rank_of.get(pod.node, -1)) in where]
        if any(widest.domains[number] is not place for number in lying):
            capacity.change(standing.units(court.ledger)[-1], 1)
    return any(widest.domains[number] is not place for number in capacity.ready)


def _spared_elsewhere(court: Court, plea: Plea, widest: Tally, victims: Victims) -> Victims:
    """The victims of a place, less those without whom the newcomer fits elsewhere."""
    return Search(court, plea, widest, court.among(victims.standings)).run(victims.units) or victims


def _all_of(costs: Sequence[int], request: PodRequest) -> list[int]:
    """At least what devices have on which a pod costs so much: who takes whole ones, or a slice, pays for all of it."""
    return list(costs) if request.whole else [GPU_MILLI] * len(costs)


def _anybody_alone(court: Court, plea: Plea, widest: Tally) -> bool:
    """Whether the departure of one workload could make room for all pods."""
    missing = plea.pods - max(widest.totals)
    most = max(
        pods_in(NodeFree(_all_of(costs, plea.request), UNLIMITED, UNLIMITED), costs, plea.request)
        for costs in {tuple(costs) for _, costs in widest.where.values()}
    )
    holdings = court.roster.holdings
    many = np.flatnonzero(holdings.there & (holdings.owners.pods * most >= missing))
    for number in many.tolist():
        capacity = Capacity(court.ledger, plea.request, plea.pods, widest, plea.closed)
        capacity.change(holdings.standings[number].units(court.ledger)[-1], 1)
        if capacity.enough:
            return True
    return False
