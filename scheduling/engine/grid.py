"""The rooms of a space as arrays, so that many nodes are looked at in one step (section 5)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from scheduling.engine.fragmentation import Floats, Ints
from scheduling.engine.quantities import in_arrays

if TYPE_CHECKING:
    from scheduling.engine.space import Space

FORGOTTEN = 4
"""When there have been so many times more different rooms than there are nodes, those of the past are forgotten."""


class Grid:
    """What is left on every node, a row per node, as the space's rooms have it; zeros for one that takes no new pods.

    ``gpu`` has a column per device, 0 beyond a node's last and where less than nothing is left; ``free`` adds them up,
    ``devices`` counts them. ``fragments`` is what of it the pool's typical requests could not use, by their measure.
    Nodes of one kind with equal rooms have the same number in ``alike``, of less than ``numbers``. ``stamp`` says how
    many of the space's changes had been made when a row was read last. It is of no use any more when the fleet's pool
    is another one.
    """

    def __init__(self, space: Space) -> None:
        fleet = space.fleet
        self.pool = fleet.pool
        self.typical = fleet.typical
        self._space = space
        self._seen = len(space.changed)
        nodes = len(fleet.nodes)
        self.kinds: Ints = np.array(fleet.kind_of, np.int64)
        self.devices: Ints = np.array([len(node.devices) for node in fleet.nodes], np.int64)
        width = max((len(kind.devices) for kind in fleet.kinds), default=0)
        self.gpu: Ints = np.zeros((nodes, width), np.int64)
        self.cpu: Ints = np.zeros(nodes, np.int64)
        self.memory: Ints = np.zeros(nodes, np.int64)
        self.free: Ints = np.zeros(nodes, np.int64)
        self.fragments: Floats = np.zeros(nodes)
        self.alike: Ints = np.zeros(nodes, np.int64)
        self._is_even = [len(set(kind.devices)) < 2 for kind in fleet.kinds]
        self._numbers: dict[tuple[int, ...], int] = {}
        self.stamp: Ints = np.zeros(nodes, np.int64)
        self._read(range(nodes))

    def copy(self, space: Space) -> Grid:
        """The grid of a space that is a copy of this one's, which it must be up to date with."""
        twin = copy(self)
        twin._space, twin._seen = space, len(space.changed)
        twin._numbers = dict(self._numbers)
        twin.stamp = np.zeros_like(self.stamp)
        for name in ("gpu", "cpu", "memory", "free", "fragments", "alike"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    @property
    def numbers(self) -> int:
        """How many different rooms there have been."""
        return len(self._numbers)

    def refresh(self) -> Grid:
        """Bring it up to date, and return it."""
        changed = self._space.changed
        if self._seen < len(changed):
            ranks, self._seen = sorted(set(changed[self._seen :])), len(changed)
            self._read(ranks)
            if self.numbers > FORGOTTEN * len(self.kinds) + FORGOTTEN:
                self._numbers.clear()
                self._number(range(len(self.kinds)))
        return self

    def _read(self, ranks: Iterable[int]) -> None:
        """Take over what is left on these nodes."""
        of_kinds = [rank for rank in ranks if self._space.fleet.kind_of[rank] >= 0]
        if not of_kinds:
            return
        rooms, width = self._space.rooms, self.gpu.shape[1]
        at = np.array(of_kinds, np.int64)
        found = [rooms[rank] for rank in of_kinds]
        self.gpu[at] = [
            [left if left > 0 else 0 for left in room.gpu] + [0] * (width - len(room.gpu)) for room in found
        ]
        self.cpu[at] = [in_arrays(room.cpu) for room in found]
        self.memory[at] = [in_arrays(room.memory) for room in found]
        self.stamp[at] = self._seen
        self._number(of_kinds)
        self.free[at] = self.gpu[at].sum(1)
        if self.typical:
            self.fragments[at] = self.lost(at, self.gpu[at])

    def _number(self, ranks: Iterable[int]) -> None:
        """Give equal rooms of one kind equal numbers."""
        rooms, kinds, numbers = self._space.rooms, self._space.fleet.kind_of, self._numbers
        for rank in ranks:
            room = rooms[rank]
            key = (kinds[rank], room.cpu, room.memory, *room.gpu)
            self.alike[rank] = numbers.setdefault(key, len(numbers))

    def decisive(self, rank: int, cpu: int, memory: int) -> Hashable:
        """All that decides how good a node is for a pod that takes so much CPU and memory: of equal nodes, that is.

        Devices that nothing tells apart may stand in any order.
        """
        room, kind = self._space.rooms[rank], self._space.fleet.kind_of[rank]
        left = tuple(sorted(room.gpu) if self._is_even[kind] else room.gpu)
        return (
            kind,
            left,
            self.typical.steps(room.cpu, room.memory),
            self.typical.steps(room.cpu - cpu, room.memory - memory),
        )

    def lost(self, ranks: Ints, gpu: Ints, cpu: int = 0, memory: int = 0) -> Floats:
        """The fragments of these nodes, had they so much left of each device, and so much less CPU and memory."""
        return self.typical.fragments(
            self.kinds[ranks], gpu, self.cpu[ranks] - cpu, self.memory[ranks] - memory
        )

    def fragmentation(self) -> float:
        """The part (0 to 1) of what is free on nodes that take new pods that the typical requests could not use."""
        free = int(self.free.sum())
        return float(self.fragments.sum()) / self.typical.total / free if free else 0.0
