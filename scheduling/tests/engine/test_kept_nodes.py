"""What is kept of each node for a request is what its free capacity says, whatever happened before."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.acceleration.indexed_free import IndexedFree
from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.acceleration.node_index import might_hold
from scheduling.acceleration.node_scores import NOWHERE
from scheduling.engine import (
    DeviceInfo,
    GpuShare,
    Memory,
    NodeInfo,
    NodeOrder,
    PoolInfo,
    Request,
    Slicing,
    TypicalRequest,
)
from scheduling.engine.placement.free import NodeFree, pods_in
from scheduling.engine.placement.nodes import Nodes
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.tests.engine.build import node, pool, waiting

CUT = (
    DeviceInfo(0, "mig", 10240, slicing=Slicing.MIG, share_milli=143),
    DeviceInfo(1, "mig-3g", 40960, slicing=Slicing.MIG, share_milli=429),
    DeviceInfo(2, "shared", 40960, slicing=Slicing.REPLICAS, share_milli=500),
    DeviceInfo(3, "H100", 81920),
)
MIXED = (
    DeviceInfo(0, "H100", 81920),
    DeviceInfo(1, "A100", 40960),
    DeviceInfo(2, "A100", 40960, foreign=True),
)
NODES = [
    *(node(f"n{at}", 4, cpu_milli=16000, memory_mib=640) for at in range(4)),
    replace(node("mixed"), devices=MIXED),
    node("down", 8, ready=False),
    replace(node("cut", cpu_milli=16000, memory_mib=640), devices=CUT),
    node(
        "quarters",
        4,
        gpu_type="shared",
        slices=Slicing.REPLICAS,
        share=250,
        gpu_memory_mib=20480,
        sharing=False,
    ),
]
RECENT = (TypicalRequest(500, 2.0, 4000), TypicalRequest(4000, 1.0), TypicalRequest(1000, 3.0, 2000, 64))
REQUESTS: list[Request] = [
    GpuShare(250),
    GpuShare(810),
    GpuShare(1000),
    GpuShare(2000),
    Memory(30000),
    GpuShare(0),
]


@cache
def pod_request(request: Request, cpu: int = 0, types: tuple[str, ...] = ()) -> PodRequest:
    return PodRequest.of(
        waiting("w", "a", request=request, cpu_milli=cpu, memory_mib=cpu // 100, gpu_types=types)
    )


def made(policy: PoolInfo, nodes: list[NodeInfo] = NODES) -> KeptLedger:
    return KeptLedger(Nodes(policy, nodes, ()), ())


policies = st.sampled_from([replace(pool(), recent=RECENT), pool(), pool(placement=NodeOrder.SPREAD)])
pod_requests = st.builds(
    pod_request,
    st.sampled_from(REQUESTS),
    st.sampled_from([0, 3000]),
    st.sampled_from([(), (), ("mig", "mig-3g"), ("shared", "H100")]),
)


@given(policies, st.lists(pod_requests, min_size=1, max_size=14), st.integers())
@settings(deadline=None)
def test_it_follows_every_change_and_is_the_one_made_anew(
    policy: PoolInfo, wanted: list[PodRequest], seed: int
) -> None:
    ledger, chance = made(policy), random.Random(seed)
    held = []
    for each in wanted:
        placed = ledger.place(each, (0,))
        if placed is not None:
            held.append((each, placed))
        if held and chance.random() < 0.4:
            ledger.undo(*held.pop(chance.randrange(len(held))))
        fresh = IndexedFree(ledger.nodes, [node_free.copy() for node_free in ledger.now.free])
        for request in REQUESTS:
            kept, anew = (
                ledger.now.scores(pod_request(request, 3000)),
                fresh.scores(pod_request(request, 3000)),
            )
            assert np.array_equal(kept.keys, anew.keys)
            assert np.array_equal(kept.pods, anew.pods)
        assert ledger.now.fragmentation() == fresh.fragmentation()


@given(policies, st.lists(pod_requests, max_size=9), st.lists(pod_requests, max_size=5))
@settings(deadline=None)
def test_a_copy_is_a_space_of_its_own(
    policy: PoolInfo, before: list[PodRequest], after: list[PodRequest]
) -> None:
    ledger, looked = made(policy), pod_request(GpuShare(500), 3000)
    for each in before:
        ledger.place(each, (0,))
        ledger.now.scores(looked)
    twin = KeptLedger(ledger.nodes, ())
    twin.now = twin.later = ledger.now.copy()
    kept = [node_free.copy() for node_free in ledger.now.free]
    for each in after:
        twin.place(each, (0,))
    for index, free in [(ledger.now, kept), (twin.now, [node_free.copy() for node_free in twin.now.free])]:
        anew = IndexedFree(ledger.nodes, free)
        assert (index.free, index.whole, index.partly) == (free, anew.whole, anew.partly)
        assert np.array_equal(index.scores(looked).keys, anew.scores(looked).keys)
        assert index.fragmentation() == anew.fragmentation()


def crowded(policy: PoolInfo, chance: random.Random) -> IndexedFree:
    """Many nodes of three kinds, on each of which something else is left."""
    small = tuple(DeviceInfo(at, "A100", 40960) for at in range(4))
    kinds = [node("n", 4), replace(node("n"), devices=small), replace(node("n"), devices=MIXED)]
    nodes = [replace(chance.choice(kinds), id=f"n{at:03}", name=f"n{at:03}") for at in range(150)]
    free = [
        NodeFree(
            [chance.choice((-250, 0, 500, 1000)) for _ in each.devices],
            chance.randrange(0, 9000, 500),
            chance.randrange(0, 130, 16),
        )
        for each in nodes
    ]
    return IndexedFree(Nodes(policy, nodes, ()), free)


@given(policies, pod_requests, st.integers())
@settings(deadline=None)
def test_one_by_one_nodes_have_the_keys_that_they_have_in_arrays(
    policy: PoolInfo, looked: PodRequest, seed: int
) -> None:
    chance = random.Random(seed)
    index = crowded(policy, chance)
    scores = index.scores(looked)
    for rank, node_free in enumerate(index.free):
        assert len(scores.keys) == len(index.free)
        picks = [(at, left - chance.choice((-250, 0, 500, 1000))) for at, left in enumerate(node_free.gpu)]
        index.change(rank, picks, chance.randrange(-2000, 4000, 500), chance.randrange(-32, 64, 16), -1)
    anew = IndexedFree(index.nodes, [node_free.copy() for node_free in index.free])
    assert np.array_equal(scores.keys, anew.scores(looked).keys)


@given(pod_requests, st.integers())
@settings(deadline=None)
def test_where_no_node_might_hold_a_pod_none_does(looked: PodRequest, seed: int) -> None:
    index = crowded(pool(), random.Random(seed))
    for rank, node_free in enumerate(index.free):
        index.change(rank, list(enumerate(node_free.gpu)), 0, 0, -1)
    chance = random.Random(seed)
    rank = chance.randrange(len(index.free))
    index.change(rank, chance.choice([[(0, 250)], [(0, 500), (1, 1000)]]), 0, 0, 1)
    assert might_hold(index, looked) or not index.nodes.holds(looked, rank, index.free[rank])


def test_shapes_of_the_past_are_forgotten() -> None:
    ledger = made(
        replace(pool(), recent=RECENT), [node("n0", 4, cpu_milli=64000), node("n1", 4, cpu_milli=64000)]
    )
    index, looked = ledger.now, pod_request(GpuShare(800))
    for milli in range(10, 600, 10):
        placed = ledger.place(pod_request(GpuShare(milli)), (0,))
        assert placed is not None
        fresh = IndexedFree(ledger.nodes, [node_free.copy() for node_free in index.free])
        assert np.array_equal(index.scores(looked).pods, fresh.scores(looked).pods)
        assert np.array_equal(index.scores(looked).keys, fresh.scores(looked).keys)
        assert len(index.grid.shapes) <= 13
        ledger.undo(pod_request(GpuShare(milli)), placed)
    grid = index.grid.refresh()
    assert grid.alike[0] == grid.alike[1]


@given(st.lists(pod_requests, max_size=14), pod_requests)
@settings(deadline=None)
def test_it_counts_the_pods_that_a_room_holds(wanted: list[PodRequest], looked: PodRequest) -> None:
    if looked.bare:
        return
    ledger = made(pool())
    for each in wanted:
        ledger.place(each, (0,))
    scores = ledger.now.scores(looked)
    for rank, node_free in enumerate(ledger.now.free):
        costs = ledger.now.arrays.costs_on(looked, rank)
        assert scores.pods[rank] == (0 if costs is None else pods_in(node_free, costs, looked))
        assert (scores.keys[rank] == NOWHERE) == (scores.pods[rank] == 0)


def test_when_the_pool_is_another_one_all_is_worked_out_anew() -> None:
    ledger, looked = made(pool()), pod_request(GpuShare(500))
    without = ledger.now.scores(looked).keys.copy()
    ledger.nodes.pool = replace(pool(), recent=RECENT)
    fresh = made(ledger.nodes.pool).now
    assert np.array_equal(ledger.now.scores(looked).keys, fresh.scores(looked).keys)
    assert not np.array_equal(ledger.now.scores(looked).keys, without)


def test_of_too_many_asks_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.acceleration.indexed_free.SCORES_KEPT", 2)
    index = made(pool()).now
    first, second, third = (index.scores(pod_request(request)) for request in REQUESTS[:3])
    assert index.scores(pod_request(REQUESTS[2])) is third
    assert index.scores(pod_request(REQUESTS[1])) is second
    assert index.scores(pod_request(REQUESTS[0])) is not first


def test_a_pod_without_gpus_takes_cpu_only() -> None:
    ledger = made(pool(), [node("n0", 1, cpu_milli=4000)])
    placed = ledger.place(pod_request(GpuShare(0), 3000), (0,))
    assert placed is not None
    assert (placed[0].node, placed[0].devices) == ("n0", ())
    assert ledger.place(pod_request(GpuShare(0), 3000), (0,)) is None
    assert ledger.place(pod_request(GpuShare(1000)), (0,)) is not None
