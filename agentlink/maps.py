"""Nodes and their devices as the pages draw them: a cell per device, coloured by who has it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from django.db.models import Count, Max, OuterRef, Q, QuerySet, Subquery, Sum

from agentlink.models import Device, Hold, Node, Placement
from agentlink.models.node import WHOLE_DEVICE_MILLI
from teams.models import Pool
from workloads.models import Workload
from workloads.models.workload import RESERVED_FROM

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User


@dataclass(frozen=True, slots=True)
class DeviceCell:
    """One device: `state` is free, reserved, elastic, shared, foreign or down."""

    state: str
    title: str


@dataclass(frozen=True, slots=True)
class NodeCell:
    """One node with its devices; `state` is ready, cordoned or down."""

    name: str
    state: str
    note: str
    devices: tuple[DeviceCell, ...]


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """A pool in numbers, in milli-GPUs; `largest_free_milli` is the most that one node has free in whole devices."""

    nodes: int = 0
    devices: int = 0
    capacity_milli: int = 0
    allocated_milli: int = 0
    largest_free_milli: int = 0
    gpu_types: tuple[str, ...] = ()


class _Seen(NamedTuple):
    """A device as a cell tells it."""

    pk: UUID
    number: int
    gpu_type: str
    foreign: bool


class _Held(NamedTuple):
    """A placement as a cell tells it."""

    device_id: UUID
    share_milli: int
    hold: str
    workload_id: UUID
    slug: str
    priority: int
    team: str


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
    devices: dict[UUID, list[_Seen]] = {node.pk: [] for node in rows}
    found = Device.objects.filter(node__in=list(devices)).order_by("index")
    for node_id, *columns in found.values_list("node", "pk", "index", "gpu_type", "foreign"):
        devices[node_id].append(_Seen._make(columns))
    placed = Placement.objects.filter(device__node__in=list(devices)).exclude(hold=Hold.RELEASED)
    by_device: dict[UUID, list[_Held]] = {}
    for held in map(_Held._make, placed.values_list(*_HELD)):
        by_device.setdefault(held.device_id, []).append(held)
    shown = {held.workload_id for placed_here in by_device.values() for held in placed_here}
    visible = set(Workload.objects.visible_to(user).filter(pk__in=list(shown)).values_list("pk", flat=True))
    return [_node_cell(node, devices[node.pk], by_device, visible) for node in rows]


def _node_cell(
    node: Node, devices: Sequence[_Seen], placed: dict[UUID, list[_Held]], visible: set[UUID]
) -> NodeCell:
    down = not node.ready or not node.cluster.connected or node.gone_at is not None
    state = "down" if down else "cordoned" if node.cordoned else "ready"
    types = sorted({device.gpu_type for device in devices if device.gpu_type})
    cells = tuple(_device_cell(device, placed.get(device.pk, []), visible, down=down) for device in devices)
    return NodeCell(node.name, state, f"{len(devices)} × {', '.join(types) or 'GPU'}", cells)


def _device_cell(device: _Seen, placed: Sequence[_Held], visible: set[UUID], *, down: bool) -> DeviceCell:
    label = f"GPU {device.number}"
    holders = "; ".join(_holder(held, visible) for held in placed)
    if holders:
        label = f"{label}: {holders}"
    if down:
        return DeviceCell("down", f"{label} (node down)")
    if device.foreign:
        return DeviceCell("foreign", f"{label}: used by pods that Chamber does not manage")
    if not placed:
        return DeviceCell("free", f"{label}: free")
    if any(held.share_milli < WHOLE_DEVICE_MILLI for held in placed):
        return DeviceCell("shared", label)
    reserved = any(held.priority >= RESERVED_FROM for held in placed)
    return DeviceCell("reserved" if reserved else "elastic", label)


def _holder(held: _Held, visible: set[UUID]) -> str:
    name = held.slug if held.workload_id in visible else f"a workload of {held.team}"
    share = "" if held.share_milli == WHOLE_DEVICE_MILLI else f", {held.share_milli / 1000:g} GPUs"
    leaving = {Hold.LEAVING: ", stopping", Hold.PROMISED: ", promised"}.get(Hold(held.hold), "")
    return f"{name}{share}{leaving}"


def pool_figures(pools: Iterable[Pool]) -> dict[UUID, PoolFigures]:
    """Return each pool in numbers (2 queries, added up by the database). Devices of nodes that are down, cordoned or
    foreign are not capacity.
    """
    ids = [pool.pk for pool in pools]
    present = Device.objects.filter(node__pool__in=ids, node__gone_at__isnull=True).order_by()
    usable = Q(foreign=False, node__ready=True, node__cordoned=False, node__cluster__connected=True)
    sums = present.values_list("node__pool", "gpu_type").annotate(
        devices=Count("id"), usable=Count("id", filter=usable), allocated=Sum("allocated_milli")
    )
    by_type: dict[UUID, list[tuple[str, int, int, int]]] = {}
    for pool_id, *row in sums:
        by_type.setdefault(pool_id, []).append(tuple(row))
    free = Device.objects.filter(node=OuterRef("pk"), foreign=False, occupied_milli=0, allocated_milli=0)
    block = Subquery(free.order_by().values("node").values_list(Count("id")))
    takes = Q(ready=True, cordoned=False, cluster__connected=True)
    nodes = Node.objects.present().filter(pool__in=ids).order_by().annotate(block=block).values_list("pool")
    return {
        pool_id: PoolFigures(
            nodes=count,
            devices=sum(devices for _, devices, _, _ in by_type.get(pool_id, ())),
            capacity_milli=sum(whole for _, _, whole, _ in by_type.get(pool_id, ())) * WHOLE_DEVICE_MILLI,
            allocated_milli=sum(allocated for *_, allocated in by_type.get(pool_id, ())),
            largest_free_milli=(largest or 0) * WHOLE_DEVICE_MILLI,
            gpu_types=tuple(sorted(gpu_type for gpu_type, *_ in by_type.get(pool_id, ()) if gpu_type)),
        )
        for pool_id, count, largest in nodes.annotate(n=Count("id"), largest=Max("block", filter=takes))
    }
