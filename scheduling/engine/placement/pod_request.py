"""What a pod requests of the device and the node it is placed on (section 5)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import NamedTuple

from scheduling.engine.model.quantities import memory_share
from scheduling.engine.model.snapshot import (
    GPU_MILLI,
    DataSet,
    GpuShare,
    Labels,
    Memory,
    Request,
    Slicing,
    Taint,
    Toleration,
    Topology,
    WorkloadInfo,
)

KEEPS_OUT = frozenset({"NoSchedule", "NoExecute"})


class DeviceProfile(NamedTuple):
    """What a request sees of a device: devices with the same are alike to it."""

    gpu_type: str
    memory_mib: int | None
    slicing: Slicing = Slicing.WHOLE
    share_milli: int = GPU_MILLI


def takes_slice(device: DeviceProfile, named: bool, whole: int, *, part_milli: int, mib: int) -> bool:
    """Whether a pod takes such a slice: one of a type that it names, or, for a part of a GPU or of its memory, a
    replica that has that."""
    if not named and (whole or device.slicing is Slicing.MIG):
        return False
    if mib:
        return device.memory_mib is not None and mib <= device.memory_mib
    return whole == 1 or (not whole and 0 < part_milli <= device.share_milli)


what_differs = attrgetter(
    "request",
    "cpu_milli",
    "memory_mib",
    "gpu_types",
    "node_selector",
    "partition",
    "tolerations",
    "topology",
    "together",
    "shares_with",
    "data",
)
"""All in which requests can differ."""


@dataclass(frozen=True, slots=True, eq=False)
class PodRequest:
    """Everything about a workload that decides where one of its pods may be placed.

    Requests are keys of many tables, and each is equal to itself only: :class:`PodRequests` returns one object for all
    workloads with an equal request.

    ``together``: there are several pods, which must be in one cluster; ``close``: they also prefer, or require, one
    domain of a level. ``whole`` is how many whole devices a pod takes, 0 if it shares one. ``bare``: it takes none,
    only CPU and memory; it cannot be submitted, but traces have it. ``one_sort``: its pods are all on GPUs or all on
    slices, whichever of them it names. ``by_preference``: where it names several GPU types, the best first, the same
    request with one of them each.
    """

    request: Request
    cpu_milli: int
    memory_mib: int
    gpu_types: tuple[str, ...]
    node_selector: Labels
    partition: str | None
    tolerations: tuple[Toleration, ...]
    topology: Topology
    together: bool
    whole: int
    shares_with: tuple[str, ...]
    data: tuple[DataSet, ...]
    by_preference: tuple[PodRequest, ...] = field(init=False, repr=False)
    bare: bool = field(init=False, repr=False)
    one_sort: bool = field(init=False, repr=False)
    close: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bare", self.request == GpuShare(0))
        object.__setattr__(self, "one_sort", self.together and bool(self.gpu_types))
        named = self.topology.required is not None or self.topology.preferred is not None
        object.__setattr__(self, "close", self.together and named)
        types = self.gpu_types if len(self.gpu_types) > 1 else ()
        narrower = tuple([replace(self, gpu_types=(each,)) for each in types])
        object.__setattr__(self, "by_preference", narrower)

    @classmethod
    def of(cls, workload: WorkloadInfo) -> PodRequest:
        """The request of the workload's pods."""
        request = workload.request
        return cls(
            request,
            workload.cpu_milli,
            workload.memory_mib,
            tuple(dict.fromkeys(workload.gpu_types)),
            workload.node_selector,
            workload.partition,
            tuple(sorted(set(workload.tolerations), key=lambda each: (each.key, each.value or ""))),
            workload.topology,
            together=workload.pods > 1,
            whole=request.milli // GPU_MILLI if isinstance(request, GpuShare) else 0,
            shares_with=workload.shares_with,
            data=workload.data,
        )

    def tolerates(self, taint: Taint) -> bool:
        """Whether the taint admits this request."""
        return taint.effect not in KEEPS_OUT or any(
            each.key == taint.key and each.value in (None, taint.value) for each in self.tolerations
        )

    def cost_on(self, device: DeviceProfile) -> int:
        """Milli-GPUs a pod takes of each such device it lands on; 0 if it cannot use it.

        A pod that takes a slice takes all of it, and no other device besides.
        """
        if self.gpu_types and device.gpu_type not in self.gpu_types:
            return 0
        if device.slicing is not Slicing.WHOLE:
            part = self.request.milli if isinstance(self.request, GpuShare) else 0
            mib = self.request.mib if isinstance(self.request, Memory) else 0
            named = bool(self.gpu_types)
            return (
                device.share_milli if takes_slice(device, named, self.whole, part_milli=part, mib=mib) else 0
            )
        if isinstance(self.request, Memory):
            if not device.memory_mib or self.request.mib > device.memory_mib:
                return 0
            return memory_share(self.request.mib, device.memory_mib)
        return min(self.request.milli, GPU_MILLI)


class PodRequests:
    """The requests of many workloads' pods, one object for equal ones."""

    def __init__(self) -> None:
        self._known: dict[tuple[Hashable, ...], PodRequest] = {}

    def __len__(self) -> int:
        """How many there have been."""
        return len(self._known)

    def of(self, workload: WorkloadInfo) -> PodRequest:
        """The request of the workload's pods."""
        new = PodRequest.of(workload)
        return self._known.setdefault(what_differs(new), new)
