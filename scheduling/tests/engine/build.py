"""Small snapshots for the engine's tests, in GPUs and minutes instead of milli-GPUs and milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from scheduling.engine import (
    GPU_MILLI,
    DeviceInfo,
    DeviceShare,
    GpuShare,
    NodeInfo,
    OpenStatus,
    Plan,
    PodPlacement,
    Policy,
    PoolInfo,
    Slicing,
    Snapshot,
    TeamInfo,
    TeamShare,
    WorkloadInfo,
    labels_of,
    schedule,
)

NOW = 1_800_000_000_000
MINUTE = 60_000


def milli(gpus: float) -> int:
    """GPUs in milli-GPUs."""
    return round(gpus * GPU_MILLI)


def pool(
    name: str = "main", *, topology: Sequence[str] = (), paused: bool = False, **policy: Any
) -> PoolInfo:
    """A pool; further keywords go to its policy."""
    return PoolInfo(name, name, Policy(**policy), tuple(topology), paused=paused)


def node(name: str, gpus: int = 8, *, labels: dict[str, str] | None = None, **fields: Any) -> NodeInfo:
    """A node with so many H100s of 80 GiB, or with so many ``slices``, each of a ``share`` in milli-GPUs."""
    gpu_type, foreign = fields.pop("gpu_type", "H100"), fields.pop("foreign", 0)
    memory, slicing = fields.pop("gpu_memory_mib", 81920), fields.pop("slices", Slicing.WHOLE)
    share = fields.pop("share", GPU_MILLI)
    devices = tuple(
        DeviceInfo(index, gpu_type, memory, index >= gpus - foreign, slicing, share) for index in range(gpus)
    )
    return NodeInfo(name, name, fields.pop("pool", "main"), devices, labels=labels_of(labels or {}), **fields)


def team(
    name: str, parent: str | None = None, *, reserved: float = 0, pool: str = "main", **fields: Any
) -> TeamInfo:
    """A team with a reservation in GPUs; ``maximum``, ``usage_hours`` likewise."""
    maximum = fields.pop("maximum", None)
    usage = fields.pop("usage_hours", 0)
    share = TeamShare(pool, milli(reserved), None, usage * 60 * MINUTE)
    return TeamInfo(
        name,
        name,
        parent,
        maximum_milli=None if maximum is None else milli(maximum),
        shares=(share,),
        **fields,
    )


def waiting(
    name: str, team: str, gpus: float = 1, *, pods: int = 1, priority: int = 50, **fields: Any
) -> WorkloadInfo:
    """A pending workload, submitted ``submitted`` minutes before now."""
    fields.setdefault("min_pods", pods)
    fields.setdefault("submitted_at", NOW - fields.pop("submitted", 60) * MINUTE)
    fields.setdefault("request", GpuShare(milli(gpus)))
    if "limit" in fields:
        fields["time_limit_ms"] = fields.pop("limit") * MINUTE
    return WorkloadInfo(name, name, team, pods=pods, priority=priority, **fields)


def placed(
    name: str, team: str, gpus: float = 1, *, on: str, status: OpenStatus = OpenStatus.RUNNING, **fields: Any
) -> WorkloadInfo:
    """A placed workload. ``on`` says where each pod lies: ``"n0:0 n0:1,2"`` is device 0 and devices 1 and 2 of n0.
    ``share``: what it holds of each, where they are slices."""
    started = fields.pop("started", 30)
    share = fields.pop("share", milli(gpus) if gpus < 1 else GPU_MILLI)
    placements = tuple(_pod(index, spot, share) for index, spot in enumerate(on.split()))
    fields.setdefault("pods", len(placements))
    workload = waiting(name, team, gpus, **fields)
    return replace(
        workload,
        status=status,
        pool=fields.get("pool", "main"),
        placements=placements,
        started_at=NOW - started * MINUTE if status is OpenStatus.RUNNING else None,
    )


def _pod(index: int, spot: str, share: int) -> PodPlacement:
    name, _, devices = spot.partition(":")
    return PodPlacement(index, name, tuple(DeviceShare(int(each), share) for each in devices.split(",")))


def snapshot(
    nodes: Iterable[NodeInfo], teams: Iterable[TeamInfo], workloads: Iterable[WorkloadInfo], *pools: PoolInfo
) -> Snapshot:
    """A snapshot; without pools, of the one called main with the default policy."""
    return Snapshot(pools or (pool(),), tuple(teams), tuple(nodes), tuple(workloads))


def plan(
    nodes: Iterable[NodeInfo], teams: Iterable[TeamInfo], workloads: Iterable[WorkloadInfo], *pools: PoolInfo
) -> Plan:
    """What the engine decides."""
    return schedule(snapshot(nodes, teams, workloads, *pools), NOW)


def started(plan: Plan) -> set[str]:
    """Ids of those that start."""
    return {start.workload for start in plan.starts}


def preempted(plan: Plan) -> set[str]:
    """Ids of those that are preempted."""
    return {preemption.workload for preemption in plan.preemptions}


def waits(plan: Plan) -> dict[str, str]:
    """Those that wait, with the code of the reason."""
    return {wait.workload: str(wait.reason.code) for wait in plan.waits}


def nodes_of(plan: Plan, workload: str) -> list[str]:
    """The nodes a started workload's pods go to."""
    start = next(start for start in plan.starts if start.workload == workload)
    return sorted({pod.node for pod in start.placements})


def uncordon(names: str) -> str:
    """The command that has cordoned nodes take new pods again."""
    return f"kubectl uncordon {names}"


def end_drain(names: str) -> str:
    """The command that has nodes take new pods again that Chamber drains."""
    return f"kubectl annotate node {names} chamber.internal/drain-elastic-at- chamber.internal/drain-reserved-at-"
