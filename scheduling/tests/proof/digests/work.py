"""Work of random organisations: some of it is placed where it fits, some of it waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from scheduling.engine import (
    GPU_MILLI,
    RESERVED_PRIORITY,
    AfterPreemption,
    DependencyState,
    DeviceInfo,
    DeviceShare,
    GpuShare,
    Memory,
    NodeInfo,
    OpenStatus,
    PodPlacement,
    PoolInfo,
    Request,
    Slicing,
    TeamInfo,
    Toleration,
    Topology,
    WorkloadInfo,
)
from scheduling.tests.engine.build import MINUTE, NOW


@dataclass(frozen=True, slots=True)
class Style:
    """What work is like: to which part the nodes are ``full``, how many pods ``gangs`` have; of how many different
    requests those that wait are drawn (``alike``; 0: each has its own); whether newcomers are more important than what
    runs (``urgent``), many of them ``reserved``, and as ``large`` as a rack. ``equal``: hardly any priority differs.
    ``close``: gangs of small pods, most of which want to be near each other."""

    full: tuple[float, ...] = (0.0, 0.5, 0.9, 1.0, 1.0)
    gangs: tuple[int, ...] = (1, 1, 1, 1, 2, 3, 4)
    alike: int = 0
    urgent: bool = False
    reserved: bool = False
    large: bool = False
    equal: bool = False
    close: bool = False

    def priorities(self) -> tuple[int, ...]:
        """Those of newcomers."""
        if self.equal:
            return (40, 50, 50, 50, 50, 60, 100)
        if self.reserved:
            return (50, 90, 100, 100, 100, 110, 120)
        return (50, 50, 60, 90, 100, 100, 120) if self.urgent else (10, 50, 50, 50, 60, 90, 100, 120)


STATUSES = (
    *(OpenStatus.RUNNING,) * 10,
    *(OpenStatus.QUEUED,) * 2,
    *(OpenStatus.STARTING,) * 2,
    *(OpenStatus.STOPPING,) * 3,
)
SETTLED = (*(OpenStatus.RUNNING,) * 30, OpenStatus.QUEUED, OpenStatus.STARTING, OpenStatus.STOPPING)
PRIORITIES = (10, 10, 20, 40, 50, 50, 50, 60, 90, 100)
EQUAL = (40, 50, 50, 50, 50, 50, 50, 50)
SHARES = (1000, 1000, 1000, 1000, 1000, 2000, 2000, 4000, 8000, 500, 500, 250, 750, 460)
ODD_WISHES: tuple[dict[str, Any], ...] = (
    {"gpu_types": ("H100", "A100", "H100")},
    {"gpu_types": ("mig-3g", "mig-1g", "mig-7g")},
    {"gpu_types": ("mig-3g", "H100")},
    {"gpu_types": ("shared",)},
    {"gpu_types": ("B200",)},
    {"node_selector": (("rack", "r1"),)},
    {"node_selector": (("disk", "fast"),)},
    {"partition": "lab"},
    {"tolerations": (Toleration("odd"),)},
    {"tolerations": (Toleration("team", "nlp"), Toleration("odd", ""))},
    {"topology": Topology(required="row")},
    {"memory_mib": 32},
    {"cpu_milli": 1000},
    {"cpu_milli": 4000, "memory_mib": 16},
)
PLACES = (
    *(Topology(required="rack"),) * 3,
    Topology(required="block"),
    Topology(required="node"),
    Topology(preferred="rack"),
    Topology(preferred="node"),
    Topology(required="block", preferred="rack"),
    Topology(required="rack", preferred="node"),
)


@dataclass(frozen=True, slots=True)
class Around:
    """What newcomers find: nodes, teams and pools."""

    nodes: Sequence[NodeInfo]
    teams: Sequence[TeamInfo]
    pools: Sequence[PoolInfo]


def waiting(chance: Random, style: Style, number: int, around: Around) -> list[WorkloadInfo]:
    """So many workloads that wait."""
    requests = [_request(chance, style, around) for _ in range(style.alike or number)]
    guaranteed = [team for team in around.teams if any(share.reservation_milli for share in team.shares)]
    found = []
    for index in range(number):
        fields = chance.choice(requests) if style.alike else requests[index]
        name, priority = f"q{index:03d}", chance.choice(style.priorities())
        likely = guaranteed if priority >= RESERVED_PRIORITY and chance.random() < 0.8 else []
        found.append(
            WorkloadInfo(
                name,
                f"Q{index}",
                chance.choice(likely or around.teams).id,
                priority=priority,
                submitted_at=NOW - chance.randint(0, 12) * MINUTE,
                **fields,
                **_circumstances(chance),
            )
        )
    return found


def _request(chance: Random, style: Style, around: Around) -> dict[str, Any]:
    """What a workload asks for."""
    pods, names = chance.choice(style.gangs), tuple(pool.id for pool in around.pools)
    request = _size(chance)
    if style.large and chance.random() < 0.6:
        pods = chance.choice((2, 4, 6, 8, 12, 20))
        request = GpuShare(
            chance.choice((2000, 4000, 8000, max(1, len(around.nodes[0].devices)) * GPU_MILLI))
        )
    if style.close:
        request = GpuShare(chance.choice(SHARES[:7]))
    return {
        "request": request,
        "pods": pods,
        "min_pods": chance.choice((pods, pods, pods, 1, (pods + 1) // 2)),
        "pools": chance.choice((None, None, names[:1], names[-1:], names[::-1], (*names[:1], "nowhere"))),
        "time_limit_ms": chance.choice((None, None, None, 10 * MINUTE, 45 * MINUTE, 90 * MINUTE)),
        **_wish(chance, around, style),
    }


def _size(chance: Random) -> Request:
    """What a pod asks for of GPUs; of a few traces nothing."""
    fate = chance.random()
    if fate < 0.06:
        return Memory(chance.choice((8_000, 20_000, 60_000)))
    return GpuShare(0 if fate < 0.07 else chance.choice(SHARES))


def _wish(chance: Random, around: Around, style: Style) -> dict[str, Any]:
    """What else it asks for: mostly nothing, or what some node has; at times what there may not be at all."""
    fate = chance.random() + (0.25 if style.close else 0.0)
    if fate < 0.12:
        return chance.choice(ODD_WISHES)
    if fate < 0.3:
        devices = chance.choice(around.nodes).devices
        return {"gpu_types": (devices[0].gpu_type,)} if devices else {}
    near = 1.15 if style.close else 0.8 if style.large else 0.6
    return {"topology": chance.choice(PLACES)} if fate < near and around.pools[0].topology else {}


def _circumstances(chance: Random) -> dict[str, Any]:
    """What may keep a workload out of the queue, and what becomes of it when it yields."""
    found: dict[str, Any] = {"preemptions_24h": chance.choice((0, 0, 0, 0, 1, 2, 3))}
    if chance.random() < 0.05:
        found["held"] = True
    if chance.random() < 0.05:
        found["dependency"] = chance.choice(tuple(DependencyState))
    if chance.random() < 0.06:
        found["backing_off_until"] = NOW + chance.choice((-5, -1, 0, 1, 3, 30)) * MINUTE
    if chance.random() < 0.1:
        found["on_preemption"] = AfterPreemption.STOP
    return found


# --- Placed -------------------------------------------------------------------------------------------------------


class Free:
    """What is left of the nodes: ``held`` counts what exists, ``promised`` what is given to a workload. One that is
    stopping counts in the first only, one that is queued in the second only."""

    def __init__(self, nodes: Sequence[NodeInfo]) -> None:
        self.held = {node.id: _sizes(node) for node in nodes}
        self.promised = {node.id: _sizes(node) for node in nodes}

    def take(
        self, node: NodeInfo, wanted: int, milli: int, status: OpenStatus
    ) -> tuple[DeviceShare, ...] | None:
        """So many devices of a node, of each so much, or all of it where it is a slice; none if they are not free."""
        found: list[DeviceShare] = []
        for device in node.devices:
            part = _part(device, milli)
            if len(found) < wanted and all(
                kept_pool[device.index] >= part for kept_pool in self._kept_pool(node, status)
            ):
                found.append(DeviceShare(device.index, part))
        if len(found) < wanted:
            return None
        for share in found:
            for kept_pool in self._kept_pool(node, status):
                kept_pool[share.index] -= share.milli
        return tuple(found)

    def _kept_pool(self, node: NodeInfo, status: OpenStatus) -> Iterator[dict[int, int]]:
        if status is not OpenStatus.QUEUED:
            yield self.held[node.id]
        if status is not OpenStatus.STOPPING:
            yield self.promised[node.id]


def _sizes(node: NodeInfo) -> dict[int, int]:
    return {device.index: 0 if device.foreign else device.share_milli for device in node.devices}


def _part(device: DeviceInfo, milli: int) -> int:
    return min(milli, GPU_MILLI) if device.slicing is Slicing.WHOLE else device.share_milli


def placed(
    chance: Random, style: Style, nodes: Sequence[NodeInfo], teams: Sequence[TeamInfo]
) -> list[WorkloadInfo]:
    """Workloads on the nodes, until these are as full as they are to be, or a few in a row have found no place."""
    free, found, failures = Free(nodes), list[WorkloadInfo](), 0
    owners = chance.sample(teams, (len(teams) + 1) // 2) if chance.random() < 0.6 else teams
    most = chance.choice(style.full) * sum(sum(_sizes(node).values()) for node in nodes)
    used = 0
    while used < most and failures < 6:
        workload = _put(chance, style, nodes, free, f"p{len(found):03d}")
        if workload is None:
            failures += 1
            continue
        used += sum(pod.milli for pod in workload.placements)
        found.append(replace(workload, team=chance.choice(owners).id))
    return found


def _put(
    chance: Random, style: Style, nodes: Sequence[NodeInfo], free: Free, name: str
) -> WorkloadInfo | None:
    """A workload on nodes of one pool and cluster, beginning anywhere, each pod on the first that takes it."""
    first = chance.randrange(len(nodes))
    around = [*nodes[first:], *nodes[:first]]
    there = [
        node for node in around if (node.pool, node.cluster) == (nodes[first].pool, nodes[first].cluster)
    ]
    status = chance.choice(SETTLED if style.large else STATUSES)
    milli = chance.choice(SHARES[:7] if style.close else SHARES[:9] if style.large else SHARES)
    pods = list(_pods(there, free, status, milli, chance.choice(style.gangs)))
    if not pods:
        return None
    is_cut = any(device.slicing is not Slicing.WHOLE for device in there[0].devices)
    wanted = len(pods) + chance.choice((0, 0, 0, 1, 2))
    started = chance.choice((1, 3, 8, 15, 30, 45, 300))
    return WorkloadInfo(
        name,
        name.upper(),
        "",
        GpuShare(GPU_MILLI) if is_cut else GpuShare(milli),
        priority=chance.choice(EQUAL if style.equal else PRIORITIES),
        pods=wanted,
        min_pods=chance.randint(1, len(pods)),
        gpu_types=(there[0].devices[0].gpu_type,) if is_cut else (),
        partition=there[0].partition,
        status=status,
        pool=there[0].pool,
        placements=tuple(pods),
        submitted_at=NOW - 400 * MINUTE + chance.randint(0, 20) * MINUTE,
        started_at=NOW - started * MINUTE if status is OpenStatus.RUNNING else None,
        checkpointed_at=NOW - chance.choice((1, 20, 400)) * MINUTE if chance.random() < 0.2 else None,
        time_limit_ms=chance.choice((None, None, 20 * MINUTE, 60 * MINUTE, 120 * MINUTE)),
        preemptions_24h=chance.choice((0, 0, 0, 1, 2)),
        on_preemption=chance.choice(tuple(AfterPreemption)),
    )


def _pods(
    nodes: Sequence[NodeInfo], free: Free, status: OpenStatus, milli: int, number: int
) -> Iterator[PodPlacement]:
    """As many of so many pods as find a place."""
    index = 0
    for node in nodes:
        while index < number and node.devices:
            wanted = 1 if node.devices[0].slicing is not Slicing.WHOLE else max(1, milli // GPU_MILLI)
            devices = free.take(node, wanted, milli, status)
            if devices is None:
                break
            yield PodPlacement(index, node.id, devices)
            index += 1
