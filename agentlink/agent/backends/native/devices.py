"""What a GPU of the plan, `(node, index)`, is in this cluster, and what a pod asks for to get those of its plan.

Either one of a resource of the device plugin, of which the kubelet picks any, or a device of Dynamic Resource
Allocation, which a claim names. ADR 10 says which way is taken when.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase

from agentlink.agent.backends.native.slices import SliceDevice
from agentlink.agent.kube.quantities import mebibytes
from agentlink.protocol import AssignedPod

WHOLE_MILLI = 1000
MOST_IN_CLAIM = 32
"""Devices that the API lets one claim have."""


class CannotHold(Exception):  # noqa: N818 - a refusal, told to whoever planned
    """Why this cluster cannot give a pod what was planned for it, as a sentence."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU of a node, or what stands for one: a MIG profile, a replica of a shared GPU.

    `resource` is the device plugin's name, empty under Dynamic Resource Allocation. `replicas` says into how many it is
    divided with others, 1 for a whole one.
    """

    index: int
    gpu_type: str
    memory_mib: int | None
    resource: str = ""
    replicas: int = 1
    published: SliceDevice | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys under which claims may have it, or a part of it; none for the device plugin's."""
        return () if self.published is None else (self.published.key, *self.published.overlaps)


@dataclass(frozen=True, slots=True)
class Claim:
    """Devices of one node that a pod claims, with their indexes; `shared` with the other pods of the same device."""

    devices: tuple[tuple[int, SliceDevice], ...]
    shared: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """What a pod's container asks for: limits on resources by name, and claims."""

    limits: tuple[tuple[str, str], ...] = ()
    claims: tuple[Claim, ...] = ()


def of_plugin(
    labels: Mapping[str, str], capacity: Mapping[str, int], resources: Iterable[str]
) -> tuple[Device, ...]:
    """Return the devices that a node's capacity counts under the names that the patterns pick.

    They are numbered in the order of the names, by capacity and not by what is healthy just now: so an index stays
    what it is while others fail.
    """
    patterns = tuple(resources)
    devices: list[Device] = []
    for name in sorted(capacity):
        if is_gpu(name, patterns):
            sample = _sample(name, labels)
            for _ in range(capacity[name]):
                devices.append(
                    Device(len(devices), sample.gpu_type, sample.memory_mib, name, sample.replicas)
                )
    return tuple(devices)


def is_gpu(resource: str, patterns: Iterable[str]) -> bool:
    """Return whether a resource's name is one that the patterns pick."""
    return any(fnmatchcase(resource, pattern) for pattern in patterns)


def _sample(resource: str, labels: Mapping[str, str]) -> Device:
    """Return what the node's labels say of each device of a resource.

    A replica is a type of its own with its part of the memory, which MPS enforces and time-slicing does not.
    """
    base = resource.removesuffix(".shared")
    plain = base.rpartition("/")[2]
    product = labels.get(f"{base}.product") or labels.get(f"{base}.product-name") or ""
    replicas = max(1, _whole(labels.get(f"{base}.replicas", "")) or 1)
    memory = _whole(labels.get(f"{base}.memory", ""))
    if memory is None and f"{base}.vram" in labels:
        memory = _memory(labels[f"{base}.vram"])
    gpu_type = product or ("" if plain == "gpu" else plain)
    if replicas > 1:
        gpu_type = f"{gpu_type.removesuffix('-SHARED') or plain}-SHARED"
    return Device(0, gpu_type, None if memory is None else memory // replicas, resource, replicas)


def _whole(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _memory(text: str) -> int | None:
    try:
        return mebibytes(f"{text}i" if text[-1:] in "KMGT" else text)  # labels may hold no more than "64G"
    except ValueError:
        return None


def of_slices(published: Sequence[SliceDevice], numbered: Mapping[str, int]) -> tuple[Device, ...]:
    """Return published devices as the node's, in the order of their indexes.

    `numbered` are the indexes by key that devices have already: theirs stay, the others get the lowest that are free.
    """
    taken = {numbered[each.key] for each in published if each.key in numbered}
    free = (index for index in range(len(taken) + len(published)) if index not in taken)
    devices = [
        Device(
            numbered[each.key] if each.key in numbered else next(free),
            each.gpu_type,
            each.memory_mib,
            published=each,
        )
        for each in published
    ]
    return tuple(sorted(devices, key=lambda device: device.index))


def foreign_of_plugin(
    devices: Iterable[Device],
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


def foreign_of_slices(devices: Iterable[Device], *, taken: Set[str], held: Collection[int]) -> frozenset[int]:
    """Return which indexes others' claims have (`taken`, by key), or taints keep claims away from."""
    return frozenset(
        device.index
        for device in devices
        if device.published is not None
        and device.index not in held
        and (device.published.refuses or not taken.isdisjoint(device.keys))
    )


def ask(pod: AssignedPod, devices: Mapping[int, Device]) -> Ask:
    """Return what a pod asks for to get the devices of its plan; raise `CannotHold`."""
    missing = sorted(share.index for share in pod.devices if share.index not in devices)
    if missing:
        raise CannotHold(f"Node {pod.node} has no GPU {missing[0]} any more.")
    planned = [(devices[share.index], share.share_milli) for share in pod.devices]
    if all(device.published is not None for device, _ in planned):
        return Ask(claims=_claims(pod.node, planned))
    counts: dict[str, int] = {}
    for device, milli in planned:
        if milli < WHOLE_MILLI:
            raise CannotHold(
                f"Node {pod.node} gives out {device.resource} whole; it cannot hold {milli / WHOLE_MILLI:g} of one."
            )
        counts[device.resource] = counts.get(device.resource, 0) + 1
    if len(planned) > 1 and any(device.replicas > 1 for device, _ in planned):
        raise CannotHold(
            f"Node {pod.node} divides its GPUs among pods, one part to each; {len(planned)} are too many."
        )
    return Ask(limits=tuple((name, str(count)) for name, count in sorted(counts.items())))


def _claims(node: str, planned: Iterable[tuple[Device, int]]) -> tuple[Claim, ...]:
    whole: list[tuple[int, SliceDevice]] = []
    shared: list[Claim] = []
    for device, milli in planned:
        assert device.published is not None  # noqa: S101 - that is how they are told apart
        if milli == WHOLE_MILLI:
            whole.append((device.index, device.published))
        else:
            shared.append(Claim(((device.index, device.published),), shared=True))
    if len(whole) > MOST_IN_CLAIM:
        raise CannotHold(
            f"A pod on node {node} can claim at most {MOST_IN_CLAIM} GPUs; {len(whole)} are planned."
        )
    return (*([Claim(tuple(whole), shared=False)] if whole else []), *shared)
