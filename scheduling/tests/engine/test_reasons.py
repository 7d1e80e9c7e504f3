"""One reason for everybody who waits, with true numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentlink.agent.backends.native.names import DomainNames
from scheduling.checker import BrokenRule, check
from scheduling.engine import (
    HOUR_MS,
    DependencyState,
    Memory,
    NodeInfo,
    OpenStatus,
    Queueing,
    Reason,
    ReasonCode,
    ReasonKind,
    Slicing,
    Snapshot,
    Taint,
    TeamInfo,
    Toleration,
    Topology,
    WorkloadInfo,
    schedule,
)
from scheduling.engine.reasons.sentences import DRAIN_ANNOTATIONS, kind_of
from scheduling.tests.engine.build import (
    NOW,
    end_drain,
    node,
    placed,
    plan,
    pool,
    snapshot,
    started,
    team,
    uncordon,
    waiting,
)

A = (team("a"),)


def why(nodes: list[NodeInfo], teams: tuple[TeamInfo, ...], *rows: WorkloadInfo, **policy: Any) -> Reason:
    """The reason of the workload called w."""
    topology = policy.pop("topology", ())
    found = plan(nodes, teams, rows, pool(topology=topology, **policy))
    return next(wait.reason for wait in found.waits if wait.workload == "w")


def numbers(reason: Reason) -> tuple[int | None, int | None, int | None]:
    return reason.asked_milli, reason.available_milli, reason.limit_milli


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"held": True, "dependency": DependencyState.FAILED}, "held"),
        ({"dependency": DependencyState.WAITING, "backing_off_until": NOW + 1}, "waiting-for-dependency"),
        ({"dependency": DependencyState.FAILED}, "dependency-failed"),
        ({"backing_off_until": NOW + 1}, "backing-off"),
    ],
)
def test_what_keeps_a_workload_out_of_every_queue_comes_first(fields: dict[str, Any], code: str) -> None:
    assert why([node("n0", 1)], A, waiting("w", "a", 9, **fields)).code == code


def test_a_backoff_that_is_over_does_not_count() -> None:
    assert plan([node("n0")], A, [waiting("w", "a", backing_off_until=NOW)]).starts


def test_a_paused_pool_starts_nothing() -> None:
    found = plan([node("n0")], A, [waiting("w", "a")], pool(paused=True))
    assert (found.waits[0].reason.code, found.waits[0].reason.kind) == ("pool-paused", "admin")


@pytest.mark.parametrize(
    ("wanted", "limits", "code", "sentence", "step"),
    [
        (
            {"gpus": 9},
            {},
            "larger-than-any-node",
            "A pod asks for 9 GPUs, but the largest node it may use has 8.",
            "Ask for less per pod, and for more pods if need be, for example --pods 3 --gpus 4.",
        ),
        (
            {"gpus": 5},
            {"maximum": 4},
            "exceeds-ceiling",
            "It asks for 5 GPUs, more than the maximum of a allows (4 GPUs).",
            "Ask for less, or ask an admin to raise the limit.",
        ),
    ],
)
def test_what_could_never_start_in_a_paused_pool_is_told_that(
    wanted: dict[str, Any], limits: dict[str, Any], code: str, sentence: str, step: str
) -> None:
    nodes, teams = [node("n0"), node("n1", 4, cordoned=True)], (team("a", **limits),)
    reason = why(nodes, teams, waiting("w", "a", **wanted), paused=True)
    assert (reason.code, reason.message, reason.next_step) == (
        code,
        f"{sentence} The pool main is paused, too.",
        step,
    )
    paused = "The pool main is paused and starts nothing."
    assert why(nodes, teams, waiting("w", "a", 4), paused=True).message == paused
    closed = [node("n0", cordoned=True)]
    assert why(closed, teams, waiting("w", "a", 4), paused=True).message == paused


@pytest.mark.parametrize("fields", [{"pools": ("pa", "pb")}, {"pools": ("pb", "pa")}, {"pools": None}])
def test_a_pause_changes_nothing_for_what_no_pool_could_ever_start(fields: dict[str, Any]) -> None:
    """The reserved gang exceeds the guarantee in pa, and no node of pb holds one of its pods."""
    nodes = [node(f"n{number}", pool="pa") for number in range(8)]
    nodes += [node(f"m{number}", 4, pool="pb") for number in range(4)]
    teams = (team("a", pool="pa", reserved=32),)
    gang = waiting("w", "a", 8, pods=5, priority=100, **fields)

    def told(*paused: str) -> Reason:
        pools = [pool(each, paused=each in paused) for each in ("pa", "pb")]
        world = snapshot(nodes, teams, [gang], *pools)
        found = schedule(world, NOW)
        assert [*check(world, found, NOW)] == []
        return found.waits[0].reason

    before = told()
    assert before.code == "exceeds-reservation"
    assert told("pb") == before
    for paused in (("pa",), ("pa", "pb")):
        after = told(*paused)
        assert (after.code, after.next_step) == (before.code, before.next_step)
        assert "The pool pa is paused, too." in after.message


def test_what_could_start_in_a_paused_pool_alone_is_sent_to_no_other() -> None:
    nodes = [node("n0", 4, pool="pa"), node("n1", 8, pool="pb")]

    def told(w: WorkloadInfo) -> tuple[str, str]:
        world = snapshot(nodes, A, [w], pool("pa"), pool("pb", paused=True))
        found = schedule(world, NOW)
        assert [*check(world, found, NOW)] == []
        never = replace(found.waits[0].reason, code=ReasonCode.LARGER_THAN_ANY_NODE, kind=ReasonKind.CHANGE)
        other = replace(found, waits=(replace(found.waits[0], pool="pa", reason=never),))
        assert [each.rule for each in check(world, other, NOW)] == [BrokenRule.REASON]
        return found.waits[0].reason.code, found.waits[0].reason.next_step

    assert told(waiting("w", "a", 8)) == ("pool-paused", "Ask an admin to resume the pool.")
    named = waiting("w", "a", 8, pools=("pa", "pb"))
    assert told(named) == ("pool-paused", "Ask an admin to resume the pool, or choose another one.")


@pytest.mark.parametrize(
    ("gpus", "pods", "limits", "example"),
    [
        (8, 1, {}, ", for example --pods 2 --gpus 4."),
        (6, 1, {"maximum": 6}, ", for example --pods 2 --gpus 3."),
        (6, 1, {"reserved": 5}, None),
        (8, 5, {}, None),
        (8, 2, {}, ", for example --pods 4 --gpus 4."),
        (8, 2, {"maximum": 12}, None),
    ],
)
def test_an_example_fits_the_pool_and_the_limits(
    gpus: int, pods: int, limits: dict[str, Any], example: str | None
) -> None:
    nodes, priority = [node(f"n{number}", 4) for number in range(4)], 100 if "reserved" in limits else 50
    w = waiting("w", "a", gpus, pods=pods, priority=priority)
    reason = why(nodes, (team("a", **limits),), w)
    assert reason.code == "larger-than-any-node"
    step = (
        "Ask for less per pod and in all."
        if example is None
        else f"Ask for less per pod, and for more pods if need be{example}"
    )
    assert reason.next_step == step


def test_a_disconnected_cluster_is_named_only_where_it_would_help() -> None:
    nodes = [node("n0", 4, cluster="east", cluster_online=False), node("n1", 1, cluster="west")]
    assert why(nodes, A, waiting("w", "a", 4)).code == "cluster-offline"
    assert why(nodes, A, waiting("w", "a", 5)).code == "larger-than-any-node"


def test_a_gpu_type_the_pool_has_not() -> None:
    reason = why([node("n0")], A, waiting("w", "a", gpu_types=("B200",)))
    assert (reason.code, reason.message) == (
        "no-matching-gpu-type",
        "It asks for B200, but the nodes of the pool main that take workloads have H100.",
    )


@pytest.mark.parametrize(
    ("nodes", "sentence"),
    [
        (
            [node("n0", cordoned=True, labels={"k": "v"}), node("n1", gpu_type="A100")],
            "Nodes that could take it are out of service (cordoned: n0). Without them: It asks for H100, "
            "but the nodes of the pool main that take workloads have A100.",
        ),
        (
            [node("n0", gpu_type="")],
            "It asks for H100, but the nodes of the pool main that take workloads have GPUs of unknown type.",
        ),
        (
            [node("n0", 0)],
            "It asks for H100, but the nodes of the pool main that take workloads have no GPUs.",
        ),
        (
            [node("n0", cordoned=True, labels={"k": "v"})],
            "Nodes that could take it are out of service (cordoned: n0). Without them: The pool main has no "
            "node that takes workloads.",
        ),
        (
            [node("n0"), node("n1", gpu_type="A100", labels={"k": "v"})],
            "No node of the pool main with H100 takes it: none has the label k=v.",
        ),
    ],
)
def test_a_pool_is_not_said_to_lack_what_it_has(nodes: list[NodeInfo], sentence: str) -> None:
    """What is cordoned, or of another type, is there all the same."""
    w = waiting("w", "a", gpu_types=("H100",), node_selector=(("k", "v"),))
    assert why(nodes, A, w).message == sentence


def test_a_pod_larger_than_any_node() -> None:
    reason = why([node("n0", 4)], A, waiting("w", "a", 8))
    assert (reason.code, numbers(reason)) == ("larger-than-any-node", (8_000, 4_000, 4_000))


def test_a_node_is_as_large_as_its_gpus_of_the_types_that_the_pod_may_use() -> None:
    nodes = [node("n0", 1, gpu_type="A100"), node("n1", 2)]
    reason = why(nodes, A, waiting("w", "a", 2, gpu_types=("A100",)))
    assert (reason.code, numbers(reason)) == ("larger-than-any-node", (2_000, 1_000, 1_000))


def test_a_gang_larger_than_the_pool_or_than_each_of_its_clusters() -> None:
    nodes = [node("n0", 4, cluster="east"), node("n1", 6, cluster="west")]
    reason = why(nodes, A, waiting("w", "a", 2, pods=4))
    assert (reason.code, numbers(reason)) == ("larger-than-pool", (8_000, 6_000, 6_000))
    assert "no one cluster of the pool main has room for more than 3 of them" in reason.message


@pytest.mark.parametrize(
    ("level", "sentence", "step", "limit"),
    [
        (
            "node",
            " even when empty, and no node for more than 1.",
            "Ask for fewer pods, or a smaller minimum of pods, and for a wider level than node or for none.",
            4_000,
        ),
        (
            "rack",
            " even when empty, and no rack for any.",
            "Ask for fewer pods, or a smaller minimum of pods, and for a wider level than rack or for none.",
            0,
        ),
        (None, " even when empty.", "Ask for fewer pods, or a smaller minimum of pods.", 12_000),
    ],
)
def test_of_a_gang_larger_than_the_pool_the_level_that_it_requires_is_told_too(
    level: str | None, sentence: str, step: str, limit: int
) -> None:
    """With as many pods as the pool has room for it would be told next that no node has."""
    nodes = [node(f"n{index}", 4) for index in range(3)]
    row = waiting("w", "a", 4, pods=4, topology=Topology(required=level))
    reason = why(nodes, A, row, topology=["rack"])
    assert (reason.code, reason.next_step) == ("larger-than-pool", step)
    needs = "It needs 4 pods of 4 GPUs at once, but the pool main has room for 3 of them"
    assert reason.message == f"{needs}{sentence}"
    assert (reason.available_milli, reason.limit_milli) == (limit, limit)


def test_a_topology_that_cannot_be() -> None:
    nodes = [node(f"n{index}", 4, labels={"rack": f"r{index}"}) for index in range(3)]
    row = waiting("w", "a", 4, pods=2, topology=Topology(required="rack"))
    reason = why(nodes, A, row, topology=["rack"])
    assert (reason.code, numbers(reason), reason.level) == (
        "topology-impossible",
        (8_000, 4_000, 4_000),
        "rack",
    )


def test_a_level_that_the_topology_has_not() -> None:
    row = waiting("w", "a", topology=Topology(required="zone"))
    reason = why([node("n0", labels={"zone": "z"})], A, row, topology=["rack"])
    assert (reason.code, reason.message, reason.next_step) == (
        "topology-impossible",
        "It asks for 1 GPU inside one zone, but the topology of the pool main has no level zone.",
        "Ask for one of its levels (rack, node), for none, or choose another pool.",
    )


def test_larger_than_the_pool_counts_clusters_that_are_disconnected() -> None:
    nodes = [
        node("n0", 4, cluster="east"),
        node("n1", 6, cluster="west", cluster_online=False),
    ]
    reason = why(nodes, A, waiting("w", "a", 1, pods=8))
    assert (reason.code, reason.limit_milli) == ("larger-than-pool", 6000)
    assert (
        "no one cluster of the pool main has room for more than 6 of them even when empty" in reason.message
    )
    assert why(nodes, A, waiting("w", "a", 1, pods=6)).code == "cluster-offline"


def test_numbers_agree_with_their_nouns() -> None:
    soon = why([node("n0")], A, waiting("w", "a", backing_off_until=NOW + 800))
    assert soon.message == "Its last attempt ended early; the next one is due in 1 second."
    later = why([node("n0")], A, waiting("w", "a", backing_off_until=NOW + 1800))
    assert later.message == "Its last attempt ended early; the next one is due in 2 seconds."
    one = why([node("n0")], (team("a", reserved=1),), waiting("w", "a", 2, priority=100))
    assert "in the pool main a has 1 that is not handed to other teams." in one.message


@pytest.mark.parametrize(
    ("gpus", "limits", "sentence", "step"),
    [
        (
            24,
            {"reserved": 16, "maximum": 20},
            "It asks for 24 GPUs reserved, but in the pool main a has 16 that are not handed to other teams. "
            "It is also more than the maximum of a allows (20 GPUs).",
            "Ask for less, or ask an admin for a larger reservation and to raise the other limits.",
        ),
        (
            1,
            {},
            "It asks for 1 GPU reserved, but in the pool main a has none that is not handed to other teams.",
            "Run it as elastic (priority below 100), or ask an admin for a reservation.",
        ),
    ],
)
def test_all_limits_of_reserved_work_are_named_with_the_pool_and_a_step_that_helps(
    gpus: int, limits: dict[str, Any], sentence: str, step: str
) -> None:
    w = waiting("w", "a", 1, pods=gpus, priority=100)
    reason = why([node(f"n{at}") for at in range(4)], (team("a", **limits),), w)
    assert (reason.code, reason.message, reason.next_step) == ("exceeds-reservation", sentence, step)


def test_of_gpus_that_are_emptied_no_more_is_said_than_that_something_stops_there() -> None:
    """Of its 16 GPUs 8 are idle."""
    run = placed("run", "a", 8, on="n1:0,1,2,3,4,5,6,7")
    w = waiting("w", "a", 8, pods=2, priority=100)
    (start,) = plan([node("n0"), node("n1")], (team("a", reserved=16),), [run, w]).starts
    assert start.reason is not None
    assert start.reason.message == (
        "It has 16 GPUs; it starts as soon as the workloads that are still stopping there are gone."
    )


def test_too_much_cpu_and_too_much_memory_are_told_at_once() -> None:
    w = waiting("w", "a", cpu_milli=97_000, memory_mib=2_000_000)
    assert why([node("n0", cpu_milli=96_000, memory_mib=1_000_000)], A, w).message == (
        "A pod asks for 97 CPUs, but the largest node with GPUs for it has 96. It also asks for 2000000 MiB of memory, "
        "of which no such node has more than 1000000."
    )


def test_gpus_that_it_cannot_use_are_not_counted_as_free_for_it() -> None:
    others = [
        node("a0", 8, gpu_type="A100"),
        node("p0", 8, partition="lab"),
        node("z0", 8, cluster="far", cluster_online=False),
    ]
    busy = placed("x", "a", on="n0:0 n0:1 n0:2")
    row = waiting("w", "a", 2, gpu_types=("H100",))
    reason = why([node("n0", 4), *others], A, busy, row)
    assert (reason.code, reason.available_milli) == ("waiting-for-gpus", 1000)
    assert reason.message == (
        "It asks for 2 GPUs, but of the 17 free in the pool main it may use only 1. Nodes that would take it are "
        "out of service (cluster disconnected: z0)."
    )
    assert reason.next_step == (
        "Ask an operator to have the cluster's agent connect again, or accept what is free: other GPU types, "
        "partitions, labels or taints."
    )
    reason = why([node("n0", 4), *others[:2]], A, busy, row)
    assert reason.message == "It asks for 2 GPUs, but of the 17 free in the pool main it may use only 1."
    assert reason.next_step == "Wait, or accept what is free: other GPU types, partitions, labels or taints."


CUT: dict[str, Any] = {"gpu_type": "mig-1g.10gb", "slices": Slicing.MIG, "share": 143}


def test_free_slices_are_no_free_gpus_and_cordoned_nodes_that_would_take_it_are_named() -> None:
    busy = [placed("x", "a", on="n0:0"), placed("y", "a", on="n2:0")]
    nodes = [
        node("n0", 1),
        node("n1", 2, cordoned=True),
        node("n2", 1, cordoned=True),  # full: to uncordon it changes nothing
        node("n3", 1, ready=False),
        node("s0", 6, **CUT),
    ]
    reason = why(nodes, A, *busy, waiting("w", "a", 1))
    assert (reason.code, reason.kind, reason.message, reason.next_step) == (
        "waiting-for-gpus",
        "wait",  # for others to end will do, too
        "It asks for 1 GPU, but none is free in the pool main. Nodes that would take it are out of service "
        "(cordoned: n1; not ready: n3).",
        f"Ask an operator to end the maintenance ({uncordon('n1')}) and to look after n3, or wait until GPUs come "
        "free.",
    )
    alone = why([nodes[0], nodes[-1]], A, busy[0], waiting("w", "a", 1))
    assert alone.message == "It asks for 1 GPU, but none is free in the pool main."
    cut = placed("z", "a", on="s0:0", share=143)
    named = why([nodes[1], node("s0", 1, **CUT)], A, cut, waiting("w", "a", 1, gpu_types=("mig-1g.10gb",)))
    assert (named.code, named.kind) == ("waiting-for-gpus", "wait")
    assert "out of service" not in named.message  # no GPU is a slice


@pytest.mark.parametrize(
    ("count", "commands"),
    [
        (8, uncordon("n0 n1 n2 n3 n4 n5 n6 n7")),
        (9, f"for each {uncordon('NODE')}"),
    ],
)
def test_commands_for_nodes_that_are_to_come_back_can_be_pasted(count: int, commands: str) -> None:
    nodes = [node(f"n{at}", cordoned=True) for at in range(count)]
    reason = why(nodes, A, waiting("w", "a", 8))
    assert f"(cordoned: n0, n1, n2 and {count - 3} more)" in reason.message
    assert reason.next_step == f"Ask an operator to end the maintenance ({commands}), or choose another pool."


def test_a_node_that_chamber_drains_is_told_apart_from_one_that_is_only_cordoned() -> None:
    """`kubectl drain` leaves no mark but that of `kubectl cordon`."""
    nodes = [node("n0", cordoned=True), node("n1", cordoned=True, drained=True, ready=False)]
    reason = why(nodes, A, waiting("w", "a", 8))
    assert "(cordoned: n0; drained and not ready: n1)" in reason.message
    assert reason.next_step == (
        f"Ask an operator to end the maintenance ({uncordon('n0')}) and to end the drain ({end_drain('n1')}) and to "
        "look after n1, or choose another pool."
    )


def test_the_annotations_that_drain_a_node_are_named_as_the_agent_reads_them() -> None:
    assert (DomainNames().drain_elastic, DomainNames().drain_reserved) == DRAIN_ANNOTATIONS


def test_nodes_out_of_service_are_named_to_a_gang_only_where_it_would_start_with_them() -> None:
    busy = [placed("x", "a", on="n0:0")]
    nodes = [node("n0", 2), node("n1", 1, cordoned=True), node("n2", 1, cordoned=True, gpu_type="A100")]
    both = why(nodes, A, *busy, waiting("w", "a", 1, pods=2, gpu_types=("H100",)))
    assert both.message.endswith("Nodes that would take it are out of service (cordoned: n1).")
    split = [node("n0", 2, cluster="east"), node("n1", 1, cordoned=True, cluster="west")]
    apart = why(split, A, *busy, waiting("w", "a", 1, pods=2))
    assert "out of service" not in apart.message  # a gang never spans clusters


def test_a_gang_that_fits_with_a_cordoned_node_only_is_told_of_it_though_enough_is_free() -> None:
    busy = [placed(f"x{index}", "a", 3, on=f"n{index}:0,1,2") for index in range(2)]
    nodes = [node("n0", 4), node("n1", 4), node("n2", 2, cordoned=True)]
    reason = why(nodes, A, *busy, waiting("w", "a", 2))
    assert (reason.code, reason.next_step) == (
        "fragmented",
        f"Ask an operator to end the maintenance ({uncordon('n2')}), or ask for fewer GPUs, less CPU or less memory "
        "per pod.",
    )


def test_parts_of_gpus_that_it_could_use_are_counted_though_they_are_too_small() -> None:
    busy = [placed(f"x{index}", "a", 0.5, on=f"n0:{index}") for index in range(2)]
    reason = why(
        [node("n0", 2), node("a0", 8, gpu_type="A100")], A, *busy, waiting("w", "a", 1, gpu_types=("H100",))
    )
    assert (reason.code, reason.available_milli) == ("fragmented", 1000)
    assert reason.message == (
        "It asks for 1 GPU; 1 is free for it in the pool main, but not on nodes where its pods fit."
    )


def test_what_is_free_in_one_domain_is_not_said_to_be_in_several() -> None:
    nodes = [node(f"n{index}", 2, labels={"rack": "r"}) for index in range(2)]
    busy = [placed(f"x{index}", "a", on=f"n{index}:0") for index in range(2)]
    row = waiting("w", "a", 2, topology=Topology(required="rack"))
    reason = why(nodes, A, *busy, row, topology=["rack"])
    assert (reason.code, reason.message) == (
        "waiting-for-topology",
        "It asks for 2 GPUs inside one rack; 2 are free in the pool main, but its pods fit inside no one rack.",
    )


def test_enough_gpus_but_not_in_one_domain() -> None:
    nodes = [node(f"n{index}", 4, labels={"rack": f"r{index}"}) for index in range(2)]
    busy = [placed(f"x{index}", "a", 2, on=f"n{index}:0,1") for index in range(2)]
    row = waiting("w", "a", 2, pods=2, topology=Topology(required="rack"))
    reason = why(nodes, A, *busy, row, topology=["rack"])
    assert (reason.code, numbers(reason)[:2]) == ("waiting-for-topology", (4_000, 4_000))


def test_larger_than_the_guarantee_will_ever_allow() -> None:
    reason = why([node("n0")], (team("a", reserved=4),), waiting("w", "a", 5, priority=100))
    assert (reason.code, numbers(reason), reason.team) == ("exceeds-reservation", (5_000, 4_000, 4_000), "a")


def test_the_message_says_which_limit_it_is_and_whose() -> None:
    teams = (team("top", maximum=4), team("a", "top", reserved=2, burst_limit_percent=50))
    reason = why([node("n0")], teams, waiting("w", "a", 4))
    assert (reason.code, reason.limit_milli, reason.team) == ("exceeds-ceiling", 3_000, "a")
    assert "burst limit of a" in reason.message
    reason = why([node("n0")], teams, waiting("w", "top", 5))
    assert "maximum of top" in reason.message


def test_bursting_that_is_off_is_for_an_admin() -> None:
    reason = why([node("n0")], (team("a", reserved=4, burst_limit_percent=0),), waiting("w", "a", 5))
    assert (reason.code, reason.kind, numbers(reason)) == (
        "bursting-disabled",
        "admin",
        (5_000, 4_000, 4_000),
    )


@pytest.mark.parametrize(
    ("limits", "sentence", "step"),
    [
        (
            {"burst_limit_percent": 0, "maximum": 5},
            "more than a's guarantee (4 GPUs), and bursting is off. It is also more than the maximum of a allows "
            "(5 GPUs). It is also more than the maximum of top allows (7 GPUs).",
            "Ask for less, or ask an admin to raise all these limits.",
        ),
        (
            {"burst_limit_percent": 50},
            "more than the burst limit of a allows (6 GPUs). It is also more than the maximum of top allows (7 GPUs).",
            "Ask for less, or ask an admin to raise all these limits.",
        ),
        (
            {},
            "more than the maximum of top allows (7 GPUs).",
            "Ask for less, or ask an admin to raise the limit.",
        ),
    ],
)
def test_all_limits_that_it_exceeds_are_named(limits: dict[str, Any], sentence: str, step: str) -> None:
    """Who has only one of them raised would be told of the next."""
    teams = (team("top", maximum=7), team("a", "top", reserved=4, **limits))
    reason = why([node("n0")], teams, waiting("w", "a", 8))
    assert (reason.message, reason.next_step) == (f"It asks for 8 GPUs, {sentence}", step)
    smaller = waiting("w", "a", (reason.limit_milli or 0) // 1000)
    assert started(plan([node("n0")], teams, [smaller])) == {"w"}


def test_a_ceiling_that_is_reached() -> None:
    rows = [placed("x", "a", 3, on="n0:0,1,2"), waiting("w", "a", 2)]
    reason = why([node("n0")], (team("a", maximum=4),), *rows)
    assert (reason.code, numbers(reason)) == ("waiting-for-ceiling", (2_000, 1_000, 4_000))


@pytest.mark.parametrize(("priority", "limits"), [(50, {"maximum": 5}), (100, {"reserved": 5})])
def test_what_is_left_is_told_as_the_plan_leaves_it(priority: int, limits: dict[str, Any]) -> None:
    """When w had its turn 2 were left; s has taken them since."""
    rows = [
        placed("x", "a", on="n0:0,1,2", gpus=3, priority=priority),
        waiting("w", "a", 4, submitted=90, priority=priority),
        waiting("s", "a", 2, priority=priority),
    ]
    reason = why([node("n0")], (team("a", **limits),), *rows)
    assert numbers(reason) == (4_000, 0, 5_000)
    assert "none is left" in reason.message


def test_too_few_gpus_or_not_where_the_pods_fit() -> None:
    rows = [placed(f"x{index}", "a", 3, on=f"n{index}:0,1,2") for index in range(2)]
    nodes = [node("n0", 4), node("n1", 4)]
    reason = why(nodes, A, *rows, waiting("w", "a", 3))
    assert (reason.code, numbers(reason)[:2]) == ("waiting-for-gpus", (3_000, 2_000))
    assert why(nodes, A, *rows, waiting("w", "a", 2)).code == "fragmented"


def test_kinds() -> None:
    kinds = {code: kind_of(code) for code in ReasonCode}
    admin = {code for code, kind in kinds.items() if kind is ReasonKind.ADMIN}
    assert admin == {"pool-paused", "cluster-offline", "bursting-disabled"}
    assert kinds[ReasonCode.HELD] is ReasonKind.CHANGE
    assert kinds[ReasonCode.FRAGMENTED] is ReasonKind.WAIT


def test_victims_are_told_by_whom_and_what_to_do() -> None:
    rows = [placed("x", "a", 2, on="n0:0,1"), waiting("w", "b", 2, priority=100)]
    found = plan([node("n0", 2)], (*A, team("b", reserved=2)), rows)
    reason = found.preemptions[0].reason
    assert reason.message == "It gave its 2 GPUs to a reserved workload of b inside its guarantee."
    assert "raise its priority" in reason.next_step


def test_who_is_behind_a_start_reservation_is_told_what_would_help() -> None:
    """A time limit lets him pass where it is known when the one ahead starts, and the pool lets anybody pass."""
    head, w = waiting("head", "a", 8, submitted=90), waiting("w", "a", 2)
    for limit, policy, next_step in (
        (HOUR_MS, {}, "Wait, or give it a time limit short enough to end before that start."),
        (None, {}, "Nothing to do; it is not known when that one starts."),
        (
            HOUR_MS,
            {"queueing": Queueing.STRICT_FIFO},
            "Nothing to do; its turn comes when that one has started.",
        ),
    ):
        reason = why(
            [node("n0")],
            A,
            placed("x", "a", 4, on="n0:0,1,2,3", started=30, time_limit_ms=limit),
            head,
            w,
            **policy,
        )
        assert (reason.code, reason.next_step) == ("behind-reservation", next_step)
        assert (
            "nobody passes head" if "queueing" in policy else "would delay the start of head"
        ) in reason.message


def test_who_is_behind_a_start_reservation_is_not_told_that_less_is_free_than_he_asks() -> None:
    """What x leaves the head waits for; none is free yet."""
    stopping = placed("x", "a", 4, on="n0:0,1,2,3", status=OpenStatus.STOPPING)
    busy = placed("y", "a", 4, on="n0:4,5,6,7", limit=60)
    reason = why([node("n0")], A, stopping, busy, waiting("head", "a", 8, submitted=90), waiting("w", "a", 2))
    assert (reason.message, reason.available_milli) == (
        "It asks for 2 GPUs, but would delay the start of head, which is ahead of it.",
        0,
    )


def test_nodes_without_gpus_are_said_to_have_none() -> None:
    """It has the label that is asked for, and nothing that could run there; another label would do."""
    nodes = [node("n0", 0, labels={"k": "v"}), node("n1", 4)]
    w = waiting("w", "a", 1, node_selector=(("k", "v"),))
    reason = why(nodes, A, w)
    assert (reason.code, reason.message, reason.next_step) == (
        "larger-than-any-node",
        "A pod asks for 1 GPU, but the nodes it may use have no GPUs.",
        "Change what it asks of the node, or choose another pool.",
    )
    assert why(nodes[:1], A, w).next_step == "Choose another pool."


@pytest.mark.parametrize(
    ("nodes", "fields", "sentence", "limit"),
    [
        (
            [node("n0", cpu_milli=8000)],
            {"cpu_milli": 4000},
            "It needs 4 pods of 1 GPU at once, but the pool main has room for 2 of them even when empty.",
            2_000,
        ),
        (
            [node("n0", 1), node("n1", 1, gpu_type="A100", gpu_memory_mib=40_960)],
            {"request": Memory(40_000)},
            "It needs 4 pods of 40000 MiB of GPU memory at once, but the pool main has room for 3 of them even when "
            "empty.",
            2_931,
        ),
        (
            [node("n0", 2, labels={"rack": "r0"}), node("n1", 8)],
            {"topology": Topology(required="rack")},
            "It needs 4 pods of 1 GPU inside one rack, but no rack of the pool main has room for more than 2 of them "
            "even when empty.",
            2_000,
        ),
        (
            [node("n0"), node("n1", 0, labels={"rack": "r0"})],
            {"pods": 1, "topology": Topology(required="rack")},
            "It needs a pod of 1 GPU inside one rack, but no rack of the pool main has room for any even when empty.",
            0,
        ),
    ],
)
def test_too_many_pods_are_counted_in_pods(
    nodes: list[NodeInfo], fields: dict[str, Any], sentence: str, limit: int
) -> None:
    """There may be GPUs enough, but not CPU; and pods take different parts of different GPUs."""
    reason = why(nodes, A, waiting("w", "a", **{"pods": 4, **fields}), topology=["rack"])
    assert (reason.message, reason.limit_milli) == (sentence, limit)


def test_guarantees_of_teams_above_are_named_where_they_count() -> None:
    teams = (team("top", reserved=4), team("a", "top", reserved=1), team("b", "top", reserved=1))
    rows = [placed("x", "b", 3, on="n0:0,1,2", priority=100), waiting("w", "a", 2, priority=100)]
    reason = why([node("n0")], teams, *rows)
    assert (reason.message, reason.next_step) == (
        "It asks for 2 GPUs reserved, but of the 3 guaranteed to a and the teams above it in the pool main "
        "only 1 is left.",
        "Wait for a reserved workload charged to these teams to end, or run it as elastic (priority below 100).",
    )


def test_a_taint_is_named_with_its_value() -> None:
    tainted = node("n0", taints=(Taint("gpu", "x", "NoSchedule"),))
    reason = why([tainted], A, waiting("w", "a", tolerations=(Toleration("gpu", "y"),)))
    assert reason.message == "No node of the pool main takes it: it does not tolerate the taint gpu=x."


def test_who_is_stopped_by_a_ceiling_is_told_of_it_whatever_has_grown_since() -> None:
    """At w's turn its guarantee was enough; what first has grown to is no reason to wait, but is in the number."""
    rows = [
        placed("x", "a", 0.5, on="n0:0 n0:0"),
        waiting("first", "a", 0.5, pods=2, min_pods=1, priority=100, submitted=90),
        waiting("w", "a", 2, priority=100),
    ]
    world = snapshot([node("n0", 1), node("n1", 2)], [team("a", reserved=2.5, maximum=3)], rows)
    found = schedule(world, NOW)
    assert [(wait.workload, wait.reason.code, numbers(wait.reason)) for wait in found.waits] == [
        ("w", "waiting-for-ceiling", (2_000, 1_000, 3_000))
    ]
    assert check(world, found, NOW) == ()


