"""How much of what is free the pool's typical requests could not use (section 5).

The measure of Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent" (FGD), USENIX ATC 2023, section 3. A typical request m comes with the probability p(m):

    F(node)    = sum over m of p(m) x F(node, m)
    F(node, m) = all that is free on the node, where m does not fit there (devices, type, CPU, memory);
                 else what is free on the devices that are too full for m

A placement is good that makes F grow least, or fall most. Like the paper's, its score is a whole number, so that
places which are about as good are equal, and something else decides between them
(:mod:`scheduling.engine.outlook`). The paper takes hundredths of the sigmoid of what F falls in GPUs; steps of a
fiftieth of a GPU, all of one width, pack its own traces better.

Probabilities are whole millionths and amounts whole milli-GPUs, so that all sums are exact, in whatever order they
are added up.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.model.quantities import UNLIMITED, in_arrays, memory_share
from scheduling.engine.model.snapshot import GPU_MILLI, Slicing, TypicalRequest
from scheduling.engine.placement.pod_request import DeviceProfile, takes_slice

if TYPE_CHECKING:
    from scheduling.engine.placement.node_eligibility import NodeClass

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MILLIONTHS = 1_000_000
HEAVIEST = 1e15
"""A weight above counts as this."""
NEVER = UNLIMITED
"""More than any device has."""
STEP_MILLI = 20
"""What F must fall by for the next higher score."""

Size = tuple[int, int, int, tuple[str, ...]]
"""How many devices, how much of each in milli-GPUs or else in MiB of its memory, of which types (none: any)."""


def size_of(request: TypicalRequest) -> Size:
    """What the request needs of devices."""
    types = tuple(sorted(set(request.gpu_types)))
    if request.gpu_memory_mib:
        return (1, 0, in_arrays(request.gpu_memory_mib), types)
    return (max(1, in_arrays(request.milli) // GPU_MILLI), min(request.milli, GPU_MILLI), 0, types)


class Typical:
    """A pool's typical requests, ready to measure many nodes at once.

    ``kinds`` are those of the pool's nodes: nodes are given by the number of their class. Requests that differ by
    nothing but CPU and memory have one *size* in common; ``_weights`` has a row per size and a column per amount of CPU
    and memory.
    """

    def __init__(self, recent: Iterable[TypicalRequest], kinds: Sequence[NodeClass]) -> None:
        counted: dict[tuple[Size, int, int], float] = {}
        for request in sorted(recent, key=lambda each: (each.milli, each.weight)):
            if 0 < request.weight < math.inf and (request.milli > 0 or request.gpu_memory_mib > 0):
                key = (size_of(request), in_arrays(request.cpu_milli), in_arrays(request.memory_mib))
                counted[key] = counted.get(key, 0.0) + min(request.weight, HEAVIEST)
        total = sum(weight for _, weight in sorted(counted.items()))
        rows = [(key, round(weight / total * MILLIONTHS)) for key, weight in sorted(counted.items())]
        sizes = sorted({size for (size, _, _), _ in rows})
        amounts = sorted({(cpu, memory) for (_, cpu, memory), _ in rows})
        self._devices = np.array([[size[0]] for size in sizes], np.int64).reshape(-1, 1)
        self._needs = _needs(sizes, kinds)
        self._cpu = np.array([[cpu] for cpu, _ in amounts], np.int64).reshape(-1, 1)
        self._memory = np.array([[memory] for _, memory in amounts], np.int64).reshape(-1, 1)
        self._weights = np.zeros((len(sizes), len(amounts)))
        for (size, cpu, memory), weight in rows:
            self._weights[sizes.index(size), amounts.index((cpu, memory))] = weight
        self.total = float(self._weights.sum())
        self._amounts = (sorted({cpu for cpu, _ in amounts}), sorted({memory for _, memory in amounts}))

    def __bool__(self) -> bool:
        return self.total > 0

    @property
    def sizes(self) -> int:
        """How many different sizes the requests have."""
        return len(self._devices)

    def usable(self, kinds: Ints, gpu: Ints) -> Ints:
        """How much of what is left of their devices could be used, by size of request and node, in milli-GPUs.

        ``gpu`` has a row per device and a column per node; nothing is below zero there.
        """
        enough = gpu >= self._needs[:, :, kinds]
        usable: Ints = np.where(enough, gpu, 0).sum(1)
        usable[enough.sum(1) < self._devices] = 0
        return usable

    def fragments(self, free: Ints, usable: Ints, cpu: Ints, memory: Ints) -> Floats:
        """F of each node, in milli-GPUs times :attr:`total`, a whole number: given all that is left of its devices,
        how much of it is :meth:`usable`, and what is left of CPU and memory."""
        fits = (cpu >= self._cpu) & (memory >= self._memory)
        lost: Floats = self.total * free - (usable * (self._weights @ fits)).sum(0)
        return lost

    def enough(self, cpu: int, memory: int) -> tuple[int, int]:
        """Of how many different amounts of CPU, and of memory, among the requests', there is enough: what is left of
        both makes no other difference to them."""
        cpus, memories = self._amounts
        return bisect_right(cpus, cpu), bisect_right(memories, memory)

    def scores(self, fallen: Floats) -> Ints:
        """The score of each placement, given what F falls by it; below zero where it grows."""
        scores: Ints = np.floor_divide(fallen, self.total * STEP_MILLI).astype(np.int64)
        return scores

    def score(self, fallen: float) -> int:
        """The score of one placement, as :meth:`scores`."""
        return int(fallen // (self.total * STEP_MILLI))


def _needs(sizes: Sequence[Size], kinds: Sequence[NodeClass]) -> Ints:
    """By size, device and kind, the milli-GPUs that such a request needs of it; :data:`NEVER` if it may not use it."""
    width = max((len(kind.devices) for kind in kinds), default=0)
    needs = np.full((len(sizes), width, len(kinds)), NEVER, np.int64)
    for number, kind in enumerate(kinds):
        for row, size in enumerate(sizes):
            needs[row, : len(kind.devices), number] = [
                _need(size, device, parts=kind.parts, sharing=kind.sharing) for device in kind.devices
            ]
    return needs


def _need(size: Size, device: DeviceProfile, *, parts: bool, sharing: bool) -> int:
    devices, milli, mib, types = size
    part = milli != GPU_MILLI
    if types and device.gpu_type not in types:
        return NEVER
    if device.slicing is not Slicing.WHOLE:
        whole = 0 if part else devices
        fits = takes_slice(device, bool(types), whole, part_milli=milli, mib=mib) and (parts or not part)
        return device.share_milli if fits else NEVER
    if part and not sharing:
        return NEVER
    if mib:
        memory_mib = device.memory_mib
        return memory_share(mib, memory_mib) if memory_mib and mib <= memory_mib else NEVER
    return milli
