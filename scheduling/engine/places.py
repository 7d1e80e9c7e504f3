"""The places in which a newcomer's victims could be chosen: devices, nodes, domains (section 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from scheduling.engine.bounds import FREE, Bound
from scheduling.engine.capacity import Capacity, Tally
from scheduling.engine.court import Court, Plea
from scheduling.engine.placement.domains import Domain
from scheduling.engine.placement.node_eligibility import Usable
from scheduling.engine.quota.tree import ROOT
from scheduling.engine.standing import Standing

Place = tuple[Bound, Domain, list[Standing]]
"""What victims there cost at least, the place, and whom the newcomer might take for it."""


class Hearing:
    """Whom a newcomer could take, and where.

    ``under`` are those below the ceiling that he passes: wherever they lie, they may have to go. ``anywhere``: he
    could take just anybody.
    """

    def __init__(self, court: Court, plea: Plea) -> None:
        self.court = court
        self.plea = plea
        self._cases: dict[tuple[int, int], tuple[bool, bool]] = {}
        self._tree = court.preemption_policy.accounts.tree
        passed = plea.ceiling_passed(court)
        self._limited = passed is not None
        self.under: list[Standing] = []
        if passed is not None:
            roster = court.roster
            below = [each for cell in roster.cells(passed.branch) for each in roster.of(cell)]
            self.under = [each for each in below if plea.may_take(each)]
        self.anywhere = plea.claim.reserved or self._limited
        self._group = court.prospects.group(plea.claim)
        self._anybody_under = any(self.lawful(each) for each in self.under)

    def places(self, widest: Tally) -> Iterator[Place]:
        """The places that could do if all candidates there went, the least bound first.

        A single pod looks for a device or node, a gang for a domain. Where nobody is a lawful victim to begin with,
        there is no place.
        """
        yield from _domains(self, widest) if self.plea.pods > 1 else _nodes(self, widest)

    def ranks(self) -> set[int] | None:
        """The nodes of those whom he could ever take; ``None``, if that is just anybody."""
        if self.anywhere:
            return None
        groups = self._group.alone()
        return {rank for group in groups for rank in group.ranks(self.court.roster)}

    def _leaving(self, standings: Iterable[Standing]) -> dict[int, int]:
        """What goes of each branch when these go."""
        leaving: dict[int, int] = {}
        for each in standings:
            for branch in (ROOT, *self._tree.paths[each.leaf]):
                leaving[branch] = leaving.get(branch, 0) + each.milli
        return leaving

    def lawful(self, standing: Standing) -> bool:
        """Whether he may take the workload before he has taken anybody else."""
        return self._case(standing)[0]

    def _ever(self, standing: Standing) -> bool:
        """Whether he may take it when everybody else has left whom he could take."""
        return self._case(standing)[1]

    def _case(self, standing: Standing) -> tuple[bool, bool]:
        key = (standing.leaf, standing.workload.priority)
        found = self._cases.get(key)
        if found is None:
            rule, me, other = self.court.preemption_policy.rule, self.plea.claim, standing.claim()
            may = self.plea.may_take(standing)
            lawful = may and rule(me, other, {}) is not None
            ever = lawful or bool(self.under) or self._group.has(standing, self._tree)
            found = self._cases[key] = (lawful, may and ever)
        return found

    def on(self, rank: int) -> list[Standing]:
        """Whom he could take on a node: nobody, if none of them is lawful to begin with."""
        there = [pods[0][0] for pods in self.court.roster.on(rank)]
        if self._anybody_under or any(self.lawful(each) for each in there):
            return [each for each in there if self._ever(each)]
        return []

    def serve(self, rank: int, at: int, needed: int) -> bool:
        """Whether those on one device would make room on it, all of them gone."""
        if self.anywhere:
            return True
        there = [
            (pods[0][0], milli)
            for pods in self.court.roster.on(rank)
            for _, _, picks in pods
            for position, milli in picks
            if position == at and self._ever(pods[0][0])
        ]
        if not any(self.lawful(each) for each, _ in there):
            return False
        leaving = self._leaving({each.workload.id: each for each, _ in there}.values())
        rule, me = self.court.preemption_policy.rule, self.plea.claim
        willing = [milli for each, milli in there if rule(me, each.claim(), leaving, {}) is not None]
        return self.court.ledger.later.free[rank].gpu[at] + sum(willing) >= needed

    def and_under(self, nearby: Iterable[Standing]) -> list[Standing]:
        """These and those under the ceiling, each once."""
        return list({each.workload.id: each for each in (*nearby, *self.under)}.values())


def _domains(hearing: Hearing, widest: Tally) -> Iterator[Place]:
    """The domains of a level, if there are several."""
    court, plea = hearing.court, hearing.plea
    found = []
    for place in widest.domains if len(widest.domains) > 1 else ():
        there = {
            pods[0][0].workload.id: pods[0][0]
            for rank, _ in court.ledger.nodes.ranks(place)
            for pods in court.roster.on(rank)
            if plea.may_take(pods[0][0])
        }
        nearby = hearing.and_under(there.values())
        bound = _bound(court, plea, place, list(there.values()))
        if bound is not None and any(hearing.lawful(each) for each in nearby):
            found.append((bound, place, nearby))
    yield from sorted(found, key=lambda entry: (entry[0], entry[1].key))


def _bound(court: Court, plea: Plea, place: Domain, nearby: Iterable[Standing]) -> Bound | None:
    """The tier up to which the candidates of a place must go at least, ``None`` if even all of them are not
    enough."""
    tally = Tally(court.ledger, plea.request, [place])
    capacity = Capacity(court.ledger, plea.request, plea.pods, tally, plea.closed)
    tier = FREE[0]
    gone: dict[str, set[int]] = {}
    units = [unit for each in nearby for unit in each.units(court.ledger)]
    for unit in sorted(units, key=lambda unit: unit.tier):
        if capacity.enough:
            break
        taken = gone.setdefault(unit.standing.workload.id, set())
        capacity.change(unit.without(frozenset(taken)) if taken else unit, 1)
        taken.update(pod.pod_index for pod in unit.pods)
        tier = unit.tier
    return (tier, 0) if capacity.enough else None


def _nodes(hearing: Hearing, widest: Tally) -> Iterator[Place]:
    """The nodes of all domains and their devices."""
    court, plea = hearing.court, hearing.plea
    for bound, rank in court.bounds.by_cost(plea.request, plea.highest_victim, hearing.ranks()):
        if rank in widest.where and rank not in plea.closed:
            nearby = hearing.on(rank)
            if nearby:
                number, costs = widest.where[rank]
                for place in _single_places(hearing, widest.domains[number], (rank, costs), nearby):
                    yield bound, place, hearing.and_under(nearby) if hearing.under else nearby


def _single_places(
    hearing: Hearing, domain: Domain, node: tuple[int, Sequence[int]], nearby: list[Standing]
) -> Iterator[Domain]:
    """Where one pod could lie on a node (rank and costs) if these went: on the node, or on any of its devices if it
    needs no more than one."""
    (rank, costs), request, court = node, hearing.plea.request, hearing.court
    bounds = court.bounds.of_devices(rank, costs, nearby.__contains__)
    if sum(bound is not None for bound in bounds) < max(request.whole, 1):
        return
    key = (*domain.key, court.ledger.nodes.rows[rank].id)
    kind = court.ledger.nodes.class_of[rank]
    if request.whole > 1 or request.cpu_milli or request.memory_mib:
        yield Domain(key, (Usable(kind, tuple(costs), uniform=False),), rank)
    if request.whole <= 1:
        for at, (cost, bound) in enumerate(zip(costs, bounds, strict=True)):
            if bound is not None and hearing.serve(rank, at, cost):
                only = tuple(cost if each == at else 0 for each in range(len(costs)))
                yield Domain((*key, f"{at:04d}"), (Usable(kind, only, uniform=False),), rank)
