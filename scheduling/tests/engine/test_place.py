"""Where pods go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.engine import (
    DeviceInfo,
    DeviceShare,
    Memory,
    NodeInfo,
    NodeOrder,
    Sharing,
    Taint,
    Toleration,
    Topology,
)
from scheduling.engine.placement.domains import Domain
from scheduling.engine.placement.free import pods_in
from scheduling.engine.placement.nodes import Nodes
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.tests.engine.build import node, nodes_of, placed, plan, pool, started, team, waiting, waits

A = [team("a")]
SPREAD = pool(placement=NodeOrder.SPREAD)


def test_whole_gpus_are_of_one_node() -> None:
    found = plan([node("n0", 2), node("n1", 2)], A, [waiting("w", "a", 3)])
    assert waits(found) == {"w": "larger-than-any-node"}


def test_binpack_takes_the_tightest_node_and_keeps_whole_ones_free() -> None:
    busy = placed("busy", "a", 5, on="n1:0,1,2,3,4")
    found = plan([node("n0"), node("n1"), node("n2")], A, [busy, waiting("w", "a", 2)])
    assert nodes_of(found, "w") == ["n1"]


def test_spread_takes_the_emptiest() -> None:
    busy = placed("busy", "a", 5, on="n0:0,1,2,3,4")
    found = plan([node("n0"), node("n1")], A, [busy, waiting("w", "a", 2), waiting("x", "a", 0.5)], SPREAD)
    assert (nodes_of(found, "w"), nodes_of(found, "x")) == (["n1"], ["n1"])


def test_spread_counts_all_that_is_free_also_on_devices_in_use() -> None:
    """n0 has one whole GPU and three quarters of three others, n1 two whole ones and nothing else."""
    quarters = [placed(f"q{at}", "a", 0.25, on=f"n0:{at}") for at in range(3)]
    busy = placed("busy", "a", 2, on="n1:0,1")
    found = plan([node("n0", 4), node("n1", 4)], A, [*quarters, busy, waiting("w", "a")], SPREAD)
    assert nodes_of(found, "w") == ["n0"]


def test_spread_puts_each_pod_of_a_gang_where_most_is_free_and_ties_go_by_id() -> None:
    nodes = [node("n0", 4), node("n1", 4), node("n2", 8)]
    found = plan(nodes, A, [waiting("w", "a", pods=6)], SPREAD)
    assert [pod.node for pod in found.starts[0].placements] == ["n2", "n2", "n2", "n2", "n0", "n1"]


def test_a_fraction_goes_to_the_device_that_fits_most_tightly_and_breaks_a_whole_one_last() -> None:
    rows = [
        placed("half", "a", 0.5, on="n0:0"),
        placed("most", "a", 0.75, on="n0:1"),
        waiting("quarter", "a", 0.25, submitted=9),
        waiting("other", "a", 0.5, submitted=8),
        waiting("third", "a", 0.5, submitted=7),
    ]
    found = plan([node("n0", 3)], A, rows)
    devices = {start.workload: start.placements[0].devices[0].index for start in found.starts}
    assert devices == {"quarter": 1, "other": 0, "third": 2}


def test_memory_is_a_share_of_the_device_it_lands_on() -> None:
    rows = [waiting("w", "a", request=Memory(20480), gpu_types=("A100",))]
    nodes = [node("n0", 1), node("n1", 1, gpu_type="A100", gpu_memory_mib=40960)]
    found = plan(nodes, A, rows)
    assert found.starts[0].placements[0].milli == 500


def test_memory_on_mixed_devices_takes_the_device_it_fills_most_and_the_share_of_that_one() -> None:
    """20 GiB are a quarter of an H100 and half of an A100; 60 GiB fit on an H100 only."""
    devices = (DeviceInfo(0, "H100", 81920), DeviceInfo(1, "A100", 40960))
    mixed = replace(node("n0", 2), devices=devices)
    rows = [
        waiting("small", "a", request=Memory(20480), submitted=9),
        waiting("large", "a", request=Memory(61440), submitted=8),
        waiting("second", "a", request=Memory(20480), submitted=7),
        waiting("third", "a", request=Memory(20480), submitted=6),
    ]
    found = plan([mixed], A, rows)
    lies = {start.workload: start.placements[0].devices for start in found.starts}
    assert lies == {
        "small": (DeviceShare(1, 500),),
        "large": (DeviceShare(0, 750),),
        "second": (DeviceShare(0, 250),),
        "third": (DeviceShare(1, 500),),
    }


def test_memory_is_rounded_up_so_that_a_device_is_never_promised_beyond_its_own() -> None:
    rows = [waiting(f"w{at}", "a", request=Memory(1)) for at in range(3)]
    found = plan([node("n0", 1, gpu_memory_mib=3)], A, rows)
    assert [start.placements[0].milli for start in found.starts] == [334, 334]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cpu_milli": 9000}, "larger-than-any-node"),
        ({"memory_mib": 2000}, "larger-than-any-node"),
        ({"gpu_types": ("B200",)}, "no-matching-gpu-type"),
        ({"node_selector": (("zone", "z"),)}, "no-matching-nodes"),
        ({"partition": "lab"}, "no-matching-nodes"),
        ({"request": Memory(90000)}, "larger-than-any-node"),
    ],
)
def test_hard_demands_are_hard(fields: dict[str, Any], code: str) -> None:
    nodes = [node("n0", 4, cpu_milli=8000, memory_mib=1000)]
    assert waits(plan(nodes, A, [waiting("w", "a", **fields)])) == {"w": code}


def test_cpu_in_use_keeps_a_pod_out_although_gpus_are_free() -> None:
    rows = [placed("busy", "a", on="n0:0", cpu_milli=6000), waiting("w", "a", cpu_milli=4000)]
    assert waits(plan([node("n0", 4, cpu_milli=8000)], A, rows)) == {"w": "fragmented"}


def test_a_taint_keeps_out_who_does_not_tolerate_it() -> None:
    nodes = [node("n0", 1, taints=(Taint("team", "x"),))]
    rows = [
        waiting("none", "a"),
        waiting("other", "a", tolerations=(Toleration("team", "y"),)),
        waiting("same", "a", tolerations=(Toleration("team", "x"),)),
    ]
    found = plan(nodes, A, rows)
    assert started(found) == {"same"}
    assert waits(found)["other"] == "no-matching-nodes"


def test_dedicated_nodes_take_only_who_names_them_and_he_runs_nowhere_else() -> None:
    nodes = [node("n0", 1, partition="lab"), node("n1", 1)]
    rows = [
        waiting("lab", "a", partition="lab"),
        waiting("lab2", "a", partition="lab"),
        waiting("plain", "a"),
    ]
    found = plan(nodes, A, rows)
    assert (nodes_of(found, "lab"), nodes_of(found, "plain")) == (["n0"], ["n1"])
    assert waits(found) == {"lab2": "fragmented"} or waits(found) == {"lab2": "waiting-for-gpus"}


def test_fractions_stay_off_nodes_and_out_of_pools_that_do_not_share() -> None:
    rows = [waiting("w", "a", 0.5)]
    assert waits(plan([node("n0", 2, sharing=False)], A, rows)) == {"w": "no-matching-nodes"}
    assert waits(plan([node("n0", 2)], A, rows, pool(sharing=Sharing.NONE))) == {"w": "no-matching-nodes"}


def test_a_gang_never_spans_clusters() -> None:
    nodes = [node("n0", 2, cluster="east"), node("n1", 2, cluster="west"), node("n2", 1, cluster="west")]
    found = plan(nodes, A, [waiting("w", "a", pods=3), waiting("v", "a", pods=4)])
    assert nodes_of(found, "w") == ["n1", "n2"]
    assert waits(found) == {"v": "larger-than-pool"}


def test_nodes_that_are_down_cordoned_or_foreign_take_nothing() -> None:
    nodes = [
        node("n0", 1, ready=False),
        node("n1", 1, cordoned=True),
        node("n2", 1, foreign=1),
        node("n3", 1),
    ]
    found = plan(nodes, A, [waiting("w", "a"), waiting("x", "a")])
    assert nodes_of(found, "w") == ["n3"]
    assert found.pools[0].capacity_milli == 1000


def test_a_gang_stays_inside_the_level_it_requires() -> None:
    nodes = [node(f"{rack}{index}", 2, labels={"rack": rack}) for rack in "ab" for index in range(2)]
    busy = placed("busy", "a", 1, on="a0:0")
    row = waiting("w", "a", 2, pods=2, topology=Topology(required="rack"))
    assert nodes_of(plan(nodes, A, [busy, row], pool(topology=["rack"])), "w") == ["b0", "b1"]


def test_a_preferred_level_is_given_up_before_the_gang_waits() -> None:
    nodes = [node(f"{rack}{index}", 2, labels={"rack": rack}) for rack in "ab" for index in range(2)]
    busy = [placed("x", "a", 2, on="a0:0,1"), placed("y", "a", 2, on="b1:0,1")]
    row = waiting("w", "a", 2, pods=2, topology=Topology(preferred="rack"))
    assert nodes_of(plan(nodes, A, [*busy, row], pool(topology=["rack"])), "w") == ["a1", "b0"]


# --- The tightest domain, found by looking at each ---------------------------------------------------------------


def looked_for(ledger: KeptLedger, request: PodRequest, pods: int, level: tuple[Domain, ...]) -> list[Domain]:
    """The domains that hold so many pods: by what is free, then the fewest nodes, then as they come."""
    found = []
    for number, domain in enumerate(level):
        free = [(ledger.now.free[rank], costs) for rank, costs in ledger.nodes.ranks(domain)]
        held = sorted((pods_in(node_free, costs, request) for node_free, costs in free), reverse=True)
        if sum(held) >= pods:
            nodes = next(count for count in range(len(held) + 1) if sum(held[:count]) >= pods)
            found.append((sum(sum(node_free.gpu) for node_free, _ in free), nodes, number))
    return [level[number] for *_, number in sorted(found)]


@st.composite
def racks(draw: st.DrawFn) -> list[tuple[NodeInfo, int]]:
    """Up to six nodes of up to three GPUs, most of them in a rack, and how many are in use there."""
    found = []
    for index in range(draw(st.integers(2, 6))):
        labels = draw(st.sampled_from([{"rack": "r"}, {"rack": "s"}, {"rack": "t"}, {}]))
        gpus = draw(st.integers(1, 3))
        found.append((node(f"n{index}", gpus, labels=labels), draw(st.integers(0, gpus))))
    return found


@given(racks(), st.sampled_from(["rack", "node"]), st.sampled_from([0.5, 1, 2]))
@settings(deadline=None)
def test_the_domains_that_hold_so_many_pods_are_those_found_by_looking_at_each(
    nodes: list[tuple[NodeInfo, int]], required: str, gpus: float
) -> None:
    request = PodRequest.of(waiting("w", "a", gpus, pods=2, topology=Topology(required=required)))
    fleet = Nodes(pool(topology=["rack"]), [each for each, _ in nodes], (), topological=True)
    busy = [
        placed(f"{each.id}:{at}", "a", on=f"{each.id}:{at}") for each, used in nodes for at in range(used)
    ]
    ledger = KeptLedger(fleet, busy)
    for level in fleet.domains(request):
        if len(level) > 1:
            for pods in range(1, 20):
                expected = looked_for(ledger, request, pods, level)
                assert list(ledger.now.by_tightness(request, pods, level)) == expected
