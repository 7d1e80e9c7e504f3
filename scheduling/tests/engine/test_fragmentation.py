"""Fragmentation, and packing by it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.acceleration.node_arrays import NodeArrays
from scheduling.acceleration.typical_arrays import TypicalArrays
from scheduling.engine import GPU_MILLI, NodeInfo, NodeOrder, PoolInfo, Slicing, TypicalRequest
from scheduling.engine.model.quantities import memory_share
from scheduling.engine.placement.fragmentation import Fragmentation
from scheduling.engine.placement.nodes import Nodes
from scheduling.tests.engine.build import node, nodes_of, placed, plan, pool, team, waiting

A = [team("a")]


def often(*requests: TypicalRequest) -> PoolInfo:
    """A pool with such requests."""
    return replace(pool(), recent=requests)


def asks(gpus: float, weight: float = 1.0, **fields: Any) -> TypicalRequest:
    return TypicalRequest(round(gpus * GPU_MILLI), weight, **fields)


def lost(
    nodes: list[NodeInfo], gpu: list[list[int]], cpu: int, memory: int, *requests: TypicalRequest
) -> list[float]:
    """F of the nodes, in milli-GPUs."""
    fleet = Nodes(often(*requests), nodes, ())
    typical, count, left = NodeArrays(fleet).typical, len(nodes), np.array(gpu).T
    usable = typical.usable(np.array(fleet.class_of), left)
    found = typical.fragments(left.sum(0), usable, np.full(count, cpu), np.full(count, memory))
    return [value / typical.total for value in found]


def test_what_is_free_is_lost_to_those_who_do_not_fit_and_in_part_to_those_who_do() -> None:
    """Half ask for half a GPU and cannot use the 300; half ask for two whole ones and can use nothing."""
    assert lost([node("n", 2)], [[1000, 300]], 0, 0, asks(0.5), asks(2)) == [(300 + 1300) / 2]


def test_weights_are_relative() -> None:
    assert lost([node("n", 2)], [[1000, 300]], 0, 0, asks(0.5, 30), asks(2, 10)) == [300 * 0.75 + 1300 * 0.25]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (asks(1, cpu_milli=4000, memory_mib=100), 0),
        (asks(1, cpu_milli=4001), 2000),
        (asks(1, memory_mib=101), 2000),
        (asks(1, gpu_types=("H100",)), 1000),
        (asks(1, gpu_types=("B200",)), 2000),
        (TypicalRequest(0, 1.0, gpu_memory_mib=40000), 0),
        (TypicalRequest(0, 1.0, gpu_memory_mib=50000), 1000),
        (TypicalRequest(0, 1.0, gpu_memory_mib=90000), 2000),
    ],
)
def test_cpu_memory_types_and_device_memory_count(request_: TypicalRequest, expected: int) -> None:
    """A node of two sorts of device: an H100 of 80 GiB and an A100 of 40 GiB, with 4 CPUs and 100 MiB."""
    big, small = node("n", 1).devices[0], node("n", 2, gpu_type="A100", gpu_memory_mib=40960).devices[1]
    assert lost([replace(node("n"), devices=(big, small))], [[1000, 1000]], 4000, 100, request_) == [expected]


def test_fractions_are_lost_on_nodes_that_do_not_share() -> None:
    assert lost([node("n", 1, sharing=False)], [[1000]], 0, 0, asks(0.5), asks(1)) == [500]


requests = st.builds(
    TypicalRequest,
    st.sampled_from([100, 250, 500, 810, 1000, 2000, 4000]),
    st.sampled_from([0.5, 1.0, 2.0]),
    st.sampled_from([0, 1000, 8000]),
    st.sampled_from([0, 64]),
    st.sampled_from([(), ("H100",), ("A100", "H100"), ("B200",)]),
    st.sampled_from([0, 0, 20000]),
)
rooms = st.tuples(
    st.lists(st.sampled_from([0, 190, 250, 500, 1000]), min_size=4, max_size=4),
    st.sampled_from([0, 4000, 9000]),
)


@given(st.lists(requests, min_size=1, max_size=5), st.lists(rooms, min_size=1, max_size=4))
def test_it_is_what_the_definition_says(
    recent: list[TypicalRequest], left: list[tuple[list[int], int]]
) -> None:
    nodes = [node(f"n{at}", 4) for at in range(len(left))]
    fleet = Nodes(often(*recent), nodes, ())
    free = np.array([gpu for gpu, _ in left]).T
    typical = NodeArrays(fleet).typical
    usable = typical.usable(np.array(fleet.class_of), free)
    found = typical.fragments(free.sum(0), usable, np.array([cpu for _, cpu in left]), np.full(len(left), 64))
    total = sum(each.weight for each in recent)
    for value, (gpu, cpu) in zip(found, left, strict=True):
        by_definition = sum(each.weight / total * _unusable(gpu, cpu, each) for each in recent)
        assert value / typical.total == pytest.approx(by_definition, rel=1e-4, abs=0.1)


def _unusable(gpu: list[int], cpu: int, each: TypicalRequest) -> int:
    """What is free on a node of H100s and of no use to one request, by the words of the paper."""
    need = memory_share(each.gpu_memory_mib, 81920) if each.gpu_memory_mib else min(each.milli, GPU_MILLI)
    devices = 1 if each.gpu_memory_mib else max(1, each.milli // GPU_MILLI)
    enough = [left for left in gpu if left >= need]
    fits = (
        len(enough) >= devices
        and cpu >= each.cpu_milli
        and each.gpu_types in ((), ("H100",), ("A100", "H100"))
    )
    return sum(gpu) - sum(enough) if fits else sum(gpu)


@pytest.mark.parametrize(
    ("request_", "fragments"),
    [
        (asks(1), 1001),
        (asks(0.1), 1001),
        (asks(1, gpu_types=("mig",)), 0),
        (asks(2, gpu_types=("mig",)), 1001),
        (asks(0.1, gpu_types=("mig",)), 0),
        (asks(0.25, gpu_types=("mig",)), 1001),
    ],
)
def test_free_slices_are_of_use_only_to_who_takes_one(request_: TypicalRequest, fragments: int) -> None:
    cut = node("s0", 7, gpu_type="mig", slices=Slicing.MIG, share=143)
    assert lost([cut], [[143] * 7], 0, 0, request_) == [fragments]


def test_free_replicas_are_of_use_to_parts_that_are_no_larger() -> None:
    cut = node("s0", 4, slices=Slicing.REPLICAS, share=250, sharing=False)
    assert lost([cut], [[250] * 4], 0, 0, asks(0.25)) == [0]
    assert lost([cut], [[250] * 4], 0, 0, asks(0.5)) == [1000]


def test_equal_requests_and_their_order_make_no_difference() -> None:
    recent = [asks(0.1, 0.1), asks(0.1, 0.2), asks(0.1, 0.3), asks(1, 0.7)]
    left = [[900, 50]]
    assert lost([node("n", 2)], left, 0, 0, *recent) == lost([node("n", 2)], left, 0, 0, *recent[::-1])


def test_the_score_rises_with_every_fiftieth_of_a_gpu_that_it_falls() -> None:
    typical = TypicalArrays([asks(1)], [])
    fallen = np.array([-20.5, -20.0, -0.5, 0.0, 19.5, 20.0, 1000.0]) * typical.total
    assert list(typical.scores(fallen)) == [-2, -1, -1, 0, 0, 1, 50]
    rule = Fragmentation([asks(1)], [])
    assert [rule.score(int(each)) for each in fallen.tolist()] == [-2, -1, -1, 0, 0, 1, 50]


@pytest.mark.parametrize("much", [1 << 62, 1 << 63, 10**30, -(10**30)])
def test_numbers_beyond_all_bounds_are_as_good_as_unlimited(much: int) -> None:
    recent = [asks(1, 1e300, cpu_milli=much), asks(1, memory_mib=much), TypicalRequest(much, 2.0)]
    unread = [
        asks(1, math.nan),
        asks(1, math.inf),
        asks(1, -1),
        TypicalRequest(0, 1.0, gpu_memory_mib=abs(much)),
    ]
    nodes = [node("n0", 4, cpu_milli=much, memory_mib=much), node("n1", 4)]
    rows = [waiting("w", "a", cpu_milli=1), waiting("v", "a", cpu_milli=abs(much), memory_mib=abs(much))]
    for rules in (often(*recent, *unread), pool(placement=NodeOrder.SPREAD)):
        found = plan(nodes, A, rows, rules)
        assert "w" in {start.workload for start in found.starts}
        assert 0 <= found.pools[0].fragmentation <= 1


# --- Packing by it ----------------------------------------------------------------------------------------------


def test_binpack_leaves_what_the_typical_request_can_use() -> None:
    """Of 3 free GPUs on n0 one can go, and two are left for the typical request; tight fit would break n1's two."""
    busy = [placed("x", "a", 1, on="n0:0"), placed("y", "a", 2, on="n1:0,1")]
    nodes, rows = [node("n0", 4), node("n1", 4)], [*busy, waiting("w", "a")]
    assert nodes_of(plan(nodes, A, rows, often(asks(2))), "w") == ["n0"]
    assert nodes_of(plan(nodes, A, rows, pool()), "w") == ["n1"]


