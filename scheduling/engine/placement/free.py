"""What is left on one node, how many pods it holds, and which devices a pod takes there (section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduling.engine.model.quantities import UNLIMITED
from scheduling.engine.model.snapshot import GPU_MILLI, Node
from scheduling.engine.placement.pod_request import Ask

Picks = Sequence[tuple[int, int]]
"""(position of a device on its node, milli-GPUs) pairs."""


@dataclass(slots=True)
class Room:
    """What is left on one node: per device, and of CPU and memory. Below zero is what is held and promised at
    once."""

    gpu: list[int]
    cpu: int
    memory: int

    def copy(self) -> Room:
        """A room that can be changed without changing this one."""
        return Room(list(self.gpu), self.cpu, self.memory)

    def change(self, picks: Picks, cpu: int, memory: int, sign: int) -> None:
        """Give back (``sign`` 1) or take (-1) what a pod holds."""
        for at, milli in picks:
            self.gpu[at] += sign * milli
        self.cpu += sign * cpu
        self.memory += sign * memory

    def within(self, other: Room) -> Room:
        """What is left in both."""
        return Room(
            [min(mine, theirs) for mine, theirs in zip(self.gpu, other.gpu, strict=True)],
            min(self.cpu, other.cpu),
            min(self.memory, other.memory),
        )


def empty_room(node: Node) -> Room:
    """The room of a node that runs nothing of ours."""
    return Room(
        [0 if device.foreign else device.share_milli for device in node.devices],
        UNLIMITED if node.cpu_milli is None else node.cpu_milli,
        UNLIMITED if node.memory_mib is None else node.memory_mib,
    )


def pods_in(room: Room, costs: Sequence[int], ask: Ask) -> int:
    """How many pods of the ask the room holds, given its cost on each device."""
    if ask.whole:
        if costs.count(GPU_MILLI) == len(costs):
            free = room.gpu.count(GPU_MILLI)
        else:
            free = sum(1 for left, cost in zip(room.gpu, costs, strict=True) if cost and left == cost)
        pods = free // ask.whole
    else:
        pods = 0
        for left, cost in zip(room.gpu, costs, strict=True):
            if cost and left >= cost:
                pods += left // cost
    if pods and ask.cpu_milli:
        pods = min(pods, max(0, room.cpu) // ask.cpu_milli)
    if pods and ask.memory_mib:
        pods = min(pods, max(0, room.memory) // ask.memory_mib)
    return pods


def pick_devices(room: Room, costs: Sequence[int], ask: Ask) -> Picks | None:
    """The devices a pod takes on a node, ``None`` if it does not fit.

    A fraction goes to the partly used device that fits most tightly and breaks a whole one only where none fits.
    """
    if (ask.cpu_milli and room.cpu < ask.cpu_milli) or (ask.memory_mib and room.memory < ask.memory_mib):
        return None
    if ask.bare:
        return []
    if ask.whole:
        free = [at for at, left in enumerate(room.gpu) if left and left == costs[at]]
        return [(at, costs[at]) for at in free[: ask.whole]] if len(free) >= ask.whole else None
    fitting = [
        (left == GPU_MILLI, left - costs[at], at)
        for at, left in enumerate(room.gpu)
        if costs[at] and left >= costs[at]
    ]
    if not fitting:
        return None
    _, _, at = min(fitting)
    return [(at, costs[at])]
