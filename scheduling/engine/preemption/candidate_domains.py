"""Candidate domains: where a preemptor's victims are chosen, anywhere or in one place (section 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from scheduling.engine.placement.domains import Domain
from scheduling.engine.placement.ledger import HeldPods
from scheduling.engine.placement.node_eligibility import Usable
from scheduling.engine.preemption.search import PreemptionContext, PreemptionRequest, VictimSet
from scheduling.engine.preemption.victim_index import VictimIndex
from scheduling.engine.preemption.victims import PlacedWorkload, Tier

Bound = tuple[Tier, int]
"""A tier and GPU-milliseconds: the dearest victim of any set that would do is of no lower tier; where it is of this
one, no less is lost."""
FREE: Bound = ((False, 0, 0), 0)
"""The bound that claims nothing."""


class CandidateDomain(NamedTuple):
    """A place, what victims there cost at least, and the workloads that might be victims for it."""

    bound: Bound
    domain: Domain
    nearby: Sequence[PlacedWorkload]


def find_victims(
    context: PreemptionContext,
    request: PreemptionRequest,
    widest: HeldPods,
    anywhere: VictimIndex,
    places: Iterable[CandidateDomain],
) -> VictimSet | None:
    """The victims whose departure lets the preemptor start, ``None`` if the policy gives it none that would do.

    First by the plain order, in the ``widest`` domains. Where that takes more than one, or none serves, also in each
    place that would do, the one with the lowest bound first; the cheapest set wins, and of equal ones the first by the
    key of its place. Of that set those are spared without which the preemptor fits elsewhere.
    """
    best = context.search(request, widest, anywhere).run()
    if best is not None and len(best.victims) == 1:
        return best
    where: tuple[str, ...] = ()
    for bound, place, nearby in places:
        if best is not None and bound > best.cost[:2]:
            break
        held = HeldPods(context.ledger, request.request, [place])
        found = context.search(request, held, among(context, nearby)).run()
        if found is None or (best is not None and (best.cost, where) <= (found.cost, place.key)):
            continue
        best, where = found, place.key
    if best is not None and where and len(best.victims) > 1:
        return spared_elsewhere(context, request, widest, best)
    return best


def spared_elsewhere(
    context: PreemptionContext, request: PreemptionRequest, widest: HeldPods, victims: VictimSet
) -> VictimSet:
    """The victims of a place, less those without which the preemptor fits elsewhere."""
    few = among(context, victims.placed_workloads)
    return context.search(request, widest, few).run(victims.victims) or victims


def among(context: PreemptionContext, placed_workloads: Iterable[PlacedWorkload]) -> VictimIndex:
    """What can be taken of a few workloads."""
    return VictimIndex(context.ledger, context.preemption_policy.accounts.tree, placed_workloads)


def candidate_domains(
    context: PreemptionContext,
    request: PreemptionRequest,
    widest: HeldPods,
    eligible: Iterable[PlacedWorkload],
) -> Iterator[CandidateDomain]:
    """The places for a preemptor: for a gang the domains, if there are several; for one pod each node, or each device
    where it needs no more than one.

    Workloads below a ceiling that the preemptor would pass may have to go wherever their pods are.
    """
    victims = [each for each in eligible if request.may_take(each)]
    tree, passed = context.preemption_policy.accounts.tree, request.ceiling_passed(context)
    under = [] if passed is None else [each for each in victims if passed.branch in tree.paths[each.leaf]]
    on_node: dict[int, list[PlacedWorkload]] = {}
    for each in victims:
        for rank in {rank for rank, _ in each.spots(context.ledger).values()}:
            on_node.setdefault(rank, []).append(each)
    if request.pods > 1:
        for domain in widest.domains if len(widest.domains) > 1 else ():
            there = [each for rank, _ in context.ledger.nodes.ranks(domain) for each in on_node.get(rank, ())]
            yield CandidateDomain(FREE, domain, _each_once([*there, *under]))
        return
    for rank, (number, costs) in widest.where.items():
        if rank in on_node and rank not in request.closed:
            nearby = _each_once([*on_node[rank], *under])
            for domain in places_on(context, request, widest.domains[number], rank, costs):
                yield CandidateDomain(FREE, domain, nearby)


def places_on(
    context: PreemptionContext,
    request: PreemptionRequest,
    domain: Domain,
    rank: int,
    costs: tuple[int, ...],
    *,
    serves: Callable[[int], bool] = lambda _: True,
) -> Iterator[Domain]:
    """The places for one pod on a node: the node, and each device that ``serves``, if one is enough."""
    pod, nodes = request.request, context.ledger.nodes
    key, number = (*domain.key, nodes.rows[rank].id), nodes.class_of[rank]
    if pod.whole > 1 or pod.cpu_milli or pod.memory_mib:
        yield Domain(key, (Usable(number, costs, uniform=False),), rank)
    if pod.whole <= 1:
        for at, cost in enumerate(costs):
            if cost and serves(at):
                only = tuple(cost if each == at else 0 for each in range(len(costs)))
                yield Domain((*key, f"{at:04d}"), (Usable(number, only, uniform=False),), rank)


def _each_once(placed_workloads: Iterable[PlacedWorkload]) -> list[PlacedWorkload]:
    return list({each.workload.id: each for each in placed_workloads}.values())
