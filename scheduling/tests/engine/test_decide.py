"""Several pools, oversubscription, figures, and the whole."""

from __future__ import annotations

from dataclasses import replace

from scheduling.engine import Plan, State, TypicalRequest, decide, schedule
from scheduling.tests.engine.build import (
    NOW,
    node,
    placed,
    plan,
    pool,
    preempted,
    snapshot,
    started,
    team,
    waiting,
    waits,
)

A = [team("a")]
BOTH = (pool("main"), pool("spare"))


def pools_of(found: Plan) -> dict[str, str]:
    return {start.workload: start.pool for start in found.starts}


def test_of_several_pools_the_first_in_which_it_fits_without_victims() -> None:
    nodes = [node("m0", 1), node("s0", 1, pool="spare")]
    busy = placed("busy", "a", on="m0:0", priority=1)
    found = plan(nodes, A, [busy, waiting("w", "a", priority=90)], *BOTH)
    assert (pools_of(found), preempted(found)) == ({"w": "spare"}, set())


def test_his_own_order_of_pools_counts() -> None:
    nodes = [node("m0", 1), node("s0", 1, pool="spare")]
    assert pools_of(plan(nodes, A, [waiting("w", "a", pools=("spare", "main"))], *BOTH)) == {"w": "spare"}


def test_else_the_pool_with_the_fewest_victims() -> None:
    nodes = [node("m0", 2), node("s0", 2, pool="spare")]
    rows = [placed("m1", "a", on="m0:0", priority=1), placed("m2", "a", on="m0:1", priority=1)]
    rows += [placed("s", "a", 2, on="s0:0,1", priority=1, pool="spare"), waiting("w", "a", 2, priority=90)]
    found = plan(nodes, A, rows, *BOTH)
    assert (pools_of(found), preempted(found)) == ({"w": "spare"}, {"s"})


def test_else_it_waits_where_it_could_start_first() -> None:
    nodes = [node("m0", 1), node("s0", 1, pool="spare")]
    rows = [placed("m", "a", on="m0:0", limit=90), placed("s", "a", on="s0:0", limit=40, pool="spare")]
    found = plan(nodes, A, [*rows, waiting("w", "a")], *BOTH)
    assert [(wait.pool, wait.position) for wait in found.waits] == [("spare", 1)]
    assert [row.pool for row in found.reservations] == ["spare"]


def test_its_turn_comes_after_those_ahead_of_it_in_each_pool() -> None:
    nodes = [node("m0", 1), node("s0", 1, pool="spare")]
    rows = [waiting("both", "a", priority=20), waiting("main", "a", priority=90, pools=("main",))]
    assert pools_of(plan(nodes, A, rows, *BOTH)) == {"main": "main", "both": "spare"}


def test_workloads_that_wait_for_each_others_turn_do_not_wait_for_ever() -> None:
    """x leads in main, y in spare: whoever comes first by the common keys goes on."""
    nodes = [node("m0", 1), node("s0", 1, pool="spare")]
    teams = [team("a", weight=9), team("b", weight=1)]
    rows = [waiting("x", "a"), waiting("y", "b", submitted=90)]
    assert set(pools_of(plan(nodes, teams, rows, *BOTH))) == {"x", "y"}


def test_a_pool_nobody_knows_is_a_reason() -> None:
    assert waits(plan([node("n0")], A, [waiting("w", "a", pools=("gone",))])) == {"w": "no-matching-nodes"}


def test_guarantees_above_capacity_are_legal_and_said() -> None:
    """A node died: reserved work is admitted in order until the GPUs run out."""
    teams = [team("a", reserved=2), team("b", reserved=2)]
    rows = [
        placed("old", "a", on="n0:0", priority=100),
        waiting("first", "b", priority=120),
        waiting("second", "a", priority=110),
    ]
    found = plan([node("n0", 2), node("n1", 2, ready=False)], teams, rows)
    assert (started(found), waits(found)) == ({"first"}, {"second": "waiting-for-gpus"})
    assert found.pools[0].oversubscribed
    assert [finding.code for finding in found.findings] == ["oversubscribed"]


def test_an_excess_left_by_an_edit_is_said_and_goes_by_attrition() -> None:
    rows = [placed("x", "a", 3, on="n0:0,1,2"), waiting("w", "a")]
    found = plan([node("n0")], [team("a", maximum=2)], rows)
    assert [keep.workload for keep in found.keeps] == ["x"]
    assert [(finding.code, finding.team) for finding in found.findings] == [("above-ceiling", "a")]


def test_figures_are_those_after_the_plan_but_demand_and_entitlement() -> None:
    rows = [placed("x", "a", 2, on="n0:0,1", priority=100), waiting("w", "a", 3)]
    found = plan([node("n0", 4)], [team("a", reserved=2, maximum=8)], rows)
    figures = found.teams[0]
    assert (figures.guarantee_milli, figures.ceiling_milli) == (2_000, 8_000)
    assert (figures.in_use_milli, figures.reserved_in_use_milli) == (2_000, 2_000)
    assert (figures.demand_milli, figures.entitlement_milli) == (5_000, 4_000)


def test_fragmentation_is_what_typical_requests_could_not_use() -> None:
    """Of 6 free GPUs the 2 on n1 are of no use to a request of 4."""
    typical = replace(pool(), recent=(TypicalRequest(4_000, 1.0), TypicalRequest(1_000, 1.0)))
    busy = placed("x", "a", 2, on="n1:0,1")
    found = plan([node("n0", 4), node("n1", 4)], A, [busy], typical)
    assert found.pools[0].fragmentation == 2 / 6 / 2


def test_scheduling_is_deciding_on_the_state_of_a_snapshot_and_changes_neither() -> None:
    world = snapshot(
        [node("n0", 1)], A, [placed("x", "a", on="n0:0", priority=1), waiting("w", "a", priority=9)]
    )
    state = State.of(world)
    assert decide(state, NOW) == decide(state, NOW) == schedule(world, NOW)
