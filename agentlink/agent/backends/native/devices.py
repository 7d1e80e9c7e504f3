"""What a GPU of the plan, `(node, index)`, is in this cluster, and what a pod asks for to get those of its plan.

Either one of a resource of the device plugin, of which the kubelet picks any, or a device of Dynamic Resource
Allocation, which a claim names. ADR 10 says which way is taken when.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from agentlink.agent.backends.native.slices import SliceDevice
from agentlink.agent.kube.quantities import mebibytes
from agentlink.protocol import AssignedPod, profiles
from agentlink.protocol.profiles import GPU_MILLI, REPLICA_SUFFIX, Slicing

MOST_IN_CLAIM = 32
"""Devices that the API lets one claim have."""


class CannotHold(Exception):  # noqa: N818 - a refusal, an answer to the plan
    """Why this cluster cannot give a pod what was planned for it, as a sentence."""


@dataclass(frozen=True, slots=True)
class ClusterDevice:
    """A GPU of a node, or a slice of one: of a MIG profile, or a replica of a shared GPU.

    `resource` is the device plugin's name, empty under Dynamic Resource Allocation. `replicas` says into how many it is
    divided with others, 1 for a whole one; `share_milli` is the share of a GPU that a slice counts as.
    """

    index: int
    gpu_type: str
    memory_mib: int | None
    resource: str = ""
    replicas: int = 1
    published: SliceDevice | None = None
    slicing: Slicing = "whole"
    share_milli: int = GPU_MILLI

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys under which claims may have it, or a part of it; none for the device plugin's."""
        return () if self.published is None else (self.published.key, *self.published.overlaps)


@dataclass(frozen=True, slots=True)
class DeviceClaim:
    """Devices of one node that a pod claims, with their indexes; `shared` with the other pods of the same device."""

    devices: tuple[tuple[int, SliceDevice], ...]
    shared: bool


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What a pod's container asks for: limits on resources by name, and claims."""

    limits: tuple[tuple[str, str], ...] = ()
    claims: tuple[DeviceClaim, ...] = ()


def of_plugin(
    labels: Mapping[str, str], capacity: Mapping[str, int], resources: Iterable[str]
) -> tuple[ClusterDevice, ...]:
    """Return the devices that a node's capacity counts under the names that the patterns pick.

    They are numbered in the order of the names, by capacity and not by what is healthy just now: so an index stays
    what it is while others fail.
    """
    patterns = tuple(resources)
    devices: list[ClusterDevice] = []
    for name in sorted(capacity):
        if is_gpu(name, patterns):
            sample = _sample(name, labels)
            first = len(devices)
            devices += [replace(sample, index=first + number) for number in range(capacity[name])]
    return tuple(devices)


def is_gpu(resource: str, patterns: Iterable[str]) -> bool:
    """Return whether a resource's name is one that the patterns pick."""
    return any(fnmatchcase(resource, pattern) for pattern in patterns)


def _sample(resource: str, labels: Mapping[str, str]) -> ClusterDevice:
    """Return what the node's labels say of each device of a resource.

    Under MIG's strategy `mixed` each profile is a resource of its own; under `single` the slices are counted as
    `nvidia.com/gpu`, and only the label of the product says what they are. A replica is a type of its own with its part
    of the memory, which MPS enforces and time-slicing does not.
    """
    shared = resource.endswith(".shared")
    base = resource.removesuffix(".shared")
    plain = base.rpartition("/")[2]
    product = labels.get(f"{base}.product") or labels.get(f"{base}.product-name") or ""
    # A renamed resource without a label of its replicas was divided all the same.
    replicas = max(2 if shared else 1, _whole(labels.get(f"{base}.replicas", "")) or 1)
    memory = _whole(labels.get(f"{base}.memory", ""))
    if memory is None and f"{base}.vram" in labels:
        memory = _memory(labels[f"{base}.vram"])
    gpu_type = product or ("" if plain == "gpu" else plain)
    slicing, share_milli = _slice_of(plain, gpu_type, labels, f"{base.partition('/')[0]}/gpu")
    if replicas > 1:
        gpu_type = f"{gpu_type.removesuffix(REPLICA_SUFFIX) or plain}{REPLICA_SUFFIX}"
        slicing = "replicas" if slicing == "whole" else slicing
        share_milli = profiles.part_milli(1, replicas, whole_milli=share_milli)
    memory = None if memory is None else memory // replicas
    return ClusterDevice(0, gpu_type, memory, resource, replicas, slicing=slicing, share_milli=share_milli)


def _slice_of(plain: str, gpu_type: str, labels: Mapping[str, str], whole: str) -> tuple[Slicing, int]:
    """Return how a resource's devices were cut by MIG and their share; `whole` is the resource of the node's GPUs.

    A slice with an unreadable profile counts as a whole GPU, and is none all the same.
    """
    name = gpu_type if profiles.is_mig(gpu_type) else plain
    if not profiles.is_mig(name):
        return "whole", GPU_MILLI
    product, memory = labels.get(f"{whole}.product", ""), None
    if not profiles.is_mig(product):
        memory = _whole(labels.get(f"{whole}.memory", ""))
    share_milli = profiles.mig_share_milli(name, product=product, gpu_memory_mib=memory)
    return "mig", share_milli or GPU_MILLI


