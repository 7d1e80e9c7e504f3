"""Pods above the minimum."""

from __future__ import annotations

from dataclasses import replace

from scheduling.engine import OpenStatus, Plan, Queueing, Topology
from scheduling.tests.engine.build import node, placed, plan, pool, preempted, team, waiting, waits

A = [team("a")]


def pods(found: Plan) -> dict[str, int]:
    starts = {row.workload: len(row.placements) for row in found.starts}
    return starts | {row.workload: len(row.placements) for row in found.grows}


def test_a_gang_starts_with_its_minimum_and_grows_on_idle_gpus() -> None:
    found = plan([node("n0", 5)], A, [waiting("w", "a", pods=8, min_pods=3)])
    assert pods(found) == {"w": 5}


def test_everybody_who_can_start_does_before_anybody_grows() -> None:
    rows = [waiting("w", "a", pods=8, min_pods=1, submitted=99), waiting("x", "a", 2, priority=1)]
    assert pods(plan([node("n0", 4)], A, rows)) == {"w": 2, "x": 1}


def test_pods_are_given_in_the_order_of_the_queue() -> None:
    rows = [waiting(name, "a", pods=4, min_pods=1, priority=p) for name, p in (("low", 10), ("high", 20))]
    assert pods(plan([node("n0", 5)], A, rows)) == {"high": 4, "low": 1}


def test_teams_grow_in_turn() -> None:
    rows = [waiting(name, name, pods=6, min_pods=1) for name in "ab"]
    assert pods(plan([node("n0", 6)], [team("a"), team("b")], rows)) == {"a": 3, "b": 3}


def test_a_running_gang_grows_with_the_lowest_missing_index() -> None:
    gang = placed("gang", "a", on="n0:0 n0:1 n0:2", min_pods=1)
    gang = replace(gang, placements=(gang.placements[0], gang.placements[2]))
    found = plan([node("n0", 4)], A, [gang])
    assert [pod.pod_index for pod in found.grows[0].placements] == [1]


def test_nobody_is_preempted_for_them_and_nothing_grows_on_what_is_emptying() -> None:
    rows = [
        placed("low", "a", on="n0:1", priority=1),
        placed("leaving", "a", on="n0:2", status=OpenStatus.STOPPING),
        placed("gang", "a", on="n0:0", pods=3, min_pods=1, priority=90),
    ]
    found = plan([node("n0", 3)], A, rows)
    assert (found.grows, preempted(found)) == ((), set())


def test_who_waits_for_victims_grows_when_he_is_let_go() -> None:
    leaving = placed("leaving", "a", on="n0:0", status=OpenStatus.STOPPING)
    gang = placed("gang", "a", on="n0:0", status=OpenStatus.QUEUED, pods=3, min_pods=1)
    waits = plan([node("n0", 3)], A, [leaving, gang])
    assert (pods(waits), [str(keep.reason and keep.reason.code) for keep in waits.keeps]) == (
        {},
        ["waiting-for-victims", "None"],
    )
    assert pods(plan([node("n0", 3)], A, [gang])) == {"gang": 2}


def test_neither_does_he_grow_in_the_cycle_that_starts_him() -> None:
    """All together he fits on the node that is emptying; the GPU of the other one stays idle meanwhile."""
    nodes, near = [node("n0", 2), node("n1", 1)], Topology(preferred="node")
    leaving = placed("leaving", "a", 2, on="n0:0,1", status=OpenStatus.STOPPING)
    gang = waiting("gang", "a", pods=3, min_pods=2, topology=near)
    found = plan(nodes, A, [leaving, gang])
    assert (pods(found), found.starts[0].waits_for_victims) == ({"gang": 2}, True)
    queued = placed("gang", "a", on="n0:0 n0:1", status=OpenStatus.QUEUED, pods=3, min_pods=2, topology=near)
    assert pods(plan(nodes, A, [queued])) == {"gang": 1}


def test_who_runs_grows_although_somebody_waits_for_the_rest_of_his_device() -> None:
    rows = [
        placed("gang", "a", 0.5, on="n0:0", pods=2, min_pods=1),
        placed("leaving", "a", 0.5, on="n0:0", status=OpenStatus.STOPPING),
        placed("promised", "a", 0.5, on="n0:0", status=OpenStatus.QUEUED),
    ]
    assert pods(plan([node("n0", 2)], A, rows)) == {"gang": 1}


def test_growth_keeps_to_quota() -> None:
    teams = [team("a", reserved=3), team("b", maximum=2)]
    rows = [waiting("r", "a", pods=5, min_pods=1, priority=100), waiting("e", "b", pods=5, min_pods=1)]
    assert pods(plan([node("n0", 8)], teams, rows)) == {"r": 3, "e": 2}


def test_growth_does_not_keep_the_head_waiting() -> None:
    rows = [
        placed("busy", "b", 2, on="n0:0,1", priority=90),
        placed("gang", "a", on="n0:2", pods=4, min_pods=1),
        waiting("head", "a", 3, priority=50, submitted=99),
    ]
    found = plan([node("n0", 4)], [team("a"), team("b")], rows)
    assert (pods(found), waits(found)) == ({}, {"head": "waiting-for-gpus"})


def test_under_strict_fifo_nothing_grows_while_the_head_is_blocked() -> None:
    gang = placed("gang", "a", on="n0:0", pods=2, min_pods=1, limit=60)
    rows = [gang, placed("hard", "b", on="n0:1", priority=100), waiting("head", "a", 4)]
    teams = [*A, team("b", reserved=1)]
    assert pods(plan([node("n0", 4)], teams, rows, pool(queueing=Queueing.STRICT_FIFO))) == {}
    assert pods(plan([node("n0", 4)], teams, rows, pool(queueing=Queueing.BEST_EFFORT_FIFO))) == {"gang": 1}


def test_a_gang_grows_in_its_own_cluster() -> None:
    gang = placed("gang", "a", on="n0:0", pods=3, min_pods=1)
    nodes = [node("n0", 1, cluster="east"), node("n1", 4, cluster="west")]
    assert plan(nodes, A, [gang]).grows == ()
