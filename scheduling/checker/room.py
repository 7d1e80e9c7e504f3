"""Who may lie where, and how many pods fit beside others: nodes, devices, domains (sections 1 and 5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduling.engine.model.snapshot import (
    GPU_MILLI,
    DeviceInfo,
    Memory,
    NodeInfo,
    PodPlacement,
    PoolInfo,
    Sharing,
    Slicing,
    Taint,
    WorkloadInfo,
)

Domain = tuple[str, ...]


def is_whole(workload: WorkloadInfo) -> bool:
    """Whether its pods take whole devices."""
    return not isinstance(workload.request, Memory) and workload.request.milli >= GPU_MILLI


def devices_per_pod(workload: WorkloadInfo) -> int:
    """How many devices each of its pods takes."""
    if isinstance(workload.request, Memory):
        return 1
    return max(1, workload.request.milli // GPU_MILLI)


def is_slice(device: DeviceInfo) -> bool:
    """Whether it is no GPU of its own, but was cut from one."""
    return device.slicing is not Slicing.WHOLE


def is_offered(workload: WorkloadInfo, device: DeviceInfo) -> bool:
    """Whether its type is asked for: by its name, or, where none is named, as a GPU, of which a replica is a part."""
    if workload.gpu_types:
        return device.gpu_type in workload.gpu_types
    if is_whole(workload):
        return device.slicing is Slicing.WHOLE
    return device.slicing is not Slicing.MIG


def is_closed(workload: WorkloadInfo, device: DeviceInfo) -> bool:
    """Whether others share it than those whom its pods may share with; who takes all of it shares nothing."""
    return not is_whole(workload) and device.shared_by not in (None, *workload.shares_with)


def lies_on_slices(workload: WorkloadInfo, node: NodeInfo) -> bool | None:
    """Whether slices are what a gang that names types takes of a node, not GPUs: it never has both. Of a node with both
    it takes what it names first. ``None`` where that is not asked: of others."""
    if workload.pods < 2 or not workload.gpu_types:
        return None
    found = [
        (workload.gpu_types.index(device.gpu_type), is_slice(device))
        for device in node.devices
        if takes(workload, node, device) and not is_closed(workload, device)
    ]
    return min(found)[1] if found else None


def devices_for(workload: WorkloadInfo, node: NodeInfo) -> list[DeviceInfo]:
    """The devices of a node, of one with both only the GPUs or only the slices for a gang that lies on one of these."""
    sliced = lies_on_slices(workload, node)
    return [device for device in node.devices if sliced is None or is_slice(device) == sliced]


def sorts_of(nodes: Mapping[str, NodeInfo], pods: Iterable[PodPlacement]) -> set[bool]:
    """Whether pods lie on slices, on GPUs, or on both."""
    found = set()
    for pod in pods:
        node, indexes = nodes.get(pod.node), {share.index for share in pod.devices}
        found |= {is_slice(each) for each in (node.devices if node else ()) if each.index in indexes}
    return found


def share_on(workload: WorkloadInfo, node: NodeInfo, device: DeviceInfo) -> int | None:
    """What a pod takes of a device if it lands there; ``None`` where it cannot use it."""
    if device.foreign or is_closed(workload, device):
        return None
    return takes(workload, node, device)


def takes(workload: WorkloadInfo, node: NodeInfo, device: DeviceInfo) -> int | None:
    """What a pod takes of a device that nobody else uses; ``None`` where it cannot use it."""
    if not is_offered(workload, device):
        return None
    if is_slice(device):
        return device.share_milli if _slice_suffices(workload, device) else None
    if not (is_whole(workload) or node.sharing):
        return None
    if isinstance(workload.request, Memory):
        if not device.memory_mib or workload.request.mib > device.memory_mib:
            return None
        return -(-workload.request.mib * GPU_MILLI // device.memory_mib)
    return min(workload.request.milli, GPU_MILLI)


def _slice_suffices(workload: WorkloadInfo, device: DeviceInfo) -> bool:
    """Whether one slice, all of it, is enough for a pod: a pod never has two."""
    if isinstance(workload.request, Memory):
        return device.memory_mib is not None and workload.request.mib <= device.memory_mib
    if is_whole(workload):
        return devices_per_pod(workload) == 1
    return workload.request.milli <= device.share_milli


def refusal(pool: PoolInfo, node: NodeInfo, workload: WorkloadInfo) -> str | None:
    """Why a node takes no pod of the workload, whatever is free on it; ``None`` if it does."""
    labels = dict(node.labels)
    given = node.sharing or any(map(is_slice, node.devices))
    shared = given and pool.policy.sharing is Sharing.FRACTIONS
    tests = (
        (node.ready and not node.cordoned, "it is not ready or cordoned"),
        (node.cluster_online, "its cluster is disconnected"),
        (has_data(node, workload), "its cluster lacks data of the workload"),
        (node.partition == workload.partition, f"its partition is {node.partition}"),
        (is_whole(workload) or shared, "it shares no device"),
        (
            all(labels.get(key) == value for key, value in workload.node_selector),
            "its labels are not those asked for",
        ),
        (
            all(tolerated(workload, taint) for taint in node.taints),
            "it has a taint that is not tolerated",
        ),
    )
    return next((why for fine, why in tests if not fine), None)


def has_data(node: NodeInfo, workload: WorkloadInfo) -> bool:
    """Whether the node's cluster has all that the workload mounts."""
    return all(node.cluster in each.clusters for each in workload.data)


