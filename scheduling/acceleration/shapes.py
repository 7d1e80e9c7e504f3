"""What can be left of a node's devices, numbered, so that nodes alike in that are looked at once (section 5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from scheduling.acceleration.typical_arrays import Ints, TypicalArrays
from scheduling.engine.model.quantities import in_arrays
from scheduling.engine.placement.free import NodeFree
from scheduling.engine.placement.nodes import Nodes

MOST_MEASURED = 16_384
"""So many fragments are remembered."""
Shape = tuple[int, tuple[int, ...]]
"""A node's kind and what is left of each device; in ascending order where nothing tells the devices apart."""


class Shapes:
    """The shapes that nodes of a pool have had so far, a number and a column each.

    ``kinds`` and ``gpu`` say what they are (0 beyond a node's last device and where less than nothing is left),
    ``devices`` counts the devices, ``free`` adds up what is left of them, ``usable`` is how much of it a typical
    request of each size could use. The arrays are at least as long as there are numbers. ``width`` is how many devices
    a node has at most.
    """

    def __init__(self, nodes: Nodes, typical: TypicalArrays) -> None:
        self._typical = typical
        self._is_even = [
            len(set(kind.devices)) < 2 and len(set(kind.shared_by)) < 2 for kind in nodes.classes
        ]
        self.width = max((len(kind.devices) for kind in nodes.classes), default=0)
        self._numbers: dict[Shape, int] = {}
        self._fragments: dict[tuple[Shape, tuple[int, int]], float] = {}
        self.kinds: Ints = np.zeros(0, np.int64)
        self.gpu: Ints = np.zeros((self.width, 0), np.int64)
        self.devices: Ints = np.zeros(0, np.int64)
        self.free: Ints = np.zeros(0, np.int64)
        self.usable: Ints = np.zeros((typical.sizes, 0), np.int64)

    def __len__(self) -> int:
        return len(self._numbers)

    def shape(self, kind: int, gpu: Sequence[int]) -> Shape:
        """What is so much of each device on a node of a kind."""
        return kind, tuple(sorted(gpu) if self._is_even[kind] else gpu)

    def numbers(self, nodes: Iterable[tuple[int, NodeFree]]) -> list[int]:
        """The numbers of the shapes of nodes, given their kinds and what is free."""
        is_even, known, numbers = self._is_even, self._numbers, []
        new: list[Shape] = []
        for kind, node_free in nodes:
            shape = (kind, tuple(sorted(node_free.gpu) if is_even[kind] else node_free.gpu))
            number = known.get(shape)
            if number is None:
                number = known[shape] = len(known)
                new.append(shape)
            numbers.append(number)
        if new:
            self._add(new)
        return numbers

    def _add(self, new: Sequence[Shape]) -> None:
        """Fill in the columns of the last shapes."""
        at = slice(len(self) - len(new), len(self))
        for name in ("kinds", "gpu", "devices", "free", "usable"):
            setattr(self, name, grown(getattr(self, name), len(self)))
        self.kinds[at] = [kind for kind, _ in new]
        self.gpu[:, at] = self._columns(new)
        self.devices[at] = [len(gpu) for _, gpu in new]
        self.free[at] = self.gpu[:, at].sum(0)
        self.usable[:, at] = self._typical.usable(self.kinds[at], self.gpu[:, at])

    def fragments(self, kind: int, node_free: NodeFree) -> float:
        """What is left of one node that the typical requests could not use, by their measure; measured once for all
        that is alike to them."""
        typical, shape = self._typical, self.shape(kind, node_free.gpu)
        key = (shape, typical.enough(node_free.cpu, node_free.memory))
        found = self._fragments.get(key)
        if found is None:
            if len(self._fragments) >= MOST_MEASURED:
                self._fragments.clear()
            gpu = self._columns([shape])
            usable = typical.usable(np.array([kind]), gpu)
            cpu, memory = np.array([in_arrays(node_free.cpu)]), np.array([in_arrays(node_free.memory)])
            found = self._fragments[key] = float(typical.fragments(gpu.sum(0), usable, cpu, memory)[0])
        return found

    def _columns(self, shapes: Iterable[Shape]) -> Ints:
        """What is left of each device, 0 beyond the last."""
        rows = [[max(left, 0) for left in gpu] + [0] * (self.width - len(gpu)) for _, gpu in shapes]
        return np.array(rows, np.int64).T


def grown(columns: Ints, count: int, fill: int = 0) -> Ints:
    """The columns, with space for at least so many."""
    if columns.shape[-1] >= count:
        return columns
    longer: Ints = np.full((*columns.shape[:-1], 2 * count), fill, np.int64)
    longer[..., : columns.shape[-1]] = columns
    return longer
