"""What is free on one node, how many pods that holds, and which devices a pod takes there (section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduling.engine.model.quantities import UNLIMITED
from scheduling.engine.model.snapshot import GPU_MILLI, NodeInfo
from scheduling.engine.placement.pod_request import PodRequest

Picks = Sequence[tuple[int, int]]
"""(position of a device on its node, milli-GPUs) pairs."""


@dataclass(slots=True)
class NodeFree:
    """What is free on one node: per device, and of CPU and memory. Below zero is what is both held and promised."""

    gpu: list[int]
    cpu: int
    memory: int

    def copy(self) -> NodeFree:
        """A copy that can be changed without changing this one."""
        return NodeFree(list(self.gpu), self.cpu, self.memory)

    def change(self, picks: Picks, cpu: int, memory: int, sign: int) -> None:
        """Give back (``sign`` 1) or take (-1) what a pod holds."""
        for at, milli in picks:
            self.gpu[at] += sign * milli
        self.cpu += sign * cpu
        self.memory += sign * memory

    def within(self, other: NodeFree) -> NodeFree:
        """What is free in both."""
        return NodeFree(
            [min(mine, theirs) for mine, theirs in zip(self.gpu, other.gpu, strict=True)],
            min(self.cpu, other.cpu),
            min(self.memory, other.memory),
        )


def free_when_empty(node: NodeInfo) -> NodeFree:
    """What is free on a node that runs nothing of ours."""
    return NodeFree(
        [0 if device.foreign else device.share_milli for device in node.devices],
        UNLIMITED if node.cpu_milli is None else node.cpu_milli,
        UNLIMITED if node.memory_mib is None else node.memory_mib,
    )


def pods_in(free: NodeFree, costs: Sequence[int], request: PodRequest) -> int:
    """How many pods of the request the node holds, given its cost on each device."""
    if request.whole:
        if costs.count(GPU_MILLI) == len(costs):
            unused = free.gpu.count(GPU_MILLI)
        else:
            unused = sum(1 for left, cost in zip(free.gpu, costs, strict=True) if cost and left == cost)
        pods = unused // request.whole
    else:
        pods = 0
        for left, cost in zip(free.gpu, costs, strict=True):
            if cost and left >= cost:
                pods += left // cost
    if pods and request.cpu_milli:
        pods = min(pods, max(0, free.cpu) // request.cpu_milli)
    if pods and request.memory_mib:
        pods = min(pods, max(0, free.memory) // request.memory_mib)
    return pods


def pick_devices(free: NodeFree, costs: Sequence[int], request: PodRequest) -> Picks | None:
    """The devices a pod takes on a node, ``None`` if it does not fit.

    A fraction goes to the partly used device that fits most tightly and breaks a whole one only where none fits.
    """
    if (request.cpu_milli and free.cpu < request.cpu_milli) or (
        request.memory_mib and free.memory < request.memory_mib
    ):
        return None
    if request.bare:
        return []
    if request.whole:
        unused = [at for at, left in enumerate(free.gpu) if left and left == costs[at]]
        return [(at, costs[at]) for at in unused[: request.whole]] if len(unused) >= request.whole else None
    fitting = [
        (left == GPU_MILLI, left - costs[at], at)
        for at, left in enumerate(free.gpu)
        if costs[at] and left >= costs[at]
    ]
    if not fitting:
        return None
    _, _, at = min(fitting)
    return [(at, costs[at])]
