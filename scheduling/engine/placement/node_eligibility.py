"""Which nodes a pod may use, and what it takes of their devices: labels, taints, partition, sharing (section 5)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from scheduling.engine.model.snapshot import Labels, Node, Slicing, Taint
from scheduling.engine.placement.pod_request import DeviceProfile, PodRequest


class Service(Enum):
    """Which nodes of a pool count: those that take new pods now, also those of disconnected clusters, or all."""

    NOW = "now"
    CONNECTED = "connected"
    ALL = "all"

    def counts(self, node: Node) -> bool:
        """Whether it counts a node in."""
        if self is Service.ALL:
            return True
        return node.ready and not node.cordoned and (node.cluster_online or self is Service.CONNECTED)


class NodeClass(NamedTuple):
    """What nodes of one class have in common: where they belong, which requests they admit, which devices they have.

    ``parts``: the pool gives parts of GPUs; ``sharing``: and Chamber may have several pods share one of these.
    """

    cluster: str
    labels: Labels
    taints: tuple[Taint, ...]
    partition: str | None
    parts: bool
    sharing: bool
    devices: tuple[DeviceProfile, ...]
    shared_by: tuple[str | None, ...] = ()

    def admits(self, request: PodRequest) -> bool:
        """Whether partition, sharing, labels and taints admit the request."""
        return self.gives(request) and self.admits_whole(request)

    def admits_whole(self, request: PodRequest) -> bool:
        """Whether partition, labels and taints admit the request, as they would if it asked for whole GPUs."""
        return (
            self.partition == request.partition
            and self.has_labels(request)
            and all(request.tolerates(taint) for taint in self.taints)
        )

    def has_labels(self, request: PodRequest) -> bool:
        """Whether it has the labels that the request selects nodes by."""
        labels = dict(self.labels)
        return all(labels.get(key) == value for key, value in request.node_selector)

    def gives(self, request: PodRequest) -> bool:
        """Whether sharing admits the request: a replica is taken whole, whether or not other devices may be shared."""
        if request.whole or self.sharing:
            return True
        return self.parts and self.has_slices

    @property
    def has_slices(self) -> bool:
        """Whether some of the devices are slices."""
        return any(device.slicing is not Slicing.WHOLE for device in self.devices)

    def costs(self, request: PodRequest) -> tuple[int, ...]:
        """The request's cost on each device."""
        if request.whole or self.sharing:
            return tuple([request.cost_on(device) for device in self.devices])
        return tuple(
            [0 if device.slicing is Slicing.WHOLE else request.cost_on(device) for device in self.devices]
        )

    def of_one_sort(self, request: PodRequest, costs: tuple[int, ...]) -> tuple[int, ...]:
        """The costs on GPUs only, or on slices only, where a node has both and a request may use one of these: the one
        that it names first."""
        if not request.one_sort:
            return costs
        found = [
            (request.gpu_types.index(device.gpu_type), device.slicing is not Slicing.WHOLE)
            for device, cost in zip(self.devices, costs, strict=True)
            if cost
        ]
        if len({is_slice for _, is_slice in found}) < 2:
            return costs
        _, sliced = min(found)
        pairs = zip(costs, self.devices, strict=True)
        return tuple([cost if (each.slicing is not Slicing.WHOLE) == sliced else 0 for cost, each in pairs])

    def is_sliced(self, costs: tuple[int, ...]) -> bool:
        """Whether the first device with a cost is a slice."""
        pairs = zip(costs, self.devices, strict=True)
        return next((each.slicing is not Slicing.WHOLE for cost, each in pairs if cost), False)

    def open_to(self, request: PodRequest, costs: tuple[int, ...]) -> tuple[int, ...]:
        """The costs, 0 for devices that are shared by workloads with which the request may not share."""
        if request.whole or not self.shared_by:
            return costs
        pairs = zip(costs, self.shared_by, strict=True)
        return tuple([cost if by is None or by in request.shares_with else 0 for cost, by in pairs])


@dataclass(frozen=True, slots=True)
class Usable:
    """What a request may use of a node class: milli-GPUs per device position, 0 where it cannot use the device.

    ``uniform``: all devices cost the same and none is a slice, so that the class's index answers for them.
    """

    kind: int
    costs: tuple[int, ...]
    uniform: bool
