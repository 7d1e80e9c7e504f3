"""Nodes and their devices as the pages draw them: a cell per device, coloured by the workload that has it."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from django.db.models import Count, Max, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from agentlink.models import Cluster, Device, DeviceSlicing, Hold, Node, Placement
from agentlink.models.node import CUT, UNAVAILABLE_MILLI, WHOLE_DEVICE_MILLI
from teams.capacity import PoolCapacity
from teams.models import Pool
from teams.models.job_class import RESERVED_FROM
from teams.values import gpus
from workloads.models import Attempt, Workload

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User


@dataclass(frozen=True, slots=True)
class DeviceCell:
    """One device: `state` is free, reserved, elastic, shared, foreign or down; `cut`: it is a slice, no GPU."""

    state: str
    title: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class NodeCell:
    """One node with its devices; `state` is ready, cordoned, drained or down."""

    name: str
    state: str
    note: str
    devices: tuple[DeviceCell, ...]


NO_CAPACITY = PoolCapacity()


@dataclass(frozen=True, slots=True)
class MapFigures:
    """A pool in numbers, in milli-GPUs; `largest_free_milli` is the most that one node has free in whole GPUs.

    `capacity` is of all devices of its nodes: of these `unavailable_milli` cannot be had now, `idle_milli` waiting
    workloads could take. `gpu_types` are those of GPUs, `slice_types` those of slices, each with its share of a GPU.
    """

    nodes: int = 0
    capacity: PoolCapacity = NO_CAPACITY
    in_use_milli: int = 0
    unavailable_milli: int = 0
    idle_milli: int = 0
    largest_free_milli: int = 0
    gpu_types: tuple[str, ...] = ()
    slice_types: tuple[tuple[str, int], ...] = ()

    @property
    def mixed(self) -> bool:
        """Return whether its devices are of several types."""
        return len(self.gpu_types) + len(self.slice_types) > 1


class _DeviceCell(NamedTuple):
    """A device as a cell tells it."""

    pk: UUID
    number: int
    gpu_type: str
    foreign: bool
    slicing: str
    share_milli: int

    @property
    def cut(self) -> bool:
        """Return whether it is a slice."""
        return self.slicing != DeviceSlicing.WHOLE

    @property
    def label(self) -> str:
        """Return the device in words."""
        if not self.cut:
            return f"GPU {self.number}"
        return f"Slice {self.number} ({self.gpu_type or 'no type'}, {gpus(self.share_milli)})"


class _PlacementCell(NamedTuple):
    """A placement as a cell tells it."""

    device_id: UUID
    share_milli: int
    hold: str
    workload_id: UUID
    slug: str
    priority: int
    team: str


_SEEN = ("pk", "index", "gpu_type", "foreign", "slicing", "share_milli")
_HELD = (
    "device_id",
    "share_milli",
    "hold",
    "attempt__workload_id",
    "attempt__workload__slug",
    "attempt__workload__priority",
    "attempt__workload__team__name",
)


def node_cells(nodes: QuerySet[Node], user: "User | AnonymousUser") -> list[NodeCell]:
    """Return the nodes as cells (4 queries). A workload is named only to those who may see it."""
    rows = list(nodes.select_related("cluster"))
    devices: dict[UUID, list[_DeviceCell]] = {node.pk: [] for node in rows}
    found = Device.objects.filter(node__in=list(devices)).order_by("index")
    for node_id, *columns in found.values_list("node", *_SEEN):
        devices[node_id].append(_DeviceCell._make(columns))
    placed = Placement.objects.filter(device__node__in=list(devices)).exclude(hold=Hold.RELEASED)
    by_device: dict[UUID, list[_PlacementCell]] = {}
    for held in map(_PlacementCell._make, placed.values_list(*_HELD)):
        by_device.setdefault(held.device_id, []).append(held)
    shown = {held.workload_id for placed_here in by_device.values() for held in placed_here}
    visible = set(Workload.objects.visible_to(user).filter(pk__in=list(shown)).values_list("pk", flat=True))
    return [_node_cell(node, devices[node.pk], by_device, visible) for node in rows]


def _node_cell(
    node: Node, devices: Sequence[_DeviceCell], placed: dict[UUID, list[_PlacementCell]], visible: set[UUID]
) -> NodeCell:
    down = not node.ready or not node.cluster.connected or node.gone_at is not None
    closed = "drained" if node.drained else "cordoned" if node.cordoned else "ready"
    state = "down" if down else closed
    cells = tuple(_device_cell(device, placed.get(device.pk, []), visible, down=down) for device in devices)
    return NodeCell(node.name, state, _counted(devices), cells)


def _counted(devices: Sequence[_DeviceCell]) -> str:
    """Return how many GPUs of which types a node has, and how many slices: "8 × H100", "2 × H100, 9 slices"."""
    whole = Counter(device.gpu_type or "GPU" for device in devices if not device.cut)
    slices = sum(device.cut for device in devices)
    told = [f"{count} × {name}" for name, count in sorted(whole.items())]
    told += [f"{slices} slice{'' if slices == 1 else 's'}"] if slices else []
    return ", ".join(told) or "no GPUs"


def _device_cell(
    device: _DeviceCell, placed: Sequence[_PlacementCell], visible: set[UUID], *, down: bool
) -> DeviceCell:
    state, title = _state(device, placed, visible, down=down)
    return DeviceCell(state, title, device.cut)


def _state(
    device: _DeviceCell, placed: Sequence[_PlacementCell], visible: set[UUID], *, down: bool
) -> tuple[str, str]:
    """Return what has a device, as a colour and in words."""
    label = device.label
    holders = "; ".join(_holder(held, device, visible) for held in placed)
    if holders:
        label = f"{label}: {holders}"
    if down:
        return "down", f"{label} (node down)"
    if device.foreign:
        return "foreign", f"{label}: used by pods that Chamber does not manage"
    if not placed:
        return "free", f"{label}: free"
    if any(held.share_milli < device.share_milli for held in placed):
        return "shared", label
    reserved = any(held.priority >= RESERVED_FROM for held in placed)
    return "reserved" if reserved else "elastic", label


def _holder(held: _PlacementCell, device: _DeviceCell, visible: set[UUID]) -> str:
    name = held.slug if held.workload_id in visible else f"a workload of {held.team}"
    share = "" if held.share_milli == device.share_milli else f", {held.share_milli / 1000:g} GPUs"
    leaving = {Hold.LEAVING: ", stopping", Hold.PROMISED: ", promised"}.get(Hold(held.hold), "")
    return f"{name}{share}{leaving}"


def with_counts(clusters: QuerySet[Cluster]) -> QuerySet[Cluster]:
    """Have clusters tell how many nodes, GPUs and slices they have.

    Each is counted by itself: beside a join with the nodes the database would count all devices again for every node.
    """
    nodes = Node.objects.present().filter(cluster=OuterRef("pk")).order_by().values("cluster")
    devices = Device.objects.filter(node__cluster=OuterRef("pk"), node__gone_at__isnull=True).order_by()
    whole = devices.filter(slicing=DeviceSlicing.WHOLE).values("node__cluster")
    cut = devices.filter(CUT).values("node__cluster")
    return clusters.annotate(
        node_count=Coalesce(Subquery(nodes.values_list(Count("id"))), 0),
        gpu_count=Coalesce(Subquery(whole.values_list(Count("id"))), 0),
        slice_count=Coalesce(Subquery(cut.values_list(Count("id"))), 0),
        slices_milli=Coalesce(Subquery(cut.values_list(Sum("share_milli"))), 0),
    )


def pool_figures(pools: Collection[Pool]) -> dict[UUID, MapFigures]:
    """Return each pool in numbers (3 queries, added up by the database)."""
    ids = [pool.pk for pool in pools]
    present = Device.objects.filter(node__pool__in=ids, node__gone_at__isnull=True).order_by()
    sums = present.values_list("node__pool", "gpu_type", "slicing", "share_milli").annotate(
        devices=Count("id"), unavailable=Sum(UNAVAILABLE_MILLI)
    )
    by_pool: dict[UUID, list[_Kind]] = {}
    for pool_id, *row in sums:
        by_pool.setdefault(pool_id, []).append(_Kind._make(row))
    running = Attempt.objects.filter(pool__in=ids, released_at__isnull=True, ended_at__isnull=True).order_by()
    in_use = dict(running.values_list("pool").annotate(milli=Sum("gpus_milli")))
    free = Device.objects.filter(
        node=OuterRef("pk"), foreign=False, occupied_milli=0, allocated_milli=0, slicing=DeviceSlicing.WHOLE
    )
    block = Subquery(free.order_by().values("node").values_list(Count("id")))
    takes = Q(ready=True, cordoned=False, cluster__connected=True)
    nodes = Node.objects.present().filter(pool__in=ids).order_by().annotate(block=block).values_list("pool")
    counted = nodes.annotate(n=Count("id"), largest=Max("block", filter=takes))
    blocks = {pool_id: (count, largest or 0) for pool_id, count, largest in counted}
    return {
        pool_id: _figures(by_pool.get(pool_id, ()), blocks.get(pool_id, (0, 0)), in_use.get(pool_id, 0))
        for pool_id in ids
    }


class _Kind(NamedTuple):
    """The devices of a pool that are alike: how many there are, and what of all cannot be had now."""

    gpu_type: str
    slicing: str
    share_milli: int
    devices: int
    unavailable_milli: int


def _figures(kinds: Sequence[_Kind], blocks: tuple[int, int], in_use_milli: int) -> MapFigures:
    nodes, largest_free = blocks
    there = sum(kind.devices * kind.share_milli for kind in kinds)
    slices = [kind for kind in kinds if kind.slicing != DeviceSlicing.WHOLE]
    unavailable = sum(kind.unavailable_milli for kind in kinds)
    whole = {kind.gpu_type for kind in kinds if kind.slicing == DeviceSlicing.WHOLE}
    cut = {(kind.gpu_type, kind.share_milli) for kind in kinds if kind.slicing != DeviceSlicing.WHOLE}
    return MapFigures(
        nodes=nodes,
        capacity=PoolCapacity(
            there,
            sum(kind.devices for kind in slices),
            sum(kind.devices * kind.share_milli for kind in slices),
        ),
        in_use_milli=in_use_milli,
        unavailable_milli=unavailable,
        idle_milli=max(0, there - unavailable - in_use_milli),
        largest_free_milli=largest_free * WHOLE_DEVICE_MILLI,
        gpu_types=tuple(sorted(whole - {""})),
        slice_types=tuple(sorted((name, share) for name, share in cut if name)),
    )
