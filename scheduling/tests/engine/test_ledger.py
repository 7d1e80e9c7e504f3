"""Held and promised devices."""

from __future__ import annotations

from dataclasses import replace

from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.engine import DeviceInfo, NodeInfo, OpenStatus
from scheduling.engine.placement.nodes import Nodes
from scheduling.tests.engine.build import node, nodes_of, placed, plan, pool, started, team, waiting, waits

A = [team("a")]


def test_who_fits_on_what_is_free_is_not_promised_what_is_emptying() -> None:
    leaving = placed("leaving", "a", on="n0:0", status=OpenStatus.STOPPING)
    found = plan([node("n0", 1), node("n1", 2)], A, [leaving, waiting("w", "a")])
    assert (nodes_of(found, "w"), found.starts[0].waits_for_victims) == (["n1"], False)


def test_else_that_is_used_too_once() -> None:
    leaving = placed("leaving", "a", on="n0:0", status=OpenStatus.STOPPING)
    found = plan([node("n0", 1)], A, [leaving, waiting("w", "a", submitted=99), waiting("x", "a")])
    assert started(found) == {"w"}
    assert found.starts[0].reason is not None
    assert (found.starts[0].reason.code, found.starts[0].victims) == ("waiting-for-victims", ())
    assert waits(found) == {"x": "waiting-for-gpus"}


def test_a_queued_one_on_devices_that_are_emptying_says_so() -> None:
    rows = [
        placed("leaving", "a", on="n0:0", status=OpenStatus.STOPPING),
        placed("coming", "a", on="n0:0", status=OpenStatus.QUEUED),
        placed("ready", "a", on="n0:1", status=OpenStatus.QUEUED),
    ]
    keeps = {keep.workload: keep.reason for keep in plan([node("n0", 2)], A, rows).keeps}
    assert keeps["coming"] is not None
    assert keeps["coming"].code == "waiting-for-victims"
    assert (keeps["ready"], keeps["leaving"]) == (None, None)


def test_a_stopping_attempt_counts_against_devices_but_not_against_its_team() -> None:
    leaving = placed("leaving", "a", 2, on="n0:0,1", status=OpenStatus.STOPPING)
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
        placed("leaving", "a", on="n0:0", status=OpenStatus.STOPPING, cpu_milli=2000),
        placed("busy", "a", on="n0:1", cpu_milli=6000),
        placed("coming", "a", on="n0:2", status=OpenStatus.QUEUED, cpu_milli=2000),
        waiting("w", "a"),
    ]
    found = plan([node("n0", 4, cpu_milli=8000)], A, rows)
    assert [(start.workload, start.waits_for_victims) for start in found.starts] == [("w", False)]
    assert [keep.workload for keep in found.keeps if keep.reason is not None] == ["coming"]


def test_who_asks_for_such_cpu_waits_for_it() -> None:
    rows = [
        placed("leaving", "a", on="n0:0", status=OpenStatus.STOPPING, cpu_milli=4000),
        waiting("w", "a", cpu_milli=6000),
    ]
    found = plan([node("n0", 4, cpu_milli=8000)], A, rows)
    assert [(start.workload, start.waits_for_victims) for start in found.starts] == [("w", True)]


def numbered(name: str, *indexes: int) -> NodeInfo:
    """A node whose devices have these indexes, in this order."""
    return replace(node(name), devices=tuple(DeviceInfo(index, "H100", 81920) for index in indexes))


#: As many devices each; some have the same indexes, or those in another order.
NUMBERED = [
    numbered("n0", 0, 2, 5),
    numbered("n1", 0, 1, 2),
    numbered("n2", 5, 2, 0),
    numbered("n3", 0, 2, 5),
]


def test_devices_are_known_by_their_indexes_whatever_those_of_other_nodes() -> None:
    busy = [placed(f"busy{at}", "a", on=f"n{at}:{device}") for at, device in enumerate((2, 2, 5, 0))]
    found = plan(NUMBERED, A, [*busy, *(waiting(f"w{at}", "a", 2) for at in range(4))])
    lies = {
        (pod.node, share.index) for each in found.starts for pod in each.placements for share in pod.devices
    }
    assert lies == {
        *(("n0", 0), ("n0", 5)),
        *(("n1", 0), ("n1", 1)),
        *(("n2", 2), ("n2", 0)),
        *(("n3", 2), ("n3", 5)),
    }


def test_a_device_that_only_other_nodes_have_is_not_there() -> None:
    spots = ("n0:1", "n0:5", "n1:5", "n1:1", "n2:1", "n2:5", "n3:1")
    rows = [placed(spot, "a", on=spot) for spot in spots]
    ledger = KeptLedger(Nodes(pool(), NUMBERED, ()), rows)
    assert [each.id for each in ledger.lost] == ["n0:1", "n1:5", "n2:1", "n3:1"]
    assert [node_free.gpu for node_free in ledger.now.free] == [
        [1000, 1000, 0],
        [1000, 0, 1000],
        [0, 1000, 1000],
        [1000] * 3,
    ]
