"""The places in which a preemptor's victims could be chosen: devices, nodes, domains (section 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from scheduling.acceleration.indexed_pods import IndexedPods
from scheduling.acceleration.search_context import SearchContext
from scheduling.engine.placement.domains import Domain
from scheduling.engine.placement.ledger import HeldPods
from scheduling.engine.preemption.candidate_domains import FREE, Bound, CandidateDomain, places_on
from scheduling.engine.preemption.capacity import VictimCapacity
from scheduling.engine.preemption.search import PreemptionRequest
from scheduling.engine.preemption.victims import PlacedWorkload
from scheduling.engine.quota.tree import ROOT


class CandidatePlaces:
    """What a preemptor could take, and where.

    ``under`` are those below the ceiling that it passes: wherever they lie, they may have to go. ``anywhere``: it
    could take any.
    """

    def __init__(self, context: SearchContext, preemptor: PreemptionRequest) -> None:
        self.context = context
        self.preemptor = preemptor
        self._cases: dict[tuple[int, int], tuple[bool, bool]] = {}
        self._tree = context.preemption_policy.accounts.tree
        passed = preemptor.ceiling_passed(context)
        self._limited = passed is not None
        self.under: list[PlacedWorkload] = []
        if passed is not None:
            eligible = context.eligible
            below = [each for cell in eligible.cells(passed.branch) for each in eligible.of(cell)]
            self.under = [each for each in below if preemptor.may_take(each)]
        self.anywhere = preemptor.claim.reserved or self._limited
        self._group = context.searches.group(preemptor.claim)
        self._any_under = any(self.is_eligible(each) for each in self.under)

    def places(self, widest: IndexedPods) -> Iterator[CandidateDomain]:
        """The places that could do if all candidates there went, the least bound first.

        A single pod looks for a device or node, a gang for a domain. Where no workload is an eligible victim to begin
        with, there is no place.
        """
        yield from _domains(self, widest) if self.preemptor.pods > 1 else _nodes(self, widest)

    def ranks(self) -> set[int] | None:
        """The nodes of those that it could ever take; ``None``, if that is any."""
        if self.anywhere:
            return None
        groups = self._group.alone()
        return {rank for group in groups for rank in group.ranks(self.context.eligible)}

    def _leaving(self, placed_workloads: Iterable[PlacedWorkload]) -> dict[int, int]:
        """What goes of each branch when these go."""
        leaving: dict[int, int] = {}
        for each in placed_workloads:
            for branch in (ROOT, *self._tree.paths[each.leaf]):
                leaving[branch] = leaving.get(branch, 0) + each.milli
        return leaving

    def is_eligible(self, placed: PlacedWorkload) -> bool:
        """Whether it may take the workload before it has taken any other."""
        return self._case(placed)[0]

    def _ever(self, placed: PlacedWorkload) -> bool:
        """Whether it may take it when every other has left that it could take."""
        return self._case(placed)[1]

    def _case(self, placed: PlacedWorkload) -> tuple[bool, bool]:
        key = (placed.leaf, placed.workload.priority)
        found = self._cases.get(key)
        if found is None:
            rule, me, other = self.context.preemption_policy.rule, self.preemptor.claim, placed.claim()
            may = self.preemptor.may_take(placed)
            eligible = may and rule(me, other, {}) is not None
            ever = eligible or bool(self.under) or self._group.has(placed, self._tree)
            found = self._cases[key] = (eligible, may and ever)
        return found

    def on(self, rank: int) -> list[PlacedWorkload]:
        """What it could take on a node: nothing, if none of them is eligible to begin with."""
        there = [pods[0][0] for pods in self.context.eligible.on(rank)]
        if self._any_under or any(self.is_eligible(each) for each in there):
            return [each for each in there if self._ever(each)]
        return []

    def serve(self, rank: int, at: int, needed: int) -> bool:
        """Whether those on one device would make room on it, all of them gone."""
        if self.anywhere:
            return True
        there = [
            (pods[0][0], milli)
            for pods in self.context.eligible.on(rank)
            for _, _, picks in pods
            for position, milli in picks
            if position == at and self._ever(pods[0][0])
        ]
        if not any(self.is_eligible(each) for each, _ in there):
            return False
        leaving = self._leaving({each.workload.id: each for each, _ in there}.values())
        rule, me = self.context.preemption_policy.rule, self.preemptor.claim
        willing = [milli for each, milli in there if rule(me, each.claim(), leaving, {}) is not None]
        return self.context.ledger.later.free[rank].gpu[at] + sum(willing) >= needed

    def and_under(self, nearby: Iterable[PlacedWorkload]) -> list[PlacedWorkload]:
        """These and those under the ceiling, each once."""
        return list({each.workload.id: each for each in (*nearby, *self.under)}.values())


def _domains(candidates: CandidatePlaces, widest: IndexedPods) -> Iterator[CandidateDomain]:
    """The domains of a level, if there are several."""
    context, preemptor = candidates.context, candidates.preemptor
    found = []
    for place in widest.domains if len(widest.domains) > 1 else ():
        there = {
            pods[0][0].workload.id: pods[0][0]
            for rank, _ in context.ledger.nodes.ranks(place)
            for pods in context.eligible.on(rank)
            if preemptor.may_take(pods[0][0])
        }
        nearby = candidates.and_under(there.values())
        bound = _bound(context, preemptor, place, list(there.values()))
        if bound is not None and any(candidates.is_eligible(each) for each in nearby):
            found.append(CandidateDomain(bound, place, nearby))
    yield from sorted(found, key=lambda entry: (entry[0], entry[1].key))


def _bound(
    context: SearchContext, preemptor: PreemptionRequest, place: Domain, nearby: Iterable[PlacedWorkload]
) -> Bound | None:
    """The tier up to which the candidates of a place must go at least, ``None`` if even all of them are not
    enough."""
    tally = HeldPods(context.ledger, preemptor.request, [place])
    capacity = VictimCapacity(context.ledger, preemptor.request, preemptor.pods, tally, preemptor.closed)
    tier = FREE[0]
    gone: dict[str, set[int]] = {}
    victims = [victim for each in nearby for victim in each.as_victims(context.ledger)]
    for victim in sorted(victims, key=lambda victim: victim.tier):
        if capacity.enough:
            break
        taken = gone.setdefault(victim.placed.workload.id, set())
        capacity.change(victim.without(frozenset(taken)) if taken else victim, 1)
        taken.update(pod.pod_index for pod in victim.pods)
        tier = victim.tier
    return (tier, 0) if capacity.enough else None


def _nodes(candidates: CandidatePlaces, widest: IndexedPods) -> Iterator[CandidateDomain]:
    """The nodes of all domains and their devices."""
    context, preemptor = candidates.context, candidates.preemptor
    for bound, rank in context.bounds.by_cost(
        preemptor.request, preemptor.highest_victim, candidates.ranks()
    ):
        if rank in widest.where and rank not in preemptor.closed:
            nearby = candidates.on(rank)
            if nearby:
                number, costs = widest.where[rank]
                for place in _single_places(candidates, widest.domains[number], (rank, costs), nearby):
                    yield CandidateDomain(
                        bound, place, candidates.and_under(nearby) if candidates.under else nearby
                    )


def _single_places(
    candidates: CandidatePlaces, domain: Domain, node: tuple[int, Sequence[int]], nearby: list[PlacedWorkload]
) -> Iterator[Domain]:
    """Where one pod could lie on a node (rank and costs) if these went: on the node, or on any of its devices if it
    needs no more than one."""
    (rank, costs), request, context = node, candidates.preemptor.request, candidates.context
    bounds = context.bounds.of_devices(rank, costs, nearby.__contains__)
    if sum(bound is not None for bound in bounds) < max(request.whole, 1):
        return

    def serves(at: int) -> bool:
        return bounds[at] is not None and candidates.serve(rank, at, costs[at])

    yield from places_on(context, candidates.preemptor, domain, rank, tuple(costs), serves=serves)