def test_of_two_at_one_ceiling_the_elastic_one_is_told_of_the_limit_that_stops_only_it() -> None:
    """Both are stopped by the maximum of p when their turns come. Then g grows: t's burst limit is passed too, not by
    the reserved one, most of which is charged above t."""
    nodes = [node("a0", 2, gpu_type="A100"), node("b0", 1, gpu_type="B200"), node("h0", 2)]
    teams = [
        team("top", reserved=9),
        team("p", "top", maximum=3),
        team("t", "p", reserved=1, burst_limit_percent=200),
        team("t2", "p"),
        team("o", "top"),
    ]
    rows = [
        placed("g", "t", on="a0:0", pods=2, min_pods=1, gpu_types=("A100",)),
        placed("in-the-way", "o", 2, on="h0:0,1", priority=100),
        placed("r", "t2", on="b0:0", priority=100),
        waiting("reserved", "t", 2, priority=120, gpu_types=("H100",)),
        waiting("elastic", "t", 2, priority=60, gpu_types=("H100",)),
    ]
    found = plan(nodes, teams, rows)
    told = {wait.workload: wait.reason.message for wait in found.waits}
    assert [grow.workload for grow in found.grows] == ["g"]
    assert told == {
        "reserved": "It asks for 2 GPUs, but none is left of the 3 that the maximum of p allows.",
        "elastic": "It asks for 2 GPUs, but only 1 is left of the 3 that the burst limit of t allows.",
    }


def test_where_there_is_no_pool_none_is_said_to_be_named() -> None:
    named = waiting("named", "a", pools=("gone",))
    found = schedule(Snapshot((), A, (), (waiting("w", "a"), named)), NOW)
    told = {wait.workload: wait.reason.message for wait in found.waits}
    assert told == {"w": "There is no pool yet.", "named": "None of the pools it names exists."}
