"""What is left on many nodes, as arrays, for one request (section 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.acceleration.typical_arrays import Ints
from scheduling.engine.model.quantities import MOST_IN_ARRAYS, in_arrays
from scheduling.engine.placement.pod_request import PodRequest


@dataclass(frozen=True, slots=True)
class FreeArrays:
    """Per node what is free of each device, of CPU and of memory, and the cost of a pod on each device (0: it cannot
    use the device)."""

    request: PodRequest
    costs: Ints
    gpu: Ints
    cpu: Ints
    memory: Ints

    def on(self, nodes: Ints) -> FreeArrays:
        """The rows of these nodes, as often as they are named."""
        return FreeArrays(
            self.request, self.costs[nodes], self.gpu[nodes], self.cpu[nodes], self.memory[nodes]
        )

    def with_more(self, gpu: Ints, cpu: Ints, memory: Ints) -> FreeArrays:
        """The rows with so much more of everything."""
        return FreeArrays(self.request, self.costs, self.gpu + gpu, self.cpu + cpu, self.memory + memory)

    def pods(self) -> Ints:
        """How many pods each holds."""
        request, costs, gpu = self.request, self.costs, self.gpu
        if request.whole:
            free: Ints = ((gpu == costs) & (costs > 0)).sum(1)
            pods = free // request.whole
        else:
            pods = np.where(costs > 0, np.maximum(gpu, 0) // np.maximum(costs, 1), 0).sum(1)
        if request.cpu_milli:
            pods = np.minimum(pods, np.maximum(self.cpu, 0) // in_arrays(request.cpu_milli))
        if request.memory_mib:
            pods = np.minimum(pods, np.maximum(self.memory, 0) // in_arrays(request.memory_mib))
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
