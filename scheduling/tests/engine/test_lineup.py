"""A search goes down into few branches: it finds what it would find if it had looked into all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from scheduling.acceleration.indexed_pods import IndexedPods
from scheduling.acceleration.infeasible_searches import InfeasibleSearches
from scheduling.acceleration.kept_search import KeptSearch
from scheduling.engine import RESERVED_PRIORITY, ElasticPreemption, OpenStatus, schedule
from scheduling.engine.preemption.policy import WorkloadClaim
from scheduling.engine.preemption.search import Search
from scheduling.engine.preemption.victims import Tier, Victim
from scheduling.tests.engine.build import NOW
from scheduling.tests.proof.fair import shared


def test_the_next_victim_is_the_one_found_by_looking_into_all_branches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, found = KeptSearch._next, 0

    def judged(search: KeptSearch) -> Victim | None:
        nonlocal found
        victim = original(search)
        above = search._policy.above
        for branch, ratio in search._above_by.items():
            assert ratio == above(branch, search._preemptor, search._leaving)
        others = (each for tier in search._tiers if (each := _next_of(search, tier)) is not None)
        assert victim is next(others, None)
        found += victim is not None and bool(search._chosen)
        return victim

    monkeypatch.setattr(KeptSearch, "_next", judged)
    for seed in range(300):
        schedule(shared(Random(seed)), NOW)
    assert found > 10


def _next_of(search: Search, tier: Tier) -> Victim | None:
    """The first lawful victim of a tier, from the first ones of all leaves up."""
    tree, tier_index, passed = search._tree, search._index.of_tier(tier), search._passed()
    victims: dict[int, Victim] = {}
    for leaf in search._tree.leaf_of.values():
        below = passed is not None and passed in tree.paths[leaf]
        if below or not search._capacity.enough:
            there = (
                victim for victim in tier_index.of_leaf(leaf) if search._serves(victim, any_will_do=below)
            )
            victim = next(there, None)
            if victim is not None:
                victims[leaf] = victim
    me, preemption_policy = search._preemptor, search._context.preemption_policy
    mode = preemption_policy.policy.elastic_preemption
    if me.reserved or (mode is ElasticPreemption.PRIORITY and tier[2] < me.priority):
        return _down(search, victims, victims)
    fair = preemption_policy.fair_branches(me, search._leaving, tree.beside(me.leaf))
    lawful = {branch for level in fair for branch in level}
    if mode is ElasticPreemption.FAIR_SHARE and tier[2] < me.priority:
        lawful.add(me.leaf)
    return _down(search, victims, [leaf for leaf in victims if lawful & set(tree.paths[leaf])])


def _down(search: Search, victims: Mapping[int, Victim], leaves: Iterable[int]) -> Victim | None:
    """Of these leaves that one's which lies in the branches most above their entitlements."""
    paths, depth = search._tree.paths, 0
    left = list(leaves)
    while left:
        if paths[left[0]][-1:] == paths[left[0]][depth - 1 : depth] and depth:
            return victims[left[0]]
        lowest = {
            branch: min(victims[leaf].key for leaf in left if paths[leaf][depth] == branch)
            for branch in {paths[leaf][depth] for leaf in left}
        }
        above = search._context.preemption_policy.above
        best = min(lowest, key=lambda each: (-above(each, search._preemptor, search._leaving), lowest[each]))
        left = [leaf for leaf in left if paths[leaf][depth] == best]
        depth += 1
    return None


def test_a_unit_that_makes_others_eligible_is_kept_as_by_judging_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, told = KeptSearch._may_take, {True: 0, False: 0}

    def judged(search: KeptSearch, victims: Sequence[Victim]) -> bool:
        found = original(search, victims)
        assert found is (search._joint.rules(victims) is not None)
        told[found] += 1
        return found

    monkeypatch.setattr(KeptSearch, "_may_take", judged)
    for seed in range(600):
        schedule(shared(Random(seed)), NOW)
    assert min(told.values()) > 0


def schedule_crowds() -> None:
    """Work out plans for worlds where six of each sort wait."""
    for seed in range(300):
        world = shared(Random(seed))
        pending = [row for row in world.workloads if row.status is OpenStatus.PENDING]
        more = [replace(row, id=f"{row.id}-{number}") for row in pending for number in range(5)]
        schedule(replace(world, workloads=(*world.workloads, *more)), NOW)


def test_answers_that_are_remembered_are_those_of_another_look(monkeypatch: pytest.MonkeyPatch) -> None:
    original, remembered = InfeasibleSearches.might_take, 0

    def judged(searches: InfeasibleSearches, *preemptor: object) -> bool:
        nonlocal remembered
        before = (dict(searches._infeasible), dict(searches._found))
        found = original(searches, *preemptor)  # type: ignore[arg-type]
        kept = (searches._infeasible, searches._found)
        remembered += kept == before
        searches._infeasible, searches._found = {}, {}
        assert found is original(searches, *preemptor)  # type: ignore[arg-type]
        searches._infeasible, searches._found = kept
        return found

    monkeypatch.setattr(InfeasibleSearches, "might_take", judged)
    schedule_crowds()
    assert remembered > 20


def test_who_is_known_to_find_nobody_finds_nobody_at_another_look(monkeypatch: pytest.MonkeyPatch) -> None:
    original, known = InfeasibleSearches.known_infeasible, {"no place": 0, "nobody": 0}

    def judged(searches: InfeasibleSearches, *kind: Any) -> frozenset[int] | None:
        closed = original(searches, *kind)
        leaf, priority, milli, request, pods = kind
        if closed is None:
            return None
        fresh = InfeasibleSearches(
            searches._ledger, searches._reachable._preemption_policy, searches._eligible
        )
        claim = WorkloadClaim("w", leaf, priority, priority >= RESERVED_PRIORITY, milli)
        if fresh.any_at_once(claim):
            ledger = searches._ledger
            tally = IndexedPods(ledger, request, ledger.nodes.domains(request)[-1])
            assert not fresh.might_take(claim, request, pods, lambda _: tally, closed)
            known["no place"] += 1
        else:
            known["nobody"] += 1
        return closed

    monkeypatch.setattr(InfeasibleSearches, "known_infeasible", judged)
    schedule_crowds()
    assert min(known.values()) > 5, known
