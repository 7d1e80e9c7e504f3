"""Reasons are true: nobody waits who would fit, and who makes the named change starts, or gets another reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduling.checker.room import Rooms, is_offered, refusal, share_on
from scheduling.engine import (
    GPU_MILLI,
    DataSet,
    DependencyState,
    ElasticPreemption,
    GpuShare,
    Memory,
    NodeInfo,
    OpenStatus,
    Plan,
    Policy,
    Queueing,
    Reason,
    ReasonCode,
    ReasonKind,
    Slicing,
    Snapshot,
    Topology,
    Wait,
    WorkloadInfo,
    schedule,
)
from scheduling.engine.reasons.sentences import CHANGE
from scheduling.tests.engine.audit import applied
from scheduling.tests.engine.build import NOW, node, placed, plan, pool, snapshot, team, waiting
from scheduling.tests.engine.worlds import worlds

examples = settings(max_examples=60, deadline=None)
NO_PLACE = (ReasonCode.WAITING_FOR_GPUS, ReasonCode.FRAGMENTED, ReasonCode.WAITING_FOR_TOPOLOGY)
FREE_FOR_ALL = Policy(queueing=Queueing.BEST_EFFORT_FIFO, elastic_preemption=ElasticPreemption.NEVER)


def alone(world: Snapshot, plan: Plan, wait: Wait) -> Plan:
    """What becomes of one who waits, in what a plan leaves of the pool he is told of, when nobody else is in the queue
    and all may pass: in another pool he may well stand behind somebody."""
    after = applied(world, plan, stopped=False)
    waits = {each.workload for each in plan.waits} - {wait.workload}
    gone = {row.workload for row in plan.preemptions}
    told = (wait.pool,) if wait.pool else None
    rows = tuple(
        replace(workload, pools=told) if told and workload.id == wait.workload else workload
        for workload in after.workloads
        if workload.id not in waits | gone
    )
    sharing = {pool.id: pool.policy.sharing for pool in world.pools}
    pools = tuple(
        replace(pool, policy=replace(FREE_FOR_ALL, sharing=sharing[pool.id])) for pool in world.pools
    )
    return schedule(replace(after, workloads=rows, pools=pools), NOW)


@given(worlds())
@examples
def test_nobody_waits_who_would_fit_without_victims(world: Snapshot) -> None:
    """Who is not told that he waits behind somebody finds no place, or no quota, even when all others are out of the
    queue; but what is emptying is not free for him."""
    found = schedule(world, NOW)
    if found.preemptions or found.shrinks:
        return
    for wait in found.waits:
        if wait.position is not None and wait.reason.code is not ReasonCode.BEHIND_RESERVATION:
            again = alone(world, found, wait)
            assert wait.workload not in {row.workload for row in again.starts if not row.victims}


OTHERS_USE_IT = snapshot(
    [node("n0", 1, foreign=1)], [team("a")], [waiting("w", "a", request=Memory(20_000), priority=10)]
)
"""The only GPU is used without Chamber."""


def free_for(world: Snapshot, plan: Plan, wait: Wait) -> int:
    """What a plan leaves free of the devices that somebody's pods may use."""
    workload = next(each for each in world.workloads if each.id == wait.workload)
    pool = next(each for each in world.pools if each.id == wait.pool)
    nodes = [node for node in world.nodes if node.pool == pool.id]
    rooms = Rooms(nodes)
    placed = {row.id: row.placements for row in world.workloads if row.status is not OpenStatus.PENDING}
    gets = [(row.workload, row.placements) for row in plan.starts]
    more = dict([*gets, *((row.workload, row.placements) for row in plan.grows)])
    unmade = {row.workload for row in plan.preemptions} & {
        row.id for row in world.workloads if row.status is OpenStatus.QUEUED
    }
    for row in world.workloads:
        rooms.take(row, () if row.id in unmade else placed.get(row.id, ()))
        rooms.take(row, more.get(row.id, ()))
    for shrink in plan.shrinks:
        row = next(each for each in world.workloads if each.id == shrink.workload)
        if row.status is OpenStatus.QUEUED:
            rooms.take(row, [pod for pod in row.placements if pod.pod_index in shrink.pods], -1)
    return sum(
        max(0, rooms.rooms[node.id].devices[device.index])
        for node in nodes
        if refusal(pool, node, workload) is None
        for device in node.devices
        if share_on(workload, node, device)
    )