def test_a_pod_that_needs_little_cpu_goes_where_others_lack_it() -> None:
    nodes = [node("n0", 2, cpu_milli=64000), node("n1", 4, cpu_milli=8000)]
    rows = [waiting("w", "a", cpu_milli=1000)]
    assert nodes_of(plan(nodes, A, rows, often(asks(1, cpu_milli=16000))), "w") == ["n1"]


def test_equal_scores_go_to_the_node_with_the_least_part_free_and_then_by_id() -> None:
    """Nobody typical fits anywhere, so that every place is as good."""
    busy = [placed("x", "a", 2, on="n1:0,1"), placed("y", "a", 1, on="n2:0"), placed("z", "a", 1, on="n3:0")]
    nodes = [node("n0", 2), node("n1", 8), node("n2", 2), node("n3", 2)]
    rows = [
        *busy,
        *(waiting(name, "a", submitted=submitted) for name, submitted in [("u", 9), ("v", 8), ("w", 7)]),
    ]
    found = plan(nodes, A, rows, often(asks(16)))
    assert [nodes_of(found, name) for name in "uvw"] == [["n2"], ["n3"], ["n1"]]


def test_whole_nodes_stay_free_for_those_who_often_ask_for_them() -> None:
    busy = placed("x", "a", 0.5, on="n1:0")
    rows = [busy, *(waiting(f"w{at}", "a") for at in range(3))]
    found = plan([node("n0", 4), node("n1", 4)], A, rows, often(asks(4, 0.2), asks(1, 0.8)))
    assert {tuple(nodes_of(found, f"w{at}")) for at in range(3)} == {("n1",)}


@pytest.mark.parametrize("recent", [(), (asks(2, 0),), (asks(0),)])
def test_without_history_the_tightest_node_is_taken(recent: tuple[TypicalRequest, ...]) -> None:
    busy = [placed("x", "a", 1, on="n0:0"), placed("y", "a", 2, on="n1:0,1")]
    found = plan([node("n0", 4), node("n1", 4)], A, [*busy, waiting("w", "a")], often(*recent))
    assert nodes_of(found, "w") == ["n1"]
    assert found.pools[0].fragmentation == 0


def test_the_figure_counts_nodes_that_take_new_pods_only() -> None:
    """Of the 3 GPUs free on n0 the typical request of 2 could use all; those of n1 do not count."""
    nodes = [node("n0", 4), node("n1", 8, cordoned=True)]
    found = plan(
        nodes, A, [placed("x", "a", 3, on="n0:0,1,2"), waiting("w", "a", priority=1)], often(asks(2))
    )
    assert found.pools[0].fragmentation == 0
    one_left = plan(nodes, A, [placed("x", "a", 3, on="n0:0,1,2")], often(asks(2)))
    assert one_left.pools[0].fragmentation == 1
