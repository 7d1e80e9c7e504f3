"""Held and promised devices."""

from __future__ import annotations

from scheduling.engine.types import Status
from scheduling.tests.engine.build import node, nodes_of, placed, plan, started, team, waiting, waits

A = [team("a")]


def test_who_fits_on_what_is_free_is_not_promised_what_is_emptying() -> None:
    leaving = placed("leaving", "a", on="n0:0", status=Status.STOPPING)
    found = plan([node("n0", 1), node("n1", 2)], A, [leaving, waiting("w", "a")])
    assert (nodes_of(found, "w"), found.starts[0].waits_for_victims) == (["n1"], False)


def test_else_that_is_used_too_once() -> None:
    leaving = placed("leaving", "a", on="n0:0", status=Status.STOPPING)
    found = plan([node("n0", 1)], A, [leaving, waiting("w", "a", submitted=99), waiting("x", "a")])
    assert started(found) == {"w"}
    assert found.starts[0].reason is not None
    assert (found.starts[0].reason.code, found.starts[0].victims) == ("waiting-for-victims", ())
    assert waits(found) == {"x": "waiting-for-gpus"}


def test_a_queued_one_on_devices_that_are_emptying_says_so() -> None:
    rows = [
        placed("leaving", "a", on="n0:0", status=Status.STOPPING),
        placed("coming", "a", on="n0:0", status=Status.QUEUED),
        placed("ready", "a", on="n0:1", status=Status.QUEUED),
    ]
    keeps = {keep.workload: keep.reason for keep in plan([node("n0", 2)], A, rows).keeps}
    assert keeps["coming"] is not None
    assert keeps["coming"].code == "waiting-for-victims"
    assert (keeps["ready"], keeps["leaving"]) == (None, None)


def test_a_stopping_attempt_counts_against_devices_but_not_against_its_team() -> None:
    leaving = placed("leaving", "a", 2, on="n0:0,1", status=Status.STOPPING)
    found = plan([node("n0", 3)], [team("a", maximum=1)], [leaving, waiting("w", "a")])
    assert started(found) == {"w"}
    figures = found.pools[0]
    assert (figures.in_use_milli, figures.free_milli) == (1_000, 0)


def test_a_node_of_a_disconnected_cluster_keeps_what_it_holds_and_takes_nothing() -> None:
    rows = [placed("old", "a", on="n0:0"), waiting("w", "a")]
    found = plan([node("n0", 2, cluster="east", cluster_online=False)], A, rows)
    assert [keep.workload for keep in found.keeps] == ["old"]
    assert waits(found) == {"w": "cluster-offline"}


def test_pods_on_a_vanished_node_count_but_hold_no_device() -> None:
    rows = [placed("lost", "a", on="gone:0"), waiting("w", "a")]
    found = plan([node("n0", 1)], [team("a", maximum=2)], rows)
    assert started(found) == {"w"}
    assert found.teams[0].in_use_milli == 2_000


def test_cpu_that_others_still_hold_keeps_nobody_waiting_who_asks_for_none() -> None:
    """n0 has 8 CPUs: 2 are emptying, 6 in use, and 2 promised already."""
    rows = [
        placed("leaving", "a", on="n0:0", status=Status.STOPPING, cpu_milli=2000),
        placed("busy", "a", on="n0:1", cpu_milli=6000),
        placed("coming", "a", on="n0:2", status=Status.QUEUED, cpu_milli=2000),
        waiting("w", "a"),
    ]
    found = plan([node("n0", 4, cpu_milli=8000)], A, rows)
    assert [(start.workload, start.waits_for_victims) for start in found.starts] == [("w", False)]
    assert [keep.workload for keep in found.keeps if keep.reason is not None] == ["coming"]


def test_who_asks_for_such_cpu_waits_for_it() -> None:
    rows = [
        placed("leaving", "a", on="n0:0", status=Status.STOPPING, cpu_milli=4000),
        waiting("w", "a", cpu_milli=6000),
    ]
    found = plan([node("n0", 4, cpu_milli=8000)], A, rows)
    assert [(start.workload, start.waits_for_victims) for start in found.starts] == [("w", True)]
