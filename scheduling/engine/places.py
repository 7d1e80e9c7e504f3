"""The places in which a newcomer's victims could be chosen: devices, nodes, domains (section 7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduling.engine.ask import Ask
from scheduling.engine.capacity import Capacity
from scheduling.engine.court import Court, Plea
from scheduling.engine.fleet import Domain, Usable
from scheduling.engine.ledger import Ledger
from scheduling.engine.standing import Standing, Tier, units_of


def places_for(
    court: Court, plea: Plea, widest: Sequence[Domain], candidates: Sequence[Standing]
) -> list[tuple[Tier, Domain, list[Standing]]]:
    """The places that would do if all candidates there went, with those candidates, and a bound of the dearest one's
    tier; cheapest bound first, then by key. A single pod looks for a device or node, a gang for a domain."""
    passed = plea.ceiling_passed(court)
    paths = court.rights.accounts.tree.paths
    under = [each for each in candidates if passed and passed.branch in paths[each.leaf]]
    on_rank = _by_rank(court.ledger, candidates)
    if plea.pods > 1:
        places = list(widest) if len(widest) > 1 else []
    else:
        ranks = frozenset(on_rank) - plea.closed
        places = [
            place for domain in widest for place in _single_places(court.ledger, plea.ask, domain, ranks)
        ]
    found = []
    for place in places:
        there = court.ledger.fleet.ranks(place)
        nearby = {each.workload.id: each for rank, _ in there for each in on_rank.get(rank, ())}
        bound = _bound(court, plea, place, list(nearby.values()))
        if bound is not None:
            nearby.update((each.workload.id, each) for each in under)
            found.append((bound, place, list(nearby.values())))
    return sorted(found, key=lambda entry: (entry[0], entry[1].key))


def _single_places(ledger: Ledger, ask: Ask, domain: Domain, ranks: frozenset[int]) -> Iterable[Domain]:
    """Where one pod may lie: each of these nodes in a domain, or each of their devices if it needs no more than
    one."""
    for rank, costs in ledger.fleet.ranks(domain):
        if rank not in ranks:
            continue
        key = (*domain.key, ledger.fleet.nodes[rank].id)
        kind = ledger.fleet.kind_of[rank]
        if ask.whole > 1 or ask.cpu_milli or ask.memory_mib:
            yield Domain(key, (Usable(kind, costs, uniform=False),), rank)
        if ask.whole <= 1:
            for at, cost in enumerate(costs):
                if cost:
                    only = tuple(cost if each == at else 0 for each in range(len(costs)))
                    yield Domain((*key, f"{at:04d}"), (Usable(kind, only, uniform=False),), rank)


def _by_rank(ledger: Ledger, candidates: Iterable[Standing]) -> dict[int, list[Standing]]:
    """Who has pods on which node."""
    found: dict[int, dict[str, Standing]] = {}
    for standing in candidates:
        for pod in standing.pods:
            rank = ledger.fleet.rank.get(pod.node)
            if rank is not None:
                found.setdefault(rank, {})[standing.workload.id] = standing
    return {rank: list(standings.values()) for rank, standings in found.items()}


def _bound(court: Court, plea: Plea, place: Domain, nearby: Iterable[Standing]) -> Tier | None:
    """The tier up to which the candidates of a place must go at least, ``None`` if even all of them are not
    enough."""
    capacity = Capacity(court.ledger, plea.ask, [place], plea.closed)
    tier: Tier = (False, 0, 0)
    gone: dict[str, set[int]] = {}
    for unit in sorted(
        (unit for each in nearby for unit in units_of(court.ledger, each)), key=lambda unit: unit.tier
    ):
        if capacity.holds(plea.pods):
            break
        taken = gone.setdefault(unit.standing.workload.id, set())
        capacity.change(unit.without(court.ledger, frozenset(taken)) if taken else unit, 1)
        taken.update(pod.pod_index for pod in unit.pods)
        tier = unit.tier
    return tier if capacity.holds(plea.pods) else None
