"""Small random organisations for property tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from scheduling.engine import (
    AfterDeadline,
    DependencyState,
    DeviceShare,
    ElasticPreemption,
    Fairness,
    GpuShare,
    Memory,
    NodeInfo,
    NodeOrder,
    OpenStatus,
    PeakHours,
    PodPlacement,
    Policy,
    PoolInfo,
    Queueing,
    Slicing,
    Snapshot,
    TeamInfo,
    TeamShare,
    WeeklyHours,
    WorkloadInfo,
)
from scheduling.tests.engine.build import MINUTE, NOW, node, pool

TYPES = (("A100",), ("A100",), ("mig",), ("mig",), ("shared",), ("mig", "H100"))
TEAMS = ("root", "left", "right", "left-a", "left-b")
PARENTS = {"left": "root", "right": "root", "left-a": "left", "left-b": "left"}


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Any policy."""
    return Policy(
        queueing=draw(st.sampled_from(Queueing)),
        elastic_preemption=draw(st.sampled_from(ElasticPreemption)),
        placement=draw(st.sampled_from(NodeOrder)),
        fairness=draw(st.sampled_from(Fairness)),
        min_runtime_ms=draw(st.sampled_from([0, 10 * MINUTE])),
        max_preemptions=draw(st.sampled_from([None, None, 1])),
        default_time_limit_ms=draw(st.sampled_from([None, 60 * MINUTE])),
        peak=draw(st.one_of(st.none(), st.none(), peaks())),
    )


@st.composite
def peaks(draw: st.DrawFn) -> PeakHours:
    """Hours around now, or soon."""
    now = datetime.fromtimestamp(NOW / 1000, UTC)
    minute = now.weekday() * 24 * 60 + now.hour * 60 + now.minute
    start = minute + draw(st.sampled_from([-60, -5, 15, 75]))
    hours = (WeeklyHours(start, start + draw(st.sampled_from([60, 180]))),)
    limit, classes = draw(
        st.sampled_from([(1000, ()), (2000, ("training",)), (None, ("training",)), (0, ())])
    )
    return PeakHours(hours, "UTC", limit, classes)


@st.composite
def nodes(draw: st.DrawFn, pools: tuple[PoolInfo, ...]) -> tuple[NodeInfo, ...]:
    """Up to six nodes of up to four GPUs, some of them odd in one way."""
    oddities: list[dict[str, Any]] = [
        {"cordoned": True},
        {"ready": False},
        {"cluster": "far"},
        {"cluster": "gone", "cluster_online": False},
        {"gpu_type": "A100", "gpu_memory_mib": 40960},
        {"labels": {"rack": "r1"}},
        {"partition": "lab"},
        {"gpu_memory_mib": 16384},
        {"gpu_memory_mib": None},
        {"cpu_milli": 4000},
        {"cpu_milli": 500},
        {"foreign": 1},
        {"foreign": 4},
        {"sharing": False},
        {"slices": Slicing.MIG, "gpu_type": "mig", "share": 286, "gpu_memory_mib": 20480},
        {"slices": Slicing.MIG, "gpu_type": "mig", "share": 143, "gpu_memory_mib": 10240},
        {"slices": Slicing.REPLICAS, "gpu_type": "shared", "share": 250, "gpu_memory_mib": 20480},
        {"slices": Slicing.REPLICAS, "gpu_type": "shared", "share": 500, "sharing": False},
    ]
    found = []
    for index in range(draw(st.integers(1, 6))):
        odd: dict[str, Any] = draw(st.one_of(st.just({}), st.sampled_from(oddities)))
        where = draw(st.sampled_from(pools)).id
        found.append(node(f"n{index}", draw(st.integers(1, 4)), pool=where, **odd))
    return tuple(found)


@st.composite
def teams(draw: st.DrawFn, pools: tuple[PoolInfo, ...]) -> tuple[TeamInfo, ...]:
    """Two levels of teams with any quotas."""
    found = []
    for name in TEAMS:
        shares = tuple(
            TeamShare(
                each.id,
                draw(st.sampled_from([0, 0, 1000, 2000, 4000])),
                draw(st.sampled_from([None, None, None, 3000])),
                draw(st.integers(0, 5)) * 3_600_000,
            )
            for each in pools
        )
        found.append(
            TeamInfo(
                name,
                name,
                PARENTS.get(name),
                weight=draw(st.integers(0, 3)),
                burst_limit_percent=draw(st.sampled_from([None, None, None, 0, 50, 100])),
                maximum_milli=draw(st.sampled_from([None, None, None, 5000])),
                shares=shares,
            )
        )
    return tuple(found)


