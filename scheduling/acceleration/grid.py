"""The free capacity of an index as arrays, so that many nodes are looked at in one step (section 5)."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

import numpy as np

from scheduling.acceleration.free_arrays import filled
from scheduling.acceleration.node_arrays import NodeArrays
from scheduling.acceleration.shapes import Shapes
from scheduling.acceleration.typical_arrays import Floats, Ints
from scheduling.engine.model.quantities import MOST_IN_ARRAYS, in_arrays
from scheduling.engine.placement.free import NodeFree
from scheduling.engine.placement.nodes import Nodes

FORGOTTEN = 4
"""When there have been so many times more shapes than there are nodes, those of the past are forgotten."""


class Grid:
    """What is left on every node, as the index has it; zeros for one that takes no new pods.

    ``node_free`` is what is free, by rank, and ``changed`` the nodes where it has changed, in order: both are the
    index's own. ``alike`` is the number of what is left of its devices among the ``shapes``, ``free`` how much that is.
    :attr:`gpu` is that device by device, :attr:`fragments` what of it the pool's typical requests could not use, by
    their measure. ``stamp`` says how many of its changes had been made when a row was read last (-1: it never
    was). It is of no use any more when the nodes' pool is another one.
    """

    def __init__(
        self, nodes: Nodes, arrays: NodeArrays, node_free: list[NodeFree], changed: list[int]
    ) -> None:
        self.nodes = nodes
        self.pool = nodes.pool
        self.arrays = arrays
        self.typical = arrays.typical
        self.shapes = Shapes(nodes, self.typical)
        self.node_free = node_free
        self.changed = changed
        self._seen = len(changed)
        self._measured = self._laid_out = -1
        count = len(nodes.rows)
        self._fragments: Floats = np.zeros(count)
        self._gpu: Ints = np.zeros((count, self.shapes.width), np.int64)
        self.alike: Ints = np.zeros(count, np.int64)
        self.free: Ints = np.zeros(count, np.int64)
        self.cpu: Ints = np.zeros(count, np.int64)
        self.memory: Ints = np.zeros(count, np.int64)
        self.stamp: Ints = np.full(count, -1, np.int64)
        self._read(range(count))

    def copy(self, node_free: list[NodeFree], changed: list[int]) -> Grid:
        """The grid of an index that is a copy of this one's, which it must be up to date with."""
        twin = copy(self)
        twin.node_free, twin.changed, twin._seen = node_free, changed, len(changed)
        twin._measured, twin._laid_out = twin._seen, -1
        twin.stamp = np.minimum(self.stamp, 0)
        twin._fragments, twin._gpu = self.fragments.copy(), np.zeros_like(self._gpu)
        for name in ("alike", "free", "cpu", "memory"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def refresh(self) -> Grid:
        """Bring it up to date, and return it."""
        changed = self.changed
        if self._seen < len(changed):
            ranks, self._seen = set(changed[self._seen :]), len(changed)
            self._read(ranks)
            nodes = len(self.node_free)
            if len(self.shapes) > FORGOTTEN * nodes + FORGOTTEN:
                self.shapes = Shapes(self.nodes, self.typical)
                self._read(range(nodes))
        return self

    def _read(self, ranks: Iterable[int]) -> None:
        """Take over what is left on these nodes."""
        free, kind_of, shapes = self.node_free, self.nodes.class_of, self.shapes
        of_kinds = [rank for rank in ranks if kind_of[rank] >= 0]
        if not of_kinds:
            return
        at = np.array(of_kinds, np.int64)
        found = [free[rank] for rank in of_kinds]
        kinds = [kind_of[rank] for rank in of_kinds]
        self.alike[at] = shapes.numbers(zip(kinds, found, strict=True))
        self.free[at] = shapes.free[self.alike[at]]
        self.cpu[at] = _capped([node_free.cpu for node_free in found])
        self.memory[at] = _capped([node_free.memory for node_free in found])
        self.stamp[at] = self._seen

    @property
    def gpu(self) -> Ints:
        """What is left of each device of each node, 0 beyond the last; for a grid that is up to date."""
        if self._laid_out < self._seen:
            at = np.flatnonzero(self.stamp > self._laid_out)
            free = self.node_free
            self._gpu[at] = filled([free[rank].gpu for rank in at.tolist()], self.shapes.width)
            self._laid_out = self._seen
        return self._gpu

    @property
    def fragments(self) -> Floats:
        """What is left on each node that the typical requests could not use; for a grid that is up to date."""
        if self._measured < self._seen and self.typical:
            at = np.flatnonzero(self.stamp > self._measured)
            usable = self.shapes.usable.take(self.alike[at], axis=1)
            self._fragments[at] = self.typical.fragments(self.free[at], usable, self.cpu[at], self.memory[at])
            self._measured = self._seen
        return self._fragments

    def fragmentation(self) -> float:
        """The part (0 to 1) of what is free on nodes that take new pods that the typical requests could not use."""
        free = int(self.free.sum())
        return float(self.fragments.sum()) / self.typical.total / free if free else 0.0


def _capped(amounts: list[int]) -> list[int]:
    if max(amounts) <= MOST_IN_ARRAYS and min(amounts) >= -MOST_IN_ARRAYS:
        return amounts
    return [in_arrays(amount) for amount in amounts]
