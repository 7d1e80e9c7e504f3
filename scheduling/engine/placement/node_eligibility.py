"""Which nodes a pod may use, and what it takes of their devices: labels, data, taints, partition, sharing (5)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from scheduling.engine.model.snapshot import Labels, NodeInfo, Sharing, Slicing, Taint
from scheduling.engine.placement.pod_request import DeviceProfile, PodRequest


class NodeService(Enum):
    """Which nodes of a pool count: those that take new pods now, also those of disconnected clusters, or all."""

    NOW = "now"
    CONNECTED = "connected"
    ALL = "all"

    def counts(self, node: NodeInfo) -> bool:
        """Whether it counts a node in."""
        if self is NodeService.ALL:
            return True
        return node.ready and not node.cordoned and (node.cluster_online or self is NodeService.CONNECTED)


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
        """Whether partition, data, labels and taints admit the request, as they would if it asked for whole GPUs."""
        return (
            self.partition == request.partition
            and self.has_data(request)
            and self.has_labels(request)
            and all(request.tolerates(taint) for taint in self.taints)
        )

    def has_data(self, request: PodRequest) -> bool:
        """Whether its cluster has all that the pods mount."""
        return all(self.cluster in each.clusters for each in request.data)

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
        """The costs on GPUs only, or on slices only, where a node has both: the sort that the request names first."""
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

    ``number`` is that of the class. ``uniform``: all devices cost the same and none is a slice, so that the class's
    index answers for them.
    """

    number: int
    costs: tuple[int, ...]
    uniform: bool


def class_of(node: NodeInfo, labels: Collection[str], sharing: Sharing) -> NodeClass:
    """The class of a node in a pool with this sharing, among classes that only these labels tell apart."""
    parts = sharing is not Sharing.NONE
    taints = node.taints
    return NodeClass(
        node.cluster,
        tuple([label for label in node.labels if label[0] in labels]) if labels else (),
        tuple(sorted(taints, key=lambda taint: (taint.key, taint.value, taint.effect))) if taints else (),
        node.partition,
        parts,
        node.sharing and parts,
        tuple(
            [
                DeviceProfile(device.gpu_type, device.memory_mib, device.slicing, device.share_milli)
                for device in node.devices
            ]
        ),
        tuple([each.shared_by for each in node.devices]) if is_shared(node) else (),
    )


def is_shared(node: NodeInfo) -> bool:
    """Whether parts of one of the node's devices are open to some workloads only."""
    return any(device.shared_by is not None for device in node.devices)


class NodeClasses:
    """The classes of a pool's nodes, by number, and what requests may use of them.

    Classes are told apart by the ``selected`` labels. Where the pool's ``topology`` is given, each class is divided
    once more, by these labels: ``of_node`` has the number of each node's class and, where that is divided, of its part;
    nothing for nodes that are not counted.
    """

    def __init__(self, sharing: Sharing, selected: Collection[str], topology: Collection[str] = ()) -> None:
        self.classes: list[NodeClass] = []
        self.members: list[list[int]] = []
        self.of_node: list[tuple[int, ...]] = []
        self._sharing = sharing
        self._selected = frozenset(selected)
        self._labels = self._selected | {*topology}
        self._numbers: dict[tuple[bool, NodeClass], int] = {}
        self._known: dict[NodeClass, tuple[int, ...]] = {}
        self._undivided: list[int] = []
        self._part_of: dict[int, int] = {}
        self._usable: dict[tuple[PodRequest, bool, bool], tuple[Usable, ...]] = {}

    def add(self, node: NodeInfo, *, counts: bool) -> tuple[int, ...]:
        """Add the next node by rank; returns the numbers of its classes, none unless it ``counts``."""
        numbers: tuple[int, ...] = ()
        if counts:
            finest = class_of(node, self._labels, self._sharing)
            numbers = self._known.get(finest, ())
            if not numbers:
                numbers = self._known[finest] = self._numbered(finest)
            for number in numbers:
                self.members[number].append(len(self.of_node))
        self.of_node.append(numbers)
        return numbers

    def _numbered(self, finest: NodeClass) -> tuple[int, ...]:
        """The number of a class without the labels of the topology and, where these divide it, of the part."""
        labels = tuple([label for label in finest.labels if label[0] in self._selected])
        number = self._number(finest._replace(labels=labels))
        return (number,) if self._labels == self._selected else (number, self._number(finest, part_of=number))

    def _number(self, node_class: NodeClass, part_of: int | None = None) -> int:
        """The number of a class, a new one if it has none yet."""
        number = self._numbers.setdefault((part_of is not None, node_class), len(self.classes))
        if number == len(self.classes):
            self.classes.append(node_class)
            self.members.append([])
            if part_of is None:
                self._undivided.append(number)
            else:
                self._part_of[number] = part_of
        return number

    def undivided(self) -> list[NodeClass]:
        """The classes, not divided by the topology."""
        return [self.classes[number] for number in self._undivided]

    def usable(
        self, request: PodRequest, *, divided: bool = False, closed_too: bool = False
    ) -> tuple[Usable, ...]:
        """What the request may use of each class that admits it, or of the parts of classes (``divided``).

        ``closed_too``: also devices that are closed to it as long as others share them.
        """
        found = self._usable.get((request, divided, closed_too))
        if found is None:
            if divided and self._part_of:
                whole = {each.number: each for each in self.usable(request, closed_too=closed_too)}
                parts = [(part, whole[number]) for part, number in self._part_of.items() if number in whole]
                found = tuple([Usable(part, each.costs, each.uniform) for part, each in parts])
            else:
                each_class = [
                    self._usable_of(number, request, closed_too=closed_too) for number in self._undivided
                ]
                found = tuple([each for each in each_class if each is not None])
            self._usable[request, divided, closed_too] = found
        return found

    def _usable_of(self, number: int, request: PodRequest, *, closed_too: bool) -> Usable | None:
        """What the request may use of one class; ``None`` if that is nothing."""
        node_class = self.classes[number]
        if not node_class.admits(request):
            return None
        costs = node_class.costs(request)
        costs = node_class.of_one_sort(request, costs if closed_too else node_class.open_to(request, costs))
        if not (any(costs) or request.bare):
            return None
        return Usable(number, costs, uniform=len(set(costs)) == 1 and not node_class.has_slices)
