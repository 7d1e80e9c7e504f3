"""A gang that names a GPU type and a type of slices lies on GPUs or on slices, never on both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduling.checker import check
from scheduling.engine import NodeInfo, Plan, Slicing, Topology, WorkloadInfo, schedule
from scheduling.tests.engine.build import NOW, node, nodes_of, placed, snapshot, started, team, waiting, waits

BOTH = ("H100", "mig")


def cut(name: str, slices: int, **fields: Any) -> NodeInfo:
    """A node of so many MIG slices."""
    return node(name, slices, slices=Slicing.MIG, gpu_type="mig", share=286, gpu_memory_mib=20480, **fields)


def both_on_one(name: str, gpus: int, slices: int) -> NodeInfo:
    """A node with so many GPUs and so many slices."""
    devices = [*node(name, gpus).devices, *cut(name, gpus + slices).devices[gpus:]]
    return replace(node(name, 0), devices=tuple(devices))


def lawful(nodes: list[NodeInfo], *rows: WorkloadInfo) -> Plan:
    """The plan, which the checker finds nothing in."""
    world = snapshot(nodes, [team("a", reserved=8)], rows)
    found = schedule(world, NOW)
    assert [*check(world, found, NOW)] == []
    return found


@pytest.mark.parametrize(
    ("gpus", "slices", "where"),
    [(2, 2, None), (4, 0, "gpus"), (4, 4, "gpus"), (2, 4, "cut"), (0, 4, "cut"), (3, 3, None)],
)
def test_it_takes_what_has_room_for_all(gpus: int, slices: int, where: str | None) -> None:
    found = lawful([node("gpus", gpus), cut("cut", slices)], waiting("w", "a", pods=4, gpu_types=BOTH))
    if where is None:
        assert waits(found) == {"w": "larger-than-pool"}
        assert "on GPUs alone or on slices alone even when empty" in found.waits[0].reason.message
    else:
        assert nodes_of(found, "w") == [where]


def test_it_waits_where_each_sort_has_too_few_free_although_both_together_have_enough() -> None:
    rows = [
        placed("p", "a", on="gpus:0 gpus:1"),
        placed("q", "a", on="cut:0 cut:1", share=286, gpu_types=("mig",)),
    ]
    found = lawful([node("gpus", 4), cut("cut", 4)], *rows, waiting("w", "a", pods=4, gpu_types=BOTH))
    assert waits(found) == {"w": "waiting-for-gpus"}


def test_a_single_pod_takes_either() -> None:
    rows = [placed("p", "a", on="gpus:0"), waiting("w", "a", gpu_types=BOTH)]
    assert nodes_of(lawful([node("gpus", 1), cut("cut", 1)], *rows), "w") == ["cut"]


@pytest.mark.parametrize("topology", [Topology(), Topology(required="node"), Topology(preferred="node")])
@pytest.mark.parametrize(("types", "device"), [(BOTH, 0), (BOTH[::-1], 2)])
def test_on_a_node_with_both_it_takes_what_it_names_first(
    topology: Topology, types: tuple[str, ...], device: int
) -> None:
    w = waiting("w", "a", pods=2, gpu_types=types, topology=topology)
    found = lawful([both_on_one("n", 2, 2)], w)
    assert sorted(pod.devices[0].index for pod in found.starts[0].placements) == [device, device + 1]


def test_it_grows_on_what_it_has() -> None:
    """The idle slices are not for one that runs on GPUs, nor idle GPUs for one that runs on slices."""
    nodes = [node("gpus", 2), cut("cut", 3)]
    on_gpus = placed("g", "a", on="gpus:0", pods=3, min_pods=1, gpu_types=BOTH)
    found = lawful(nodes, on_gpus)
    assert [pod.node for grow in found.grows for pod in grow.placements] == ["gpus"]
    on_slices = placed("s", "a", on="cut:0", share=286, pods=4, min_pods=1, gpu_types=BOTH)
    found = lawful(nodes, on_slices)
    assert [pod.node for grow in found.grows for pod in grow.placements] == ["cut", "cut"]


def test_victims_are_those_on_one_sort() -> None:
    """An idle slice and a GPU that is freed are not two places for it: it takes the one that frees a second slice."""
    rows = [
        placed("g0", "a", on="gpus:0", priority=10),
        placed("g1", "a", on="gpus:1", priority=10),
        placed("s0", "a", on="cut:0", share=286, priority=10, gpu_types=("mig",)),
    ]
    w = waiting("w", "a", pods=2, priority=100, gpu_types=BOTH)
    found = lawful([node("gpus", 2), cut("cut", 2)], *rows, w)
    assert started(found) == {"w"}
    assert nodes_of(found, "w") == ["cut"]
    assert {each.workload for each in found.preemptions} == {"s0"}
