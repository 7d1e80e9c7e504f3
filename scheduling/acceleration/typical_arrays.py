"""A pool's typical requests as arrays: the measure of fragmentation, for many nodes at once (section 5).

:class:`~scheduling.engine.placement.fragmentation.Fragmentation` is the rule, for one node; the sums here are the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduling.engine.model.snapshot import TypicalRequest
from scheduling.engine.placement.fragmentation import NEVER, STEP_MILLI, RequestSize, need, weighted
from scheduling.engine.placement.node_eligibility import NodeClass

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class TypicalArrays:
    """A pool's typical requests, ready to measure many nodes at once.

    ``kinds`` are those of the pool's nodes: nodes are given by the number of their class. Requests that differ by
    nothing but CPU and memory have one *size* in common; ``_weights`` has a row per size and a column per amount of CPU
    and memory.
    """

    def __init__(self, recent: Iterable[TypicalRequest], kinds: Sequence[NodeClass]) -> None:
        rows = weighted(recent)
        sizes = sorted({each.size for each in rows})
        amounts = sorted({(each.cpu_milli, each.memory_mib) for each in rows})
        self._devices = np.array([[size[0]] for size in sizes], np.int64).reshape(-1, 1)
        self._needs = _needs(sizes, kinds)
        self._cpu = np.array([[cpu] for cpu, _ in amounts], np.int64).reshape(-1, 1)
        self._memory = np.array([[memory] for _, memory in amounts], np.int64).reshape(-1, 1)
        self._weights = np.zeros((len(sizes), len(amounts)))
        for size, cpu, memory, weight in rows:
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


def _needs(sizes: Sequence[RequestSize], kinds: Sequence[NodeClass]) -> Ints:
    """By size, device and kind, the milli-GPUs that such a request needs of it; :data:`NEVER` if it may not use it."""
    width = max((len(kind.devices) for kind in kinds), default=0)
    needs = np.full((len(sizes), width, len(kinds)), NEVER, np.int64)
    for number, kind in enumerate(kinds):
        for row, size in enumerate(sizes):
            needs[row, : len(kind.devices), number] = [
                need(size, device, parts=kind.parts, sharing=kind.sharing) for device in kind.devices
            ]
    return needs
