"""The codes of reasons in their order: as one obstacle after the other is taken away, the next one is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduling.checker import check
from scheduling.checker.violation import BrokenRule
from scheduling.engine import (
    DependencyState,
    DeviceInfo,
    GpuShare,
    Memory,
    NodeInfo,
    ReasonCode,
    ReasonKind,
    Request,
    Sharing,
    Slicing,
    Snapshot,
    Taint,
    TeamInfo,
    Topology,
    WorkloadInfo,
    schedule,
)
from scheduling.tests.engine.build import (
    NOW,
    node,
    placed,
    plan,
    pool,
    snapshot,
    started,
    team,
    uncordon,
    waiting,
    waits,
)


def everything_in_the_way() -> Snapshot:
    """Two nodes of 8; a has 2 guaranteed, of which one is in use, and may have 4; w wants far more than there is."""
    w = waiting(
        "w",
        "a",
        32,
        pods=9,
        priority=100,
        held=True,
        dependency=DependencyState.WAITING,
        backing_off_until=NOW + 1,
        gpu_types=("B200",),
        node_selector=(("zone", "moon"),),
        topology=Topology(required="node"),
    )
    rows = [w, placed("own", "a", on="n0:0", priority=100), placed("other", "b", 8, on="n1:0,1,2,3,4,5,6,7")]
    return snapshot(
        [node("n0"), node("n1")],
        [team("a", reserved=2, maximum=4, burst_limit_percent=0), team("b", reserved=8)],
        rows,
        pool(paused=True),
    )


def told(world: Snapshot) -> str:
    return waits(schedule(world, NOW))["w"]


def changed(world: Snapshot, **fields: object) -> Snapshot:
    """The same, but w asks otherwise."""
    return replace(world, workloads=tuple(_with(row, fields) for row in world.workloads))


def _with(row: WorkloadInfo, fields: dict[str, object]) -> WorkloadInfo:
    return replace(row, **fields) if row.id == "w" else row  # type: ignore[arg-type]  # whichever they are


def team_a(world: Snapshot, **fields: object) -> Snapshot:
    """The same, but team a has other limits."""
    first, *rest = world.teams
    other: TeamInfo = replace(first, **fields)  # type: ignore[arg-type]  # whichever they are
    return replace(world, teams=(other, *rest))


def test_the_first_code_that_matches_wins() -> None:
    world = everything_in_the_way()
    codes = [told(world)]
    steps: list[dict[str, object]] = [
        {"held": False},
        {"dependency": DependencyState.FAILED},
        {"dependency": DependencyState.NONE},
        {"backing_off_until": None},
        {"gpu_types": ()},
        {"node_selector": ()},
        {"request": GpuShare(8000)},
        {"pods": 2, "min_pods": 2},
        {"topology": Topology()},
        {"request": GpuShare(1000)},
        {},
    ]
    for fields in steps:
        world = changed(world, **fields) if fields else replace(world, pools=(pool(),))
        codes.append(told(world))
    assert codes == [
        "held",
        "waiting-for-dependency",
        "dependency-failed",
        "backing-off",
        "no-matching-gpu-type",
        "no-matching-nodes",
        "larger-than-any-node",
        "larger-than-pool",
        "topology-impossible",
        "exceeds-reservation",
        "pool-paused",
        "waiting-for-reservation",
    ]


def test_after_what_can_never_be_come_limits_then_places() -> None:
    world = changed(
        everything_in_the_way(), held=False, dependency=DependencyState.NONE, backing_off_until=None
    )
    world = replace(world, pools=(pool(),))
    world = changed(
        world, gpu_types=(), node_selector=(), topology=Topology(), request=GpuShare(2000), pods=1
    )
    reserved = changed(world, min_pods=1)
    elastic = changed(reserved, priority=50, request=GpuShare(5000))
    bursting = team_a(elastic, burst_limit_percent=None)
    small = changed(bursting, request=GpuShare(4000))
    unlimited = team_a(small, maximum_milli=None)
    full = changed(unlimited, request=GpuShare(8000))
    assert [told(each) for each in (reserved, elastic, bursting, small, full)] == [
        "waiting-for-reservation",
        "bursting-disabled",
        "exceeds-ceiling",
        "waiting-for-ceiling",
        "waiting-for-gpus",
    ]


@pytest.mark.parametrize(
    ("memories", "sentence"),
    [
        ((40_960, 30_000), "no GPU it may use has more than 40960."),
        ((40_960, None), "no GPU it may use is known to have more than 40960."),
        ((None, None), "of no GPU it may use is it known how much it has."),
    ],
)
def test_what_is_told_of_too_much_memory_is_what_is_known(
    memories: tuple[int | None, ...], sentence: str
) -> None:
    """The MI300 has enough, but it is not of the type that is asked for."""
    nodes = [node(f"n{at}", 1, gpu_memory_mib=memory) for at, memory in enumerate(memories)]
    nodes.append(node("other", 1, gpu_type="MI300", gpu_memory_mib=196_608))
    w = waiting("w", "a", request=Memory(60_000), gpu_types=("H100",))
    found = plan(nodes, [team("a")], [w]).waits[0].reason
    assert (found.code, found.message) == (
        ReasonCode.LARGER_THAN_ANY_NODE,
        f"A pod asks for 60000 MiB of GPU memory, but {sentence}",
    )


def test_where_no_memory_is_known_asking_for_gpus_helps() -> None:
    nodes, w = [node("n0", 1, gpu_memory_mib=None)], waiting("w", "a", request=Memory(1000))
    assert plan(nodes, [team("a")], [w]).waits[0].reason.next_step == (
        "Ask for GPUs, or for a part of one, instead of GPU memory."
    )
    assert started(plan(nodes, [team("a")], [replace(w, request=GpuShare(500))])) == {"w"}


@pytest.mark.parametrize(
    ("nodes", "wanted", "cpu_milli", "told"),
    [
        (
            [node("n0", 1, foreign=1)],
            Memory(20_000),
            0,
            ("20000 MiB of GPU memory, but all GPUs it may use are used without Chamber.", 245, 0),
        ),
        (
            [node("n0", 1, foreign=1), node("n1", 0)],
            GpuShare(500),
            0,
            ("0.5 GPUs, but all GPUs it may use are used without Chamber.", 500, 0),
        ),
        (
            [node("n0", 4, foreign=2), node("n1", 1)],
            GpuShare(3000),
            0,
            (
                "3 GPUs, but the largest node it may use has 2, besides those used without Chamber.",
                3000,
                2000,
            ),
        ),
        (
            [node("n0", 2), node("n1", 1, foreign=1)],
            GpuShare(3000),
            0,
            ("3 GPUs, but the largest node it may use has 2.", 3000, 2000),
        ),
        ([node("n0", 0)], GpuShare(1000), 0, ("1 GPU, but the nodes it may use have no GPUs.", 1000, 0)),
        (
            [node("n0", 0)],
            Memory(1000),
            0,
            ("1000 MiB of GPU memory, but the nodes it may use have no GPUs.", None, 0),
        ),
        (
            [node("n0", 1)],
            Memory(163_840),
            0,
            ("163840 MiB of GPU memory, but no GPU it may use has more than 81920.", None, None),
        ),
        (
            [node("n0", 1, gpu_memory_mib=None), node("n1", 1, foreign=1)],
            Memory(1000),
            0,
            (
                "1000 MiB of GPU memory, but of no GPU it may use is it known how much it has.",
                None,
                None,
            ),
        ),
        (
            [node("n0", 1, foreign=1)],
            Memory(163_840),
            0,
            ("163840 MiB of GPU memory, but all GPUs it may use are used without Chamber.", None, 0),
        ),
        (
            [node("n0", 4, cpu_milli=500)],
            GpuShare(1000),
            1000,
            ("1 CPU, but the largest node with GPUs for it has 0.5.", 1000, None),
        ),
        (
            [node("n0", 4, cpu_milli=500), node("n1", 0, cpu_milli=8000)],
            GpuShare(1000),
            1000,
            ("1 CPU, but the largest node with GPUs for it has 0.5.", 1000, None),
        ),
    ],
)
def test_what_is_told_of_too_large_a_pod_is_what_there_is_too_little_of(
    nodes: list[NodeInfo], wanted: Request, cpu_milli: int, told: tuple[str, int | None, int | None]
) -> None:
    """Numbers of GPUs stand only where it is them, or their memory, that are too few."""
    w = waiting("w", "a", request=wanted, cpu_milli=cpu_milli)
    found = plan(nodes, [team("a")], [w]).waits[0].reason
    assert found.code is ReasonCode.LARGER_THAN_ANY_NODE
    assert found.message.startswith("A pod asks for ")
    assert (found.message.removeprefix("A pod asks for "), found.asked_milli, found.limit_milli) == told
    assert found.available_milli == found.limit_milli


def test_only_what_is_too_little_is_named_beside_gpus() -> None:
    """The node with memory to spare has CPU to spare as well, but too little GPU memory."""
    nodes = [
        node("n0", 1, cpu_milli=8000, memory_mib=1024),
        node("n1", 1, cpu_milli=500, memory_mib=4096),
        node("n2", 1, cpu_milli=8000, memory_mib=4096, gpu_memory_mib=40_960),
    ]
    w = waiting("w", "a", request=Memory(60_000), cpu_milli=1000, memory_mib=2048)
    assert [plan(nodes[first:], [team("a")], [w]).waits[0].reason.message for first in (0, 1)] == [
        "A pod asks for more CPU and memory together than any one node with GPUs for it has.",
        "A pod asks for 1 CPU, but the largest node with GPUs for it has 0.5.",
    ]


OUT = "Nodes that could take it are out of service "


@pytest.mark.parametrize(
    ("gpus", "fields", "code", "sentence"),
    [
        (
            2,
            {},
            ReasonCode.CLUSTER_OFFLINE,
            "The clusters of the pool main that could take it are disconnected.",
        ),
        (
            8,
            {},
            ReasonCode.LARGER_THAN_ANY_NODE,
            "A pod asks for 8 GPUs, but the largest node it may use has 4.",
        ),
        (
            2,
            {"cordoned": True},
            ReasonCode.NO_MATCHING_NODES,
            f"{OUT}(cordoned: n1; cordoned and cluster disconnected: n0). "
            "Without them: The pool main has no node that takes workloads.",
        ),
    ],
)
def test_of_disconnected_clusters_it_is_told_whether_they_could_take_it(
    gpus: int, fields: dict[str, Any], code: ReasonCode, sentence: str
) -> None:
    nodes = [node("n0", 4, cluster="gone", cluster_online=False, **fields), node("n1", 1, cordoned=True)]
    if fields:
        nodes[1] = node("n1", 4, cordoned=True)
    found = plan(nodes, [team("a")], [waiting("w", "a", gpus)]).waits[0].reason
    assert (found.code, found.message) == (code, sentence)


@pytest.mark.parametrize(
    ("wanted", "code", "sentence", "step"),
    [
        (
            {"pods": 3, "gpus": 8},
            ReasonCode.LARGER_THAN_POOL,
            f"{OUT}(cordoned: n1; not ready: n2). Without them: It needs 3 pods of 8 GPUs at once, "
            "but the pool main has room for 1 of them even when empty.",
            f"Ask an operator to end the maintenance ({uncordon('n1')}) and to look after n2, or "
            "ask for fewer pods, or a smaller minimum of pods.",
        ),
        (
            {"pods": 4, "gpus": 8},
            ReasonCode.LARGER_THAN_POOL,
            "It needs 4 pods of 8 GPUs at once, but the pool main has room for 3 of them even when empty.",
            "Ask for fewer pods, or a smaller minimum of pods.",
        ),
        (
            {"gpus": 64},
            ReasonCode.LARGER_THAN_ANY_NODE,
            "A pod asks for 64 GPUs, but the largest node it may use has 8.",
            "Ask for less per pod and in all.",
        ),
        (
            {"gpus": 24},
            ReasonCode.LARGER_THAN_ANY_NODE,
            "A pod asks for 24 GPUs, but the largest node it may use has 8.",
            "Ask for less per pod, and for more pods if need be, for example --pods 3 --gpus 8.",
        ),
        (
            {"gpu_types": ("A100",)},
            ReasonCode.NO_MATCHING_GPU_TYPE,
            f"{OUT}(cordoned: a0, a1, a2 and 1 more). Without them: It asks for A100, but the nodes of "
            "the pool main that take workloads have H100.",
            f"Ask an operator to end the maintenance ({uncordon('a0 a1 a2 a3')}), or "
            "ask for another GPU type or another pool.",
        ),
        (
            {"gpu_types": ("B200",)},
            ReasonCode.NO_MATCHING_GPU_TYPE,
            "It asks for B200, but the nodes of the pool main have A100, H100.",
            "Ask for another GPU type or another pool.",
        ),
        (
            {"node_selector": (("rack", "r2"),), "gpus": 8},
            ReasonCode.NO_MATCHING_NODES,
            f"{OUT}(not ready: n2). Without them: No node of the pool main takes it: none has the label rack=r2.",
            "Ask an operator to look after n2, or change what it asks of the node, or choose another pool.",
        ),
    ],
)
def test_nodes_out_of_service_are_the_cause_only_where_it_would_start_with_them(
    wanted: dict[str, Any], code: ReasonCode, sentence: str, step: str
) -> None:
    nodes = [
        node("n0"),
        node("n1", cordoned=True),
        node("n2", ready=False, labels={"rack": "r2"}),
        *(node(f"a{at}", 1, gpu_type="A100", cordoned=True) for at in range(4)),
    ]
    world = snapshot(nodes, [team("a")], [waiting("w", "a", **wanted)])
    found = schedule(world, NOW)
    assert [*check(world, found, NOW)] == []
    told = found.waits[0].reason
    assert (told.code, told.message, told.next_step) == (code, sentence, step)


IN_RACKS = [
    node("n0", labels={"rack": "r1"}),
    node("n1", labels={"rack": "r1"}, cordoned=True),
    node("n2", labels={"rack": "r2"}, cordoned=True),
    node("n3", cordoned=True),
]
IN_CLUSTERS = [
    node("n0", cluster="east"),
    node("n1", cluster="east", cordoned=True),
    node("n2", cluster="west", cordoned=True),
]
FOR_OTHERS = tuple(replace(device, shared_by="others") for device in node("n0", 1).devices)
BESIDE_OTHERS = [
    replace(node("n0", 1, cordoned=True), devices=FOR_OTHERS),
    node("c0", 0, cordoned=True),
    node("x0", 1, gpu_type="A100", cordoned=True),
    node("x1", 1, gpu_type="A100"),
]
"""All parts of the only H100 are for others as long as they run: with that node back it waits for them."""
HALF: dict[str, Any] = {"request": GpuShare(500), "gpu_types": ("H100",)}


@pytest.mark.parametrize(
    ("nodes", "wanted", "which"),
    [
        (IN_RACKS, {"gpus": 8, "pods": 2, "topology": Topology(required="rack")}, "cordoned: n1"),
        (IN_RACKS, {"gpus": 8, "pods": 3}, "cordoned: n1, n2 and n3"),
        (IN_CLUSTERS, {"gpus": 8, "pods": 2}, "cordoned: n1"),
        (BESIDE_OTHERS, HALF, "cordoned: n0"),
        (
            [node("n0", cordoned=True, cluster_online=False), node("n1", 1)],
            {"gpus": 8},
            "cordoned and cluster disconnected: n0",
        ),
        (
            [node("n0", ready=False, cluster_online=False), node("n1", 1), node("n2", 4, cordoned=True)],
            {"gpus": 8},
            "not ready and cluster disconnected: n0",
        ),
        (
            [node("n0", cordoned=True, ready=False), node("n1", 1), node("n2", cordoned=True)],
            {"gpus": 8},
            "cordoned: n2; cordoned and not ready: n0",
        ),
    ],
)
def test_only_nodes_with_which_it_would_start_are_named_with_all_that_keeps_them_out(
    nodes: list[NodeInfo], wanted: dict[str, Any], which: str
) -> None:
    world = snapshot(nodes, [team("a")], [waiting("w", "a", **wanted)], pool(topology=("rack",)))
    found = schedule(world, NOW)
    assert [*check(world, found, NOW)] == []
    assert found.waits[0].reason.message.startswith(f"{OUT}({which}). Without them: ")


@pytest.mark.parametrize(
    ("limits", "state", "code", "sentence"),
    [
        (
            {"maximum": 8},
            {"cordoned": True},
            ReasonCode.EXCEEDS_CEILING,
            "It asks for 16 GPUs, more than the maximum of a allows (8 GPUs).",
        ),
        (
            {"maximum": 8},
            {"cluster_online": False},
            ReasonCode.EXCEEDS_CEILING,
            "It asks for 16 GPUs, more than the maximum of a allows (8 GPUs).",
        ),
        (
            {"reserved": 4},
            {"ready": False},
            ReasonCode.EXCEEDS_RESERVATION,
            "It asks for 16 GPUs reserved, but in the pool main a has 4 that are not handed to other teams.",
        ),
        (
            {"maximum": 16},
            {"cordoned": True},
            ReasonCode.LARGER_THAN_POOL,
            f"{OUT}(cordoned: n1). Without them: It needs 2 pods of 8 GPUs at once, "
            "but the pool main has room for 1 of them even when empty.",
        ),
    ],
)
def test_of_limits_and_nodes_out_of_service_the_limit_is_told(
    limits: dict[str, Any], state: dict[str, Any], code: ReasonCode, sentence: str
) -> None:
    """It would not start with the nodes back, so that they are not the cause."""
    priority = 100 if "reserved" in limits else 50
    w = waiting("w", "a", 8, pods=2, priority=priority)
    world = snapshot([node("n0"), node("n1", **state)], [team("a", **limits)], [w])
    found = schedule(world, NOW)
    assert [*check(world, found, NOW)] == []
    assert (found.waits[0].reason.code, found.waits[0].reason.message) == (code, sentence)
    nodes_are_told = replace(found.waits[0].reason, code=ReasonCode.NO_MATCHING_NODES)
    other = replace(found, waits=(replace(found.waits[0], reason=nodes_are_told),))
    assert [each.rule for each in check(world, other, NOW)] == [BrokenRule.REASON]


@pytest.mark.parametrize("state", [{"cordoned": True}, {"ready": False}, {"cluster_online": False}])
@pytest.mark.parametrize("pools", [("pa", "pb"), ("pb", "pa")])
def test_of_several_pools_one_whose_nodes_are_out_of_service_is_told(
    state: dict[str, Any], pools: tuple[str, str]
) -> None:
    """It has only to wait for them; in the other pool it could never start as it is."""
    nodes = [node("n0", pool="pa", **state), node("n1", 4, pool="pb")]
    w = replace(waiting("w", "a", 8), pools=pools)
    world = snapshot(nodes, [team("a")], [w], pool("pa"), pool("pb"))
    found = schedule(world, NOW)
    assert [*check(world, found, NOW)] == []
    (wait,) = found.waits
    assert wait.pool == "pa"
    assert "out of service" in wait.reason.message or wait.reason.code is ReasonCode.CLUSTER_OFFLINE
    never = replace(wait.reason, code=ReasonCode.LARGER_THAN_ANY_NODE, kind=ReasonKind.CHANGE)
    other = replace(found, waits=(replace(wait, pool="pb", reason=never),))
    assert [each.rule for each in check(world, other, NOW)] == [BrokenRule.REASON]


FOR_NODES = "or ask an operator for nodes that could take it"


@pytest.mark.parametrize(
    ("wanted", "sentence", "step"),
    [
        (
            {"partition": "zz"},
            "No node of the pool pa takes it: none is of the partition zz.",
            f"Change what it asks of the node, {FOR_NODES}.",
        ),
        (
            {"node_selector": (("zone", "moon"),)},
            "No node of the pool pa takes it: none has the label zone=moon.",
            f"Change what it asks of the node, {FOR_NODES}.",
        ),
        (
            {"topology": Topology(required="rakc")},
            "It asks for 1 GPU inside one rakc, but the topology of the pool pa has no level rakc.",
            f"Ask for one of its levels (node), for none, {FOR_NODES}.",
        ),
        (
            {"gpu_types": ("B200",)},
            "It asks for B200, but the nodes of the pool pa that take workloads have H100.",
            f"Ask for another GPU type, {FOR_NODES}.",
        ),
    ],
)
def test_what_no_pool_takes_is_not_sent_to_another_one(
    wanted: dict[str, Any], sentence: str, step: str
) -> None:
    nodes, w = [node("n0", pool="pa"), node("n1", pool="pb")], waiting("w", "a", **wanted)

    def told(row: WorkloadInfo) -> tuple[str, str]:
        world = snapshot(nodes, [team("a")], [row], pool("pa"), pool("pb"))
        found = schedule(world, NOW)
        assert [*check(world, found, NOW)] == []
        return found.waits[0].reason.message, found.waits[0].reason.next_step

    assert told(w) == (f"{sentence} No other pool can start it either.", step)
    of_two, to_others = told(replace(w, pools=("pa", "pb")))
    assert of_two == f"{sentence} No other pool that it names can start it either."
    assert "another pool" in to_others
    assert told(replace(w, pools=("pa",))) == (sentence, to_others)


def test_a_limit_in_a_pool_with_nodes_out_of_service_leaves_the_other_pools_reason() -> None:
    """With the nodes back its limit would keep it out: nothing of theirs helps."""
    nodes = [node("n0", pool="pa", cordoned=True), node("n1", 4, pool="pb")]
    world = snapshot(nodes, [team("a", maximum=4)], [waiting("w", "a", 8)], pool("pa"), pool("pb"))
    found = schedule(world, NOW)
    assert [*check(world, found, NOW)] == []
    assert found.waits[0].reason.code is ReasonCode.EXCEEDS_CEILING


def test_what_others_share_now_is_no_reason_to_wait_where_no_rack_holds_it_even_without_them() -> None:
    racks = [{"rack": "r1"}, {"rack": "r2"}]
    shared = [replace(node(f"n{at}", 1, labels=rack), devices=FOR_OTHERS) for at, rack in enumerate(racks)]
    w = waiting("w", "a", pods=4, topology=Topology(required="rack"), **HALF)
    for nodes, code in (
        (shared, ReasonCode.TOPOLOGY_IMPOSSIBLE),
        ([*shared, node("n2", 1, labels=racks[0])], ReasonCode.WAITING_FOR_GPUS),
    ):
        world = snapshot(nodes, [team("a")], [w], pool(topology=("rack",)))
        found = schedule(world, NOW)
        assert [*check(world, found, NOW)] == []
        assert found.waits[0].reason.code is code


def test_a_checker_that_is_told_of_another_cause_says_so() -> None:
    """With its cluster connected it would not start, nor with all nodes in service."""
    nodes = [node("n0", 4, cluster_online=False), node("n1", 4, cordoned=True)]
    world = snapshot(nodes, [team("a")], [waiting("w", "a", 8)])
    found = schedule(world, NOW)
    wait = found.waits[0]
    other = replace(wait, reason=replace(wait.reason, code=ReasonCode.CLUSTER_OFFLINE, kind=ReasonKind.ADMIN))
    assert [each.rule for each in check(world, replace(found, waits=(other,)), NOW)] == [BrokenRule.REASON]


@pytest.mark.parametrize(
    ("wanted", "sentence", "step"),
    [
        (
            {},
            "No node of the pool main with GPUs for workloads that name no type takes it: "
            "all belong to partitions it does not name.",
            "Change what it asks of the node, name a type of slice (mig, with 1 GPU per pod), or choose another pool.",
        ),
        (
            {"gpu_types": ("H100",)},
            "No node of the pool main with H100 takes it: all belong to partitions it does not name.",
            "Change what it asks of the node, or choose another pool.",
        ),
        (
            {"node_selector": (("rack", "r9"),)},
            "No node of the pool main with GPUs for workloads that name no type takes it: "
            "none has the label rack=r9, all belong to partitions it does not name.",
            "Change what it asks of the node, or choose another pool.",
        ),
    ],
)
def test_what_is_told_of_nodes_leaves_out_those_with_slices_that_it_does_not_name(
    wanted: dict[str, Any], sentence: str, step: str
) -> None:
    """The node with a slice is of no partition, so that without these words the sentence would not be true."""
    nodes = [
        node("n0", 1, slices=Slicing.MIG, gpu_type="mig", share=286),
        node("n1", 1, partition="lab"),
    ]
    found = plan(nodes, [team("a")], [waiting("w", "a", **wanted)]).waits[0].reason
    assert (found.message, found.next_step) == (sentence, step)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (
            {"node_selector": (("rack", "r2"),)},
            "it does not tolerate the taint late or team=x of the nodes with its labels",
        ),
        ({"partition": "lab"}, "it does not tolerate the taint late of the nodes of the partition lab"),
        (
            {"partition": "lab", "node_selector": (("zone", "z"),)},
            "no one node meets its labels, partition, taints and sharing together",
        ),
        (
            {"partition": "lab", "node_selector": (("rack", "r3"),)},
            "it does not tolerate the taint late of the nodes of the partition lab with its labels",
        ),
        ({"tolerations": ()}, None),
    ],
)
def test_the_taint_is_named_that_keeps_it_out_of_the_nodes_that_are_as_it_wants_them(
    wanted: dict[str, Any], why: str | None
) -> None:
    late = Taint("late")
    nodes = [
        node("n0", 1, labels={"zone": "z"}),
        node("n1", 1, labels={"rack": "r2"}, taints=(Taint("team", "x"),)),
        node("n2", 1, labels={"rack": "r2"}, taints=(late,)),
        node("n3", 1, labels={"rack": "r3"}, partition="lab", taints=(late,)),
    ]
    found = plan(nodes, [team("a")], [waiting("w", "a", **wanted)])
    told = [wait.reason.message for wait in found.waits]
    assert told == ([f"No node of the pool main takes it: {why}."] if why else [])


WHOLE_STEP = (
    "Ask for whole GPUs, ask an operator to have the nodes share theirs (Dynamic Resource Allocation, or time-slicing "
    "into replicas), or choose another pool."
)


def cut_and_whole(name: str) -> NodeInfo:
    """A node with an H100 and a slice of another, which shares none."""
    devices = (
        DeviceInfo(0, "H100", 81920),
        DeviceInfo(1, "mig", 10240, slicing=Slicing.MIG, share_milli=143),
    )
    return replace(node(name, 0, sharing=False), devices=devices)


@pytest.mark.parametrize("wanted", [{"gpus": 0.5}, {"request": Memory(10_000)}])
@pytest.mark.parametrize(
    ("nodes", "sharing", "sentence", "step"),
    [
        (
            [node("n0", sharing=False), cut_and_whole("n1")],
            "fractions",
            "but the nodes it may use give out whole GPUs only.",
            WHOLE_STEP,
        ),
        (
            [node("n0", 0), node("n1", sharing=False)],
            "fractions",
            "but the nodes it may use give out whole GPUs only.",
            WHOLE_STEP,
        ),
        (
            [node("n0", sharing=False)],
            "fractions",
            "No node of the pool main takes it: they give out whole GPUs only.",
            WHOLE_STEP,
        ),
        (
            [node("n0")],
            "none",
            "No node of the pool main takes it: they give out whole GPUs only.",
            "Ask for whole GPUs, ask an admin to set sharing of the pool to fractions, or choose another pool.",
        ),
        (
            [
                node("n0", sharing=False),
                node("n1", 7, slices=Slicing.MIG, gpu_type="mig", share=143, sharing=False),
            ],
            "fractions",
            "No node of the pool main with GPUs for workloads that name no type takes it: "
            "they give out whole GPUs only.",
            WHOLE_STEP.replace("GPUs, ask", "GPUs, name a type of slice (mig, with 1 GPU per pod), ask", 1),
        ),
    ],
)
def test_a_part_of_a_gpu_is_not_said_to_find_no_gpus_where_whole_ones_are_given_out(
    nodes: list[NodeInfo], sharing: str, sentence: str, step: str, wanted: dict[str, Any]
) -> None:
    pools = pool(sharing=Sharing(sharing))
    found = plan(nodes, [team("a")], [waiting("w", "a", **wanted)], pools).waits[0].reason
    assert found.message.endswith(sentence)
    assert (found.next_step, found.available_milli, found.limit_milli) == (step, None, None)
    whole = plan(nodes, [team("a")], [waiting("w", "a")], pools)
    assert started(whole) == {"w"}
