"""Scoring: which node is best for the next pod (section 5).

Keys order the nodes, lower for a better one; equal ones go by rank, that is by the node's id. What counts is what is
free now: how it came about makes no difference.

- ``spread``: the node with most free.
- ``binpack``: (1) the score of what fragmentation falls there, highest first (all the same without typical requests);
  (2) the part of the node's devices that is free, twice, plus the part of the device that a share leaves over, least
  first.
- ``binpack`` without typical requests, for one pod at a time: the tightest. Fewest whole devices left over; for a share
  the partly used device with least left over, and a whole one only where none fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduling.engine.model.snapshot import GPU_MILLI, NodeOrder, Slicing
from scheduling.engine.placement.fragmentation import Fragmentation
from scheduling.engine.placement.free import NodeFree, pick_devices, pods_in
from scheduling.engine.placement.node_eligibility import NodeClass
from scheduling.engine.placement.pod_request import PodRequest

PART = 1_000_000
"""All of a device, or of all of a node's devices, in millionths."""
MANY = 1 << 30
"""Pods without GPUs that a node holds, as far as its devices are concerned."""


@dataclass(frozen=True, slots=True)
class NodeScore:
    """How good nodes of one pool are, by its policy and the fragmentation that its typical requests measure."""

    measure: Fragmentation
    placement: NodeOrder

    def key(self, number: int, free: NodeFree, costs: Sequence[int], request: PodRequest) -> int | None:
        """The key of a node of this class for one pod; ``None`` where it does not fit."""
        picks = pick_devices(free, costs, request)
        if picks is None:
            return None
        left = sum(each for each in free.gpu if each > 0)
        if self.placement is NodeOrder.SPREAD:
            return -left
        after = free.copy()
        after.change(picks, request.cpu_milli, request.memory_mib, -1)
        over = sum(after.gpu[at] for at, _ in picks) * (PART // GPU_MILLI)
        tied = 2 * (left * (PART // GPU_MILLI) // max(len(free.gpu), 1)) + over
        if not self.measure:
            return tied
        fallen = self.measure.of(number, free) - self.measure.of(number, after)
        return tied - self.measure.score(fallen) * (3 * PART + 1)


def tightness(
    node_class: NodeClass, free: NodeFree, costs: Sequence[int], request: PodRequest, *, uniform: bool
) -> int | None:
    """How much a node would have left over for one pod; ``None`` where it does not fit.

    Of nodes with a slice for the pod that with the fewest others comes first. ``uniform``: all devices of the class
    cost the same and none is a slice.
    """
    picks = pick_devices(free, costs, request)
    if picks is None:
        return None
    whole = free.gpu.count(GPU_MILLI)
    if uniform:
        partly = [left for left in free.gpu if left not in (0, GPU_MILLI) and left >= costs[0] > 0]
        if partly and not request.whole:
            return min(partly) - costs[0]
        return GPU_MILLI * (1 + whole - request.whole)
    at, milli = picks[0]
    if node_class.devices[at].slicing is not Slicing.WHOLE:
        return pods_in(free, costs, request) - 1
    return GPU_MILLI * (1 + whole - request.whole) if free.gpu[at] == GPU_MILLI else free.gpu[at] - milli


def held(free: NodeFree, costs: Sequence[int], request: PodRequest) -> int:
    """How many pods a node holds, also of a request without GPUs."""
    if not request.bare:
        return pods_in(free, costs, request)
    pods = MANY
    if request.cpu_milli:
        pods = min(pods, max(0, free.cpu) // request.cpu_milli)
    if request.memory_mib:
        pods = min(pods, max(0, free.memory) // request.memory_mib)
    return pods