def tolerated(workload: WorkloadInfo, taint: Taint) -> bool:
    """Whether a taint lets the workload in."""
    if taint.effect not in ("NoSchedule", "NoExecute"):
        return True
    return any(
        each.key == taint.key and (each.value is None or each.value == taint.value)
        for each in workload.tolerations
    )


def domain_of(pool: PoolInfo, node: NodeInfo, level: str | None) -> Domain | None:
    """The domain of a level in which a node lies (``None``: its cluster); ``None`` if it lies in none."""
    if level is None:
        return (node.cluster,)
    labels = dict(node.labels)
    if level == "node":
        return (node.cluster, node.id)
    if level not in pool.topology:
        return None
    path = [labels.get(key) for key in pool.topology[: pool.topology.index(level) + 1]]
    return None if None in path else (node.cluster, *(each for each in path if each is not None))


@dataclass(slots=True)
class Room:
    """What is left on one node: by device index, and of CPU and memory (``None``: no limit)."""

    devices: dict[int, int]
    cpu_milli: int | None
    memory_mib: int | None

    @classmethod
    def empty(cls, node: NodeInfo) -> Room:
        """The room of a node that runs nothing of ours."""
        devices = {device.index: 0 if device.foreign else device.share_milli for device in node.devices}
        return cls(devices, node.cpu_milli, node.memory_mib)

    def take(self, workload: WorkloadInfo, pod: PodPlacement, sign: int = 1) -> None:
        """Take (or, with -1, give back) what a pod holds."""
        for share in pod.devices:
            if share.index in self.devices:
                self.devices[share.index] -= sign * share.milli
        if self.cpu_milli is not None:
            self.cpu_milli -= sign * workload.cpu_milli
        if self.memory_mib is not None:
            self.memory_mib -= sign * workload.memory_mib

    def short(self, workload: WorkloadInfo, pod: PodPlacement) -> bool:
        """Whether something that the pod takes is given out beyond what there is."""
        devices = any(self.devices.get(share.index, 0) < 0 for share in pod.devices)
        cpu = self.cpu_milli is not None and self.cpu_milli < 0 and workload.cpu_milli > 0
        memory = self.memory_mib is not None and self.memory_mib < 0 and workload.memory_mib > 0
        return devices or cpu or memory

    def pods(self, node: NodeInfo, workload: WorkloadInfo) -> int:
        """How many pods of a workload fit beside what is there."""
        devices = devices_for(workload, node)
        if is_whole(workload):
            free = [
                device
                for device in devices
                if self.devices[device.index] == device.share_milli and share_on(workload, node, device)
            ]
            found = len(free) // devices_per_pod(workload)
        else:
            found = 0
            for device in devices:
                share = share_on(workload, node, device)
                if share:
                    found += max(0, self.devices[device.index]) // share
        if workload.cpu_milli and self.cpu_milli is not None:
            found = min(found, max(0, self.cpu_milli) // workload.cpu_milli)
        if workload.memory_mib and self.memory_mib is not None:
            found = min(found, max(0, self.memory_mib) // workload.memory_mib)
        return found


class Rooms:
    """The rooms of some nodes, as pods come and go."""

    def __init__(self, nodes: Iterable[NodeInfo]) -> None:
        self.nodes = {node.id: node for node in nodes}
        self.rooms = {node.id: Room.empty(node) for node in self.nodes.values()}

    def take(self, workload: WorkloadInfo, pods: Iterable[PodPlacement], sign: int = 1) -> None:
        """Take (or, with -1, give back) what pods hold. Those on nodes that are gone hold nothing."""
        for pod in pods:
            if pod.node in self.rooms:
                self.rooms[pod.node].take(workload, pod, sign)

    def short(self, workload: WorkloadInfo, pods: Iterable[PodPlacement]) -> bool:
        """Whether something that these pods take is given out beyond what there is."""
        return any(pod.node in self.rooms and self.rooms[pod.node].short(workload, pod) for pod in pods)

    def most(
        self, pool: PoolInfo, workload: WorkloadInfo, level: str | None, barred: frozenset[str] = frozenset()
    ) -> int:
        """How many of a workload's pods the best domain of a level holds; nodes ``barred`` do not count."""
        held: dict[tuple[Domain, bool | None], int] = {}
        for node in self.nodes.values():
            if node.id in barred or refusal(pool, node, workload) is not None:
                continue
            domain = domain_of(pool, node, level)
            if domain is not None:
                where = (domain, lies_on_slices(workload, node))
                held[where] = held.get(where, 0) + self.rooms[node.id].pods(node, workload)
        return max(held.values(), default=0)