def _whole(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _memory(text: str) -> int | None:
    try:
        return mebibytes(f"{text}i" if text[-1:] in "KMGT" else text)  # labels may hold no more than "64G"
    except ValueError:
        return None


def of_slices(published: Sequence[SliceDevice], numbered: Mapping[str, int]) -> tuple[ClusterDevice, ...]:
    """Return published devices as the node's, in the order of their indexes.

    `numbered` are the indexes by key that devices have already: theirs stay, the others get the lowest that are free.
    """
    taken = {numbered[each.key] for each in published if each.key in numbered}
    free = (index for index in range(len(taken) + len(published)) if index not in taken)
    devices = [
        ClusterDevice(
            numbered[each.key] if each.key in numbered else next(free),
            each.gpu_type,
            each.memory_mib,
            published=each,
            slicing=each.slicing,
            share_milli=each.share_milli,
        )
        for each in published
    ]
    return tuple(sorted(devices, key=lambda device: device.index))


def foreign_of_plugin(
    devices: Iterable[ClusterDevice],
    *,
    available: Mapping[str, int],
    used: Mapping[str, int],
    held: Collection[int],
    before: Collection[int],
) -> frozenset[int]:
    """Return which indexes are not Chamber's to give, where the kubelet picks the devices.

    Of each resource as many as others use or as are not healthy: first those that were so `before`, then from the
    highest index down; never one that Chamber's own pods hold.
    """
    by_resource: dict[str, list[int]] = {}
    for device in devices:
        by_resource.setdefault(device.resource, []).append(device.index)
    foreign: set[int] = set()
    for resource, indexes in by_resource.items():
        lacking = len(indexes) - available.get(resource, 0) + used.get(resource, 0)
        free = sorted(set(indexes) - set(held), key=lambda index: (index not in before, -index))
        foreign.update(free[: max(0, lacking)])
    return frozenset(foreign)


def foreign_of_slices(
    devices: Iterable[ClusterDevice], *, taken: Set[str], held: Collection[int]
) -> frozenset[int]:
    """Return which indexes others' claims have (`taken`, by key), or taints keep claims away from."""
    return frozenset(
        device.index
        for device in devices
        if device.published is not None
        and device.index not in held
        and (device.published.refuses or not taken.isdisjoint(device.keys))
    )


def ask(pod: AssignedPod, devices: Mapping[int, ClusterDevice]) -> ContainerRequest:
    """Return what a pod asks for to get the devices of its plan; raise `CannotHold`."""
    missing = sorted(share.index for share in pod.devices if share.index not in devices)
    if missing:
        raise CannotHold(f"Node {pod.node} has no GPU {missing[0]} any more.")
    planned = [(devices[share.index], share.share_milli) for share in pod.devices]
    _check(pod.node, planned)
    if all(device.published is not None for device, _ in planned):
        return ContainerRequest(claims=_claims(pod.node, planned))
    counts = Counter(device.resource for device, _ in planned)
    return ContainerRequest(limits=tuple((name, str(count)) for name, count in sorted(counts.items())))


def _check(node: str, planned: Sequence[tuple[ClusterDevice, int]]) -> None:
    """Raise `CannotHold` where a pod would get part of what is given out whole, several slices, or GPUs of several
    resources: a container would ask for both, and find itself with devices that do not work together.
    """
    for device, milli in planned:
        if device.slicing != "whole" and milli != device.share_milli:
            raise CannotHold(
                f"Node {node} gives out {_name(device)} whole, as {device.share_milli / GPU_MILLI:g} GPUs; "
                f"{milli / GPU_MILLI:g} of one are planned."
            )
        if device.published is None and milli != device.share_milli:
            raise CannotHold(
                f"Node {node} gives out {device.resource} whole; it cannot hold {milli / GPU_MILLI:g} of one."
            )
    counts = Counter(_name(device) for device, _ in planned)
    told = " and ".join(f"{count} of {name}" for name, count in sorted(counts.items()))
    if len(planned) > 1 and any(device.slicing != "whole" for device, _ in planned):
        raise CannotHold(
            f"A pod on node {node} can have one slice of a GPU and nothing else; {told} are planned."
        )
    if len({device.resource for device, _ in planned}) > 1:
        raise CannotHold(f"A pod on node {node} can have GPUs of one resource; {told} are planned.")


def _name(device: ClusterDevice) -> str:
    return device.resource or device.gpu_type or f"GPU {device.index}"


def _claims(node: str, planned: Iterable[tuple[ClusterDevice, int]]) -> tuple[DeviceClaim, ...]:
    whole: list[tuple[int, SliceDevice]] = []
    shared: list[DeviceClaim] = []
    for device, milli in planned:
        assert device.published is not None  # noqa: S101 - that is how they are told apart
        if milli == device.share_milli:
            whole.append((device.index, device.published))
        else:
            shared.append(DeviceClaim(((device.index, device.published),), shared=True))
    if len(whole) > MOST_IN_CLAIM:
        raise CannotHold(
            f"A pod on node {node} can claim at most {MOST_IN_CLAIM} GPUs; {len(whole)} are planned."
        )
    return (*([DeviceClaim(tuple(whole), shared=False)] if whole else []), *shared)
