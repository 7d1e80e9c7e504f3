"""What is left of one node while placed workloads are laid on it.

Everything is counted twice, because two sums must fit each by itself: what is *held* (Starting, Running and
stopping) and what is *promised* (Starting, Running and Queued). A pod counts in one or both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduling.engine import (
    GPU_MILLI,
    DeviceInfo,
    DeviceShare,
    Memory,
    NodeInfo,
    OpenStatus,
    Request,
    Slicing,
)
from scheduling.engine.model.quantities import memory_share

HELD, PROMISED = 0, 1
BOTH = (HELD, PROMISED)
SEARCH_STEPS = 20_000
SEARCH_PIECES = 200

Layers = tuple[int, ...]


def layers_of(status: OpenStatus) -> Layers:
    """The layers that a placed workload counts in."""
    return {OpenStatus.STOPPING: (HELD,), OpenStatus.QUEUED: (PROMISED,)}.get(status, BOTH)


def share_on(request: Request, node: NodeInfo) -> int | None:
    """What the request takes of the node in milli-GPUs, None where no device of it can give that."""
    first = node.devices[0] if node.devices else None
    if first is not None and first.slicing is not Slicing.WHOLE:
        return first.share_milli if _slice_suffices(request, first) else None
    if not isinstance(request, Memory):
        return request.milli
    memory_mib = first.memory_mib if first is not None else None
    if memory_mib is None or request.mib > memory_mib:
        return None
    return memory_share(request.mib, memory_mib)


def _slice_suffices(request: Request, device: DeviceInfo) -> bool:
    """Whether a pod has enough with one slice."""
    if isinstance(request, Memory):
        return device.memory_mib is not None and request.mib <= device.memory_mib
    return request.milli in (GPU_MILLI, *range(1, device.share_milli + 1))


@dataclass(frozen=True, slots=True)
class Piece:
    """One pod that names its node."""

    order: int
    workload: str
    pod_index: int
    milli: int
    cpu_milli: int
    memory_mib: int
    layers: Layers


class ScenarioFree:
    """The free part of one node's devices, CPU and memory, in both layers."""

    __slots__ = ("cpu", "devices", "free", "memory", "node")

    def __init__(self, node: NodeInfo) -> None:
        self.node = node
        self.devices = tuple(device.index for device in node.devices if not device.foreign)
        sizes = {device.index: device.share_milli for device in node.devices if not device.foreign}
        self.free = tuple(dict(sizes) for _ in BOTH)
        self.cpu = [node.cpu_milli, node.cpu_milli]
        self.memory = [node.memory_mib, node.memory_mib]

    def pick(self, milli: int, layers: Layers, stacked: bool = False) -> tuple[DeviceShare, ...] | None:
        """Return the devices a pod would get, None where it does not fit.

        A fraction goes to the partly used device that fits most tightly. Before that, devices free in the
        other layer too come first, last where `stacked`; after it, the lowest index.
        """
        wanted = min(milli, GPU_MILLI)
        other = [layer for layer in BOTH if layer not in layers]
        keys = []
        for index in self.devices:
            left = min(self.free[layer][index] for layer in layers)
            if left < wanted:
                continue
            clashes = any(self.free[layer][index] < wanted for layer in other)
            keys.append((clashes != stacked, left == GPU_MILLI, left, index))
        count = max(1, milli // GPU_MILLI)
        if len(keys) < count:
            return None
        return tuple(DeviceShare(key[-1], wanted) for key in sorted(keys)[:count])

    def holds(self, cpu_milli: int, memory_mib: int, layers: Layers) -> bool:
        """Whether there is enough CPU and memory in the layers."""
        for layer in layers:
            cpu, memory = self.cpu[layer], self.memory[layer]
            if (cpu is not None and cpu < cpu_milli) or (memory is not None and memory < memory_mib):
                return False
        return True

    def take(
        self, devices: Iterable[DeviceShare], cpu_milli: int, memory_mib: int, layers: Layers, sign: int = 1
    ) -> None:
        """Book a pod; with a sign of -1, give it back."""
        for layer in layers:
            for share in devices:
                self.free[layer][share.index] -= sign * share.milli
            cpu, memory = self.cpu[layer], self.memory[layer]
            if cpu is not None:
                self.cpu[layer] = cpu - sign * cpu_milli
            if memory is not None:
                self.memory[layer] = memory - sign * memory_mib


Packing = dict[tuple[str, int], tuple[DeviceShare, ...]]


def pack(node: NodeInfo, pieces: Sequence[Piece]) -> Packing | None:
    """Return the devices of pods that name this node, by workload and pod, None where they do not fit.

    The answer does not depend on the order of the pieces. Tried are two greedy orders, what stays before what
    comes and goes, then the largest first; then, for few enough pods, a bounded search.
    """
    for layer in BOTH:
        present = [piece for piece in pieces if layer in piece.layers]
        if node.cpu_milli is not None and sum(piece.cpu_milli for piece in present) > node.cpu_milli:
            return None
        if node.memory_mib is not None and sum(piece.memory_mib for piece in present) > node.memory_mib:
            return None
    settled_first = sorted(
        pieces, key=lambda p: (-len(p.layers), -p.milli, p.layers, p.workload, p.pod_index)
    )
    packing = _greedy(ScenarioFree(node), settled_first, stacked=False)
    if packing is not None:
        return packing
    largest_first = sorted(
        pieces, key=lambda p: (-p.milli, -len(p.layers), p.layers, p.workload, p.pod_index)
    )
    packing = _greedy(ScenarioFree(node), largest_first, stacked=True)
    if packing is not None or len(pieces) > SEARCH_PIECES:
        return packing
    return _Search(ScenarioFree(node), largest_first).run()


def _greedy(room: ScenarioFree, pieces: Sequence[Piece], stacked: bool) -> Packing | None:
    packing: Packing = {}
    for piece in pieces:
        devices = room.pick(piece.milli, piece.layers, stacked)
        if devices is None:
            return None
        room.take(devices, 0, 0, piece.layers)
        packing[piece.workload, piece.pod_index] = devices
    return packing


class _Search:
    """Depth first over where each fraction could go; whole devices are given out first and stay."""

    def __init__(self, room: ScenarioFree, pieces: Sequence[Piece]) -> None:
        self.room = room
        self.whole = [piece for piece in pieces if piece.milli >= GPU_MILLI]
        self.parts = [piece for piece in pieces if piece.milli < GPU_MILLI]
        self.steps = 0

    def run(self) -> Packing | None:
        packing = _greedy(self.room, self.whole, stacked=True)
        if packing is None or not self._place(0, packing):
            return None
        return packing

    def _place(self, depth: int, packing: Packing) -> bool:
        if depth == len(self.parts):
            return True
        piece = self.parts[depth]
        tried: set[tuple[int, ...]] = set()
        for index in self.room.devices:
            state = tuple(free[index] for free in self.room.free)
            if state in tried or any(state[layer] < piece.milli for layer in piece.layers):
                continue
            tried.add(state)
            self.steps += 1
            if self.steps > SEARCH_STEPS:
                return False
            devices = (DeviceShare(index, piece.milli),)
            self.room.take(devices, 0, 0, piece.layers)
            packing[piece.workload, piece.pod_index] = devices
            if self._place(depth + 1, packing):
                return True
            self.room.take(devices, 0, 0, piece.layers, sign=-1)
        return False
