"""Giving devices to workloads that are placed already: a scenario names nodes, often not even those.

1. Who names nodes gets devices of just those, whatever the order of the rows; what does not fit is refused.
2. Then, in the order of the file, who names none is laid on the first nodes of the file that fit, all pods
   inside one cluster (and one domain of a required topology): whole free devices, or the partly used device
   that fits most tightly. A Queued one takes what is free before what is emptying.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduling.engine import (
    GPU_MILLI,
    DeviceShare,
    Memory,
    NodeInfo,
    OpenStatus,
    PodPlacement,
    PoolInfo,
    Request,
    Sharing,
    Slicing,
    WorkloadInfo,
)
from scheduling.engine.model.quantities import counted, gpus, in_gpus

from .document import ScenarioError
from .fields import shorten
from .pools import NODE_LEVEL, Machines
from .room import BOTH, HELD, PROMISED, Layers, Piece, ScenarioFree, layers_of, pack, share_on

BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")
LAYER_NAMES = {HELD: "Starting, Running and stopping", PROMISED: "Starting, Running and Queued"}


@dataclass(frozen=True, slots=True)
class Placed:
    """A workload with devices; `nodes` as its row names them, `order` is that of the file."""

    order: int
    line: int
    workload: WorkloadInfo
    nodes: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Lying:
    """Where a placed workload lies."""

    pool: str
    placements: tuple[PodPlacement, ...]


def place_all(machines: Machines, placed: Sequence[Placed]) -> dict[str, Lying]:
    """Return where every placed workload lies, by its id."""
    if not placed:
        return {}
    rooms = {node.id: ScenarioFree(node) for node in machines.nodes}
    lying = _place_named([each for each in placed if each.nodes is not None], rooms)
    finder = _NodeFinder(machines, rooms)
    for each in placed:
        if each.nodes is None:
            lying[each.workload.id] = finder.place(each)
    return lying


# --- Nodes that are named


def _place_named(placed: Sequence[Placed], rooms: dict[str, ScenarioFree]) -> dict[str, Lying]:
    pools: dict[str, str] = {}
    pieces: dict[str, list[Piece]] = defaultdict(list)
    by_order = {each.order: each for each in placed}
    for each in placed:
        pools[each.workload.id] = _pool_of(each, rooms)
        for piece, node in _pieces(each, rooms):
            pieces[node].append(piece)
    placements: dict[str, list[PodPlacement]] = defaultdict(list)
    for node, on_node in pieces.items():
        room = rooms[node]
        packing = pack(room.node, on_node)
        if packing is None:
            raise _does_not_fit(room.node, on_node, by_order)
        for piece in on_node:
            devices = packing[piece.workload, piece.pod_index]
            room.take(devices, piece.cpu_milli, piece.memory_mib, piece.layers)
            placements[piece.workload].append(PodPlacement(piece.pod_index, node, devices))
    return {
        each.workload.id: Lying(pools[each.workload.id], _sorted(placements[each.workload.id]))
        for each in placed
    }


def _sorted(placements: list[PodPlacement]) -> tuple[PodPlacement, ...]:
    return tuple(sorted(placements, key=lambda placement: placement.pod_index))


def _pool_of(each: Placed, rooms: dict[str, ScenarioFree]) -> str:
    """The one pool of a workload's nodes, which must be one it may use."""
    allowed = each.workload.pools
    first = rooms[(each.nodes or ())[0]].node
    for name in each.nodes or ():
        node = rooms[name].node
        if node.pool != first.pool:
            raise ScenarioError(
                f"workload {shorten(each.workload.id)}: {shorten(first.id)} and {shorten(name)} are "
                f"of the pools {shorten(first.pool)} and {shorten(node.pool)}; allowed are nodes of one pool",
                each.line,
            )
    if allowed is not None and first.pool not in allowed:
        raise ScenarioError(
            f"workload {shorten(each.workload.id)}: its node {shorten(first.id)} is of the pool "
            f"{shorten(first.pool)}; allowed are nodes of its pools: {', '.join(allowed)}",
            each.line,
        )
    return first.pool