GUARANTEE_USED_UP_SINCE = snapshot(
    [node("n0", 2), node("n1", 1)],
    [team("root"), team("left", "root", reserved=4, maximum=3), team("low", "left", burst_limit_percent=0)],
    [
        placed("runs", "low", on="n0:0 n0:1", priority=100),
        waiting("w", "low", pods=2, priority=100),
        waiting("x", "left", priority=100),
    ],
)
"""At its turn the maximum keeps w out. Then x starts, and w is told of a guarantee, not of a burst limit of 0."""


@given(worlds(most_pending=10))
@example(OTHERS_USE_IT)
@example(GUARANTEE_USED_UP_SINCE)
@examples
def test_everybody_who_waits_has_one_reason_with_true_numbers(world: Snapshot) -> None:
    found = schedule(world, NOW)
    assert max(Counter(wait.workload for wait in found.waits).values(), default=1) == 1
    for wait in found.waits:
        reason = wait.reason
        if reason.code in NO_PLACE:
            free = free_for(world, found, wait)
            assert reason.available_milli == free
            assert (reason.code is ReasonCode.WAITING_FOR_GPUS) == (free < (reason.asked_milli or 0))
        if reason.code in (ReasonCode.WAITING_FOR_CEILING, ReasonCode.WAITING_FOR_RESERVATION):
            assert (reason.available_milli or 0) < (reason.asked_milli or 0) <= (reason.limit_milli or 0)
        if reason.kind is ReasonKind.CHANGE and reason.limit_milli is not None:
            assert reason.asked_milli is None or reason.asked_milli > reason.limit_milli