@st.composite
def pending(draw: st.DrawFn, /, index: int, pools: tuple[PoolInfo, ...], **fixed: Any) -> WorkloadInfo:
    """A waiting workload."""
    pods = draw(st.sampled_from([1, 1, 1, 2, 3]))
    rare = st.integers(0, 9)
    fields: dict[str, Any] = {
        "request": draw(
            st.sampled_from(
                [GpuShare(1000), GpuShare(1000), GpuShare(2000), GpuShare(500), GpuShare(250), Memory(20000)]
            )
        ),
        "priority": draw(st.sampled_from([10, 50, 50, 50, 90, 100, 120])),
        "pods": pods,
        "min_pods": draw(st.sampled_from([pods, pods, 1])),
        "pools": draw(st.sampled_from([None, (pools[-1].id,), tuple(each.id for each in reversed(pools))])),
        "cpu_milli": draw(st.sampled_from([0, 0, 1000])),
        "gpu_types": draw(st.sampled_from(TYPES)) if draw(rare) < 2 else (),
        "node_selector": (("rack", "r1"),) if draw(rare) == 0 else (),
        "partition": "lab" if draw(rare) == 0 else None,
        "submitted_at": NOW - draw(st.integers(1, 5)) * MINUTE,
        "time_limit_ms": draw(st.sampled_from([None, 10 * MINUTE, 90 * MINUTE])),
        "preemptions_24h": draw(st.integers(0, 1)),
        "held": draw(rare) == 0,
        "start_after": NOW + draw(st.sampled_from([-MINUTE, 0, 10 * MINUTE])) if draw(rare) == 0 else None,
        "deadline": NOW + draw(st.sampled_from([-MINUTE, 0, 20 * MINUTE])) if draw(rare) == 0 else None,
        "on_deadline": draw(st.sampled_from(AfterDeadline)),
        "job_class": draw(st.sampled_from(["", "", "training"])),
        "dependency": draw(st.sampled_from(DependencyState)) if draw(rare) == 0 else DependencyState.NONE,
        **fixed,
    }
    return WorkloadInfo(f"w{index}", f"w{index}", draw(st.sampled_from(TEAMS)), **fields)


@st.composite
def worlds(draw: st.DrawFn, *, most_pending: int = 6, several_pools: bool = True) -> Snapshot:
    """An organisation with some workloads placed where they fit, and some waiting."""
    names = ("main", "spare") if several_pools and draw(st.booleans()) else ("main",)
    pools = tuple(PoolInfo(name, name, draw(policies())) for name in names)
    fleet = draw(nodes(pools))
    free = {
        (each.id, device.index): 0 if device.foreign else device.share_milli
        for each in fleet
        for device in each.devices
    }
    workloads = []
    for index in range(draw(st.integers(0, 8))):
        found = _put(draw, index, fleet, free)
        if found is not None:
            workloads.append(found)
    waiting = draw(st.integers(1, most_pending))
    workloads.extend(draw(pending(100 + index, pools)) for index in range(waiting))
    return Snapshot(pools, draw(teams(pools)), fleet, tuple(workloads))


def _put(
    draw: st.DrawFn, index: int, fleet: tuple[NodeInfo, ...], free: dict[tuple[str, int], int]
) -> WorkloadInfo | None:
    """A placed workload of one to three pods on one node, if there is room."""
    where = draw(st.sampled_from(fleet))
    is_cut = where.devices[0].slicing is not Slicing.WHOLE
    milli = 1000 if is_cut else draw(st.sampled_from([1000, 1000, 2000, 500]))
    part = where.devices[0].share_milli if is_cut else min(milli, 1000)
    wanted = draw(st.integers(1, 3))
    placements: list[PodPlacement] = []
    for _ in range(wanted):
        fitting = [device.index for device in where.devices if free[where.id, device.index] >= part]
        devices = fitting[: max(1, milli // 1000)]
        if len(devices) * 1000 < milli:
            break
        for device in devices:
            free[where.id, device] -= part
        shares = tuple(DeviceShare(device, part) for device in devices)
        placements.append(PodPlacement(len(placements), where.id, shares))
    if not placements:
        return None
    status = draw(
        st.sampled_from(
            [
                OpenStatus.RUNNING,
                OpenStatus.RUNNING,
                OpenStatus.QUEUED,
                OpenStatus.STARTING,
                OpenStatus.STOPPING,
            ]
        )
    )
    pods = len(placements) + draw(st.integers(0, 1))
    fixed: dict[str, Any] = {
        "request": GpuShare(milli),
        "pods": pods,
        "min_pods": draw(st.integers(1, len(placements))),
        "cpu_milli": 0,
        "held": False,
        "dependency": DependencyState.NONE,
        "gpu_types": (where.devices[0].gpu_type,) if is_cut else (),
        "node_selector": (),
        "partition": where.partition,
        "status": status,
        "pool": where.pool,
        "placements": tuple(placements),
        "started_at": NOW - draw(st.integers(1, 30)) * MINUTE if status is OpenStatus.RUNNING else None,
    }
    return draw(pending(index, (pool(where.pool),), **fixed))