def _pieces(each: Placed, rooms: dict[str, ScenarioFree]) -> Iterator[tuple[Piece, str]]:
    workload = each.workload
    for pod_index, name in enumerate(each.nodes or ()):
        milli = share_on(workload.request, rooms[name].node)
        if milli is None:
            raise ScenarioError(
                f"workload {shorten(workload.id)} does not fit on node {shorten(name)}: it asks for "
                f"{_asked(workload.request)}; allowed is what one of the node's devices has",
                each.line,
            )
        layers = layers_of(workload.status)
        yield (
            Piece(each.order, workload.id, pod_index, milli, workload.cpu_milli, workload.memory_mib, layers),
            name,
        )


def _does_not_fit(node: NodeInfo, pieces: list[Piece], by_order: dict[int, Placed]) -> ScenarioError:
    """Return the refusal of the first workload of the file that is too much, with what is exceeded."""
    orders = sorted({piece.order for piece in pieces})

    def too_much(count: int) -> bool:
        return pack(node, [piece for piece in pieces if piece.order <= orders[count]]) is None

    culprit = by_order[orders[bisect_left(range(len(orders)), True, key=too_much)]]
    upto = [piece for piece in pieces if piece.order <= culprit.order]
    return ScenarioError(
        f"workload {shorten(culprit.workload.id)} does not fit on node {shorten(node.id)}: "
        f"{_excess(node, upto)}; allowed is what the node has",
        culprit.line,
    )


def _excess(node: NodeInfo, pieces: list[Piece]) -> str:
    """What the pods of a node exceed, as a clause."""
    own = [device for device in node.devices if not device.foreign]
    devices, capacity_milli = len(own), sum(device.share_milli for device in own)
    for layer in BOTH:
        present = [piece for piece in pieces if layer in piece.layers]
        who = f"with it, {LAYER_NAMES[layer]} ones take"
        milli = sum(piece.milli for piece in present)
        cpu_milli = sum(piece.cpu_milli for piece in present)
        memory_mib = sum(piece.memory_mib for piece in present)
        if milli > capacity_milli:
            return f"{who} {in_gpus(milli)} of its {gpus(capacity_milli)}"
        if node.cpu_milli is not None and cpu_milli > node.cpu_milli:
            return f"{who} {in_gpus(cpu_milli)} of its {in_gpus(node.cpu_milli)} CPUs"
        if node.memory_mib is not None and memory_mib > node.memory_mib:
            return f"{who} {memory_mib} of its {node.memory_mib} MiB of memory"
    return f"its {counted(devices, 'device')} cannot be divided among the pods on it, none of which spans two"


def _asked(request: Request) -> str:
    if isinstance(request, Memory):
        return f"{request.mib} MiB of device memory"
    return gpus(request.milli)


# --- Nodes that are not named

_Shape = tuple[object, ...]
_Pod = tuple[ScenarioFree, tuple[DeviceShare, ...]]