def _fewer(workload: WorkloadInfo, reason: Reason) -> WorkloadInfo:
    """It with so many pods as the limit allows, or, for a single pod, with so much."""
    limit, pod = reason.limit_milli or 0, (reason.asked_milli or 0) // workload.min_pods
    pods = max(1, min(workload.min_pods, limit // pod))
    if pods * pod <= limit:
        return replace(workload, pods=pods, min_pods=pods)
    most = limit if limit < GPU_MILLI else limit // GPU_MILLI * GPU_MILLI
    return replace(workload, pods=1, min_pods=1, request=GpuShare(most))


def _smaller(workload: WorkloadInfo, reason: Reason) -> WorkloadInfo:
    """It as one pod with less of that which the sentence says there is too little of: of GPUs where a number is named,
    else of CPU or of memory, and where no GPU's memory is known, a whole GPU."""
    row = replace(workload, pods=1, min_pods=1)
    if reason.limit_milli is not None:
        return _fewer(row, reason)
    if reason.asked_milli is None:
        return replace(row, request=GpuShare(GPU_MILLI))
    return replace(row, cpu_milli=0) if " CPU" in reason.message else replace(row, memory_mib=0)


def _anywhere(workload: WorkloadInfo, _: Reason) -> WorkloadInfo:
    """It as a whole GPU with no demands on nodes; which partition it names, :func:`_after_change` says."""
    return replace(workload, node_selector=(), request=GpuShare(GPU_MILLI), cpu_milli=0)


NO_NAME = "none that has a name"
"""What is told where slices go by name only and have none: then nobody can make the change."""


def _of_a_type_that_there_is(workload: WorkloadInfo, reason: Reason) -> WorkloadInfo:
    if workload.gpu_types:
        return replace(workload, gpu_types=())
    named = reason.message.rpartition("name them: ")[2].rstrip(".").split(" or ")
    return replace(workload, gpu_types=tuple(named), request=GpuShare(1000))


REMEDIES: dict[ReasonCode, Callable[[WorkloadInfo, Reason], WorkloadInfo]] = {
    ReasonCode.HELD: lambda workload, _: replace(workload, held=False),
    ReasonCode.DEPENDENCY_FAILED: lambda workload, _: replace(workload, dependency=DependencyState.NONE),
    ReasonCode.DATA_ELSEWHERE: lambda workload, _: replace(workload, data=()),
    ReasonCode.NO_MATCHING_GPU_TYPE: _of_a_type_that_there_is,
    ReasonCode.NO_MATCHING_NODES: _anywhere,
    ReasonCode.LARGER_THAN_ANY_NODE: _smaller,
    ReasonCode.LARGER_THAN_POOL: _fewer,
    ReasonCode.TOPOLOGY_IMPOSSIBLE: lambda workload, _: replace(workload, topology=Topology()),
    ReasonCode.EXCEEDS_RESERVATION: lambda workload, _: replace(workload, priority=50),
    ReasonCode.EXCEEDS_CEILING: _fewer,
}


def test_every_reason_that_the_user_can_change_has_a_change() -> None:
    assert set(REMEDIES) == CHANGE


def _usable(world: Snapshot) -> list[NodeInfo]:
    return [each for each in world.nodes if each.ready and not each.cordoned and each.cluster_online]


def _after_change(world: Snapshot, wait: Wait) -> tuple[Plan, Wait | None]:
    """The plan when one who waits makes the change he is told, and how he waits then: with the demands that a node
    meets which has GPUs for it, as far as there is one."""
    change = REMEDIES[wait.reason.code]
    row = change(next(row for row in world.workloads if row.id == wait.workload), wait.reason)
    if wait.reason.code is ReasonCode.NO_MATCHING_NODES:
        with_gpus = [each for each in _usable(world) if any(is_offered(row, gpu) for gpu in each.devices)]
        where = (with_gpus or _usable(world))[0]
        row = replace(row, partition=where.partition, pools=(where.pool,))
    rows = tuple(row if each.id == row.id else each for each in world.workloads)
    again = schedule(replace(world, workloads=rows), NOW)
    return again, next((each for each in again.waits if each.workload == wait.workload), None)


SLICES_AND_A_LAB = snapshot(
    [
        node("n0", 1, slices=Slicing.MIG, gpu_type="mig", share=286, gpu_memory_mib=20480),
        node("n1", 1, partition="lab"),
    ],
    [team("a")],
    [waiting("w", "a")],
    pool(queueing=Queueing.STRICT_FIFO),
)
"""The only GPU belongs to a partition; the node of no partition has a slice."""


@given(worlds(), st.integers(0, 5))
@example(SLICES_AND_A_LAB, 0)
@settings(max_examples=120, deadline=None)
def test_who_makes_the_named_change_starts_or_has_another_reason(world: Snapshot, pick: int) -> None:
    """Where a limit is zero, only an admin can help, and where no node takes anything, nobody."""
    if not _usable(world):
        return
    waits = [
        wait
        for wait in schedule(world, NOW).waits
        if wait.reason.kind is ReasonKind.CHANGE
        and wait.reason.limit_milli != 0
        and NO_NAME not in wait.reason.message
    ]
    if waits:
        wait = waits[pick % len(waits)]
        _, left = _after_change(world, wait)
        assert left is None or left.reason != wait.reason


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("held", {"held": True}),
        ("data-elsewhere", {"data": (DataSet("imagenet", ("east",)),)}),
        ("dependency-failed", {"dependency": DependencyState.FAILED}),
        ("no-matching-gpu-type", {"gpu_types": ("B200",)}),
        ("no-matching-nodes", {"partition": "lab"}),
        ("larger-than-any-node", {"request": GpuShare(9_000)}),
        ("larger-than-pool", {"pods": 17, "min_pods": 17}),
        ("topology-impossible", {"pods": 9, "min_pods": 9, "topology": Topology(required="node")}),
        ("exceeds-reservation", {"priority": 100}),
        ("exceeds-ceiling", {"pods": 13, "min_pods": 13}),
    ],
)
def test_each_change_by_itself_makes_it_start(code: str, fields: dict[str, object]) -> None:
    rows = [replace(waiting("w", "a"), **fields)]  # type: ignore[arg-type]
    world = snapshot(
        [node("n0"), node("n1")], [team("a", maximum=20 if code.startswith("larger") else 12)], rows
    )
    found = plan(world.nodes, world.teams, rows)
    assert found.waits[0].reason.code == code
    again, _ = _after_change(world, found.waits[0])
    assert [start.workload for start in again.starts] == ["w"]
