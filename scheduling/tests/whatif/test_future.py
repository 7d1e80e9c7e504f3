"""Cycles in a row: victims come back, what settles ends, and one oracle tells what a fresh one would."""

import pytest

from scheduling.engine import Snapshot
from scheduling.tests.engine.build import NOW, node, placed, snapshot, team, waiting
from scheduling.whatif import future as futures
from scheduling.whatif.future import Future, Oracle


def chain() -> Snapshot:
    """Three priorities on three kinds of nodes: each that is preempted preempts the next one, on another node."""
    rows = [
        waiting("top", "acme", 8, priority=90, node_selector=(("a", "1"),)),
        placed("high", "acme", 8, on="n0:0,1,2,3,4,5,6,7", priority=70),
        placed("low", "acme", 8, on="n1:0,1,2,3,4,5,6,7", priority=50),
        placed("least", "acme", 8, on="n2:0,1,2,3,4,5,6,7", priority=60),
    ]
    return snapshot([node("n0", labels={"a": "1"}), node("n1"), node("n2")], [team("acme")], rows)


def told(future: Future) -> list[tuple[set[str], set[str]]]:
    """Return who starts and who yields in each cycle."""
    return [
        ({start.workload for start in plan.starts}, {gone.workload for gone in plan.preemptions})
        for plan in future.plans
    ]


def future_of(rows: Snapshot) -> Future:
    return Oracle(rows).future(rows, NOW)


def test_a_victim_preempts_in_the_next_cycle_until_nobody_yields() -> None:
    found = future_of(chain())

    assert told(found) == [({"top"}, {"high"}), ({"high"}, {"low"}), (set(), set())]
    assert found.settled


def test_a_cycle_without_victims_is_the_last_one() -> None:
    found = future_of(snapshot([node("n0")], [team("acme")], [waiting("w", "acme", 2)]))

    assert told(found) == [({"w"}, set())]
    assert found.settled


def test_no_more_cycles_are_followed_than_the_bound_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(futures, "MOST_CYCLES", 2)

    found = future_of(chain())

    assert (len(found.plans), found.settled) == (2, False)


def test_a_large_organisation_is_followed_for_two_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(futures, "LARGE", 3)

    assert len(future_of(chain()).plans) == futures.CYCLES_OF_LARGE


def test_an_oracle_that_told_another_future_tells_the_same_as_a_fresh_one() -> None:
    rows = chain()
    other = snapshot(rows.nodes[:2], rows.teams, [*rows.workloads[:3], waiting("more", "acme", 1)])
    oracle = Oracle(rows)
    oracle.future(rows, NOW)

    assert oracle.future(other, NOW) == future_of(other)
    assert oracle.future(rows, NOW) == future_of(rows)


def test_a_future_stays_what_it_was_whatever_the_oracle_is_asked_next() -> None:
    rows = snapshot([node("n0")], [team("acme"), team("nlp", "acme")], [waiting("w", "nlp", 2)])
    given = snapshot(rows.nodes, [rows.teams[0], team("nlp", "acme", reserved=4)], rows.workloads)
    oracle = Oracle(rows)
    before, after = oracle.future(rows, NOW), oracle.future(given, NOW)

    assert [row.guarantee_milli for row in before.plans[0].teams] == [0, 0]
    assert [row.guarantee_milli for row in after.plans[0].teams] == [4000, 4000]