class _NodeFinder:
    """Finds the first nodes that fit. Room only shrinks: each kind of pod goes on where its last one lay."""

    def __init__(self, machines: Machines, rooms: dict[str, ScenarioFree]) -> None:
        self.pools = {pool.id: pool for pool in machines.pools}
        self.rooms_of: dict[str, list[ScenarioFree]] = defaultdict(list)
        for node in machines.nodes:
            self.rooms_of[node.pool].append(rooms[node.id])
        self.domains_of: dict[tuple[str, str | None], list[list[ScenarioFree]]] = {}
        self.cursors: dict[_Shape, int] = {}

    def place(self, each: Placed) -> Lying:
        """Return where a workload lies that names no nodes, with fewer pods if need be."""
        workload = each.workload
        for least in dict.fromkeys((workload.pods, workload.min_pods)):
            for pool in self.pools if workload.pools is None else workload.pools:
                pods = self._place_in(pool, workload, least)
                if pods:
                    placements = (
                        PodPlacement(i, room.node.id, devices) for i, (room, devices) in enumerate(pods)
                    )
                    return Lying(pool, tuple(placements))
        size = (
            f"{workload.pods} pods of {_asked(workload.request)}"
            if workload.pods > 1
            else _asked(workload.request)
        )
        raise ScenarioError(
            f"workload {shorten(workload.id)} is {workload.status} and names no nodes, and none has room "
            f"left for its {size}; allowed is what the pool has",
            each.line,
        )

    def _place_in(self, pool: str, workload: WorkloadInfo, least: int) -> list[_Pod]:
        layers = layers_of(workload.status)
        tries: tuple[Layers, ...] = (BOTH, layers) if workload.status is OpenStatus.QUEUED else (layers,)
        level = workload.topology.required
        for number, domain in enumerate(self._domains(pool, level)):
            for needed in tries:
                pods = self._place_inside(domain, (pool, level, number), workload, needed, least)
                if pods:
                    return pods
        return []

    def _place_inside(
        self, domain: list[ScenarioFree], place: _Shape, workload: WorkloadInfo, needed: Layers, least: int
    ) -> list[_Pod]:
        """Book and return the pods that fit in a domain; none where too few do."""
        key = (place, needed, _shape(workload))
        at = self.cursors.get(key, 0)
        pods: list[_Pod] = []
        while len(pods) < workload.pods and at < len(domain):
            room = domain[at]
            devices = self._fit(room, workload, needed)
            if devices is None:
                at += 1
            else:
                room.take(devices, workload.cpu_milli, workload.memory_mib, layers_of(workload.status))
                pods.append((room, devices))
        if len(pods) >= least:
            self.cursors[key] = at
            return pods
        for room, devices in pods:
            room.take(devices, workload.cpu_milli, workload.memory_mib, layers_of(workload.status), sign=-1)
        return []

    def _fit(
        self, room: ScenarioFree, workload: WorkloadInfo, needed: Layers
    ) -> tuple[DeviceShare, ...] | None:
        milli = share_on(workload.request, room.node)
        if milli is None or not room.holds(workload.cpu_milli, workload.memory_mib, needed):
            return None
        return room.pick(milli, needed) if self._accepts(room.node, workload) else None

    def _accepts(self, node: NodeInfo, workload: WorkloadInfo) -> bool:
        """Whether a newcomer like this would be let onto the node, were it empty."""
        fraction = isinstance(workload.request, Memory) or workload.request.milli % GPU_MILLI > 0
        slicing = node.devices[0].slicing
        given = node.sharing or slicing is not Slicing.WHOLE
        shared = given and self.pools[node.pool].policy.sharing is Sharing.FRACTIONS
        unnamed = slicing is Slicing.WHOLE or (slicing is Slicing.REPLICAS and fraction)
        tolerated = {(toleration.key, toleration.value) for toleration in workload.tolerations}
        return (
            node.ready
            and not node.cordoned
            and node.partition == workload.partition
            and all(node.cluster in each.clusters for each in workload.data)
            and (shared or not fraction)
            and (node.devices[0].gpu_type in workload.gpu_types if workload.gpu_types else unnamed)
            and all(
                taint.effect not in BLOCKING_EFFECTS
                or (taint.key, None) in tolerated
                or (taint.key, taint.value) in tolerated
                for taint in node.taints
            )
        )

    def _domains(self, pool: str, level: str | None) -> list[list[ScenarioFree]]:
        """The pool's nodes by cluster and domain, in the order of the file."""
        key = (pool, level)
        if key not in self.domains_of:
            grouped: dict[_Shape, list[ScenarioFree]] = defaultdict(list)
            for room in self.rooms_of[pool]:
                path = _path(room.node, self.pools[pool], level)
                if path is not None and room.devices:
                    grouped[path].append(room)
            self.domains_of[key] = list(grouped.values())
        return self.domains_of[key]


def _path(node: NodeInfo, pool: PoolInfo, level: str | None) -> _Shape | None:
    """The domain of a node: its cluster and the labels down to the level; None where one is missing."""
    if level is None:
        return (node.cluster,)
    if level == NODE_LEVEL:
        return (node.cluster, node.id)
    if level not in pool.topology:
        return None
    labels = dict(node.labels)
    path = [labels.get(key) for key in pool.topology[: pool.topology.index(level) + 1]]
    return None if None in path else (node.cluster, *path)


def _shape(workload: WorkloadInfo) -> _Shape:
    """All that decides where a pod fits."""
    return (
        workload.request,
        workload.cpu_milli,
        workload.memory_mib,
        workload.gpu_types,
        workload.partition,
        workload.tolerations,
        workload.data,
    )
