"""What is left on many nodes, as arrays, for one ask (section 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.engine.fragmentation import Ints
from scheduling.engine.model.quantities import MOST_IN_ARRAYS, in_arrays
from scheduling.engine.placement.pod_request import PodRequest


@dataclass(frozen=True, slots=True)
class Rooms:
    """Per node what is left of each device, of CPU and of memory, and the cost of a pod of the ask on each device (0:
    it cannot use it)."""

    ask: PodRequest
    costs: Ints
    gpu: Ints
    cpu: Ints
    memory: Ints

    def on(self, nodes: Ints) -> Rooms:
        """The rooms of these nodes, as often as they are named."""
        return Rooms(self.ask, self.costs[nodes], self.gpu[nodes], self.cpu[nodes], self.memory[nodes])

    def with_more(self, gpu: Ints, cpu: Ints, memory: Ints) -> Rooms:
        """The rooms with so much more of everything."""
        return Rooms(self.ask, self.costs, self.gpu + gpu, self.cpu + cpu, self.memory + memory)

    def pods(self) -> Ints:
        """How many pods each holds."""
        ask, costs, gpu = self.ask, self.costs, self.gpu
        if ask.whole:
            free: Ints = ((gpu == costs) & (costs > 0)).sum(1)
            pods = free // ask.whole
        else:
            pods = np.where(costs > 0, np.maximum(gpu, 0) // np.maximum(costs, 1), 0).sum(1)
        if ask.cpu_milli:
            pods = np.minimum(pods, np.maximum(self.cpu, 0) // in_arrays(ask.cpu_milli))
        if ask.memory_mib:
            pods = np.minimum(pods, np.maximum(self.memory, 0) // in_arrays(ask.memory_mib))
        return pods


def capped(amounts: list[int]) -> Ints:
    """The amounts as an array, those cut off that are beyond what sums of it can hold."""
    try:
        return np.clip(np.array(amounts, np.int64), -MOST_IN_ARRAYS, MOST_IN_ARRAYS)
    except OverflowError:
        return np.array([in_arrays(amount) for amount in amounts], np.int64)


def filled(rows: Sequence[Sequence[int]], width: int) -> Ints:
    """The rows as an array, filled up with zeros."""
    if all(len(row) == width for row in rows):
        return np.array(rows, np.int64).reshape(len(rows), width)
    return np.array([[*row, *[0] * (width - len(row))] for row in rows], np.int64).reshape(len(rows), width)
