"""How many pods of a request each node holds, and which node is best for the next one (section 5)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduling.acceleration.grid import Grid
from scheduling.acceleration.shapes import Shapes, grown
from scheduling.acceleration.typical_arrays import Ints
from scheduling.engine.model.quantities import in_arrays
from scheduling.engine.model.snapshot import GPU_MILLI, NodeOrder
from scheduling.engine.placement.fragmentation import Fragmentation
from scheduling.engine.placement.free import NodeFree
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.placement.scoring import MANY, PART, NodeScore

NOWHERE = np.iinfo(np.int64).max
"""The key of a node that holds no pod of the request."""
FEW_NODES = 24
"""Up to so many nodes are looked at one by one."""
FEW_NOTES = 256
"""Up to so many notes are read to find those few nodes."""
MOST_KNOWN = 16_384
"""So many keys are remembered by what is left on a node."""
UNKNOWN = -1
HOLD, TIED, AFTER, USABLE = range(4)
"""What is remembered of a shape: how many pods the devices hold, what decides between nodes of equal score, how much
would be left of the devices, and, from here on, how much of that typical requests of each size could use."""


class ShapeFragmentation(Fragmentation):
    """The measure for one node at a time, worked out once for all nodes of one shape."""

    def __init__(self, grid: Grid) -> None:
        self.total = int(grid.typical.total)
        self._shapes = grid.shapes

    def of(self, number: int, free: NodeFree) -> int:
        """F of a node of this class with so much free."""
        return int(self._shapes.fragments(number, free))


class NodeScores:
    """For one request, by node: :attr:`pods`, how many fit, and :attr:`keys`, lower for a better node.

    Keys order the nodes for binpack by (1) the score of what fragmentation falls there, highest first (all the same
    without typical requests), (2) the part of the node's devices that is free, twice, plus the part of the device that
    a share leaves over, least first; for spread by what is free, most first. Equal ones go by rank, that is by the
    node's id. What counts is what is left now: how it came about makes no difference. What only the devices decide is
    worked out once for all nodes of one shape.
    """

    def __init__(self, grid: Grid, request: PodRequest) -> None:
        nodes = grid.nodes
        usable = nodes.usable(request)
        self._request = request
        self._cpu, self._memory = in_arrays(request.cpu_milli), in_arrays(request.memory_mib)
        self._whole = in_arrays(request.whole)
        self._grid = grid
        self._placement = nodes.pool.policy.placement
        self._costs_of = {each.number: each.costs for each in usable}
        self._costs: Ints = np.zeros((len(grid.shapes.gpu), len(nodes.classes)), np.int64)
        for each in usable:
            self._costs[: len(each.costs), each.number] = each.costs
        self._ranks = grid.arrays.ranks_of(usable)
        self._shapes: Shapes | None = None
        self._by_shape: Ints = np.zeros((0, 0), np.int64)
        self._pods: Ints = np.zeros(len(nodes.rows), np.int64)
        self._keys: Ints = np.full(len(nodes.rows), NOWHERE, np.int64)
        self._known: dict[Hashable, int] = {}
        self._counted = self._rated = -1

    @property
    def pods(self) -> Ints:
        """How many pods each node holds."""
        changed = self._grid.changed
        if self._counted < len(changed):
            stale = self._stale(self._counted)
            if len(stale):
                self._pods[stale] = self._count(stale)
            self._counted = len(changed)
        return self._pods

    @property
    def keys(self) -> Ints:
        """How good each node is, :data:`NOWHERE` where no pod fits."""
        changed = self._grid.changed
        if self._rated < len(changed):
            few = self._few_stale(changed)
            if few is None:
                self._rate(self._stale(self._rated))
            else:
                self._rate_few(few)
            self._rated = len(changed)
        return self._keys

    def _stale(self, seen: int) -> Ints:
        """The nodes that have changed since there were so many changes."""
        stamp = self._grid.refresh().stamp
        return self._ranks[stamp[self._ranks] > seen]

    def _few_stale(self, changed: Sequence[int]) -> set[int] | None:
        """The nodes that have changed since their keys were worked out, if they are few."""
        if self._rated < max(0, len(changed) - FEW_NOTES):
            return None
        ranks = set(changed[self._rated :])
        return ranks if len(ranks) <= FEW_NODES else None

    def _rate_few(self, ranks: Iterable[int]) -> None:
        """Find the keys of these nodes, one by one; work a key out only if no node had as much left of all that
        decides it.

        Devices that nothing tells apart may stand in any order, and of CPU and memory only that decides for how many
        of the typical requests they suffice, before and after.
        """
        free, kind_of, keys, known = self._grid.node_free, self._grid.nodes.class_of, self._keys, self._known
        cpu, memory = self._request.cpu_milli, self._request.memory_mib
        shape_of, enough = self._grid.shapes.shape, self._grid.typical.enough
        score = NodeScore(ShapeFragmentation(self._grid), self._placement)
        for rank in ranks:
            kind, node_free = kind_of[rank], free[rank]
            if kind not in self._costs_of:
                continue
            if (cpu and node_free.cpu < cpu) or (memory and node_free.memory < memory):
                keys[rank] = NOWHERE
                continue
            left = (
                shape_of(kind, node_free.gpu),
                enough(node_free.cpu, node_free.memory),
                enough(node_free.cpu - cpu, node_free.memory - memory),
            )
            key = known.get(left)
            if key is None:
                if len(known) >= MOST_KNOWN:
                    known.clear()
                found = score.key(kind, node_free, self._costs_of[kind], self._request)
                key = known[left] = NOWHERE if found is None else found
            keys[rank] = key

    def _count(self, ranks: Ints) -> Ints:
        """How many pods these nodes hold."""
        grid = self._grid
        pods: Ints = self._by_shape_of(ranks)[HOLD, grid.alike[ranks]]
        if self._cpu:
            pods = np.minimum(pods, np.maximum(grid.cpu[ranks], 0) // self._cpu)
        if self._memory:
            pods = np.minimum(pods, np.maximum(grid.memory[ranks], 0) // self._memory)
        return pods

    def _rate(self, ranks: Ints) -> None:
        """Work out the keys of these nodes."""
        grid, by_shape = self._grid, self._by_shape_of(ranks)
        fits = by_shape[HOLD, grid.alike[ranks]] > 0
        if self._cpu:
            fits &= grid.cpu[ranks] >= self._cpu
        if self._memory:
            fits &= grid.memory[ranks] >= self._memory
        self._keys[ranks] = NOWHERE
        ranks = ranks[fits]
        alike = grid.alike[ranks]
        if self._placement is NodeOrder.SPREAD:
            self._keys[ranks] = -grid.free[ranks]
        elif not grid.typical:
            self._keys[ranks] = by_shape[TIED, alike]
        elif len(ranks):
            cpu, memory = grid.cpu[ranks] - self._cpu, grid.memory[ranks] - self._memory
            usable = by_shape[USABLE:].take(alike, axis=1)
            lost = grid.typical.fragments(by_shape[AFTER, alike], usable, cpu, memory)
            scores = grid.typical.scores(grid.fragments[ranks] - lost)
            self._keys[ranks] = by_shape[TIED, alike] - scores * (3 * PART + 1)

    def _by_shape_of(self, ranks: Ints) -> Ints:
        """What is remembered by shape, after those that these nodes have been worked out."""
        shapes = self._grid.shapes
        if self._shapes is not shapes:
            self._shapes = shapes
            self._by_shape = np.zeros((USABLE + len(shapes.usable), 0), np.int64)
        self._by_shape = grown(self._by_shape, len(shapes), UNKNOWN)
        alike = self._grid.alike[ranks]
        new = alike[self._by_shape[HOLD, alike] == UNKNOWN]
        if len(new):
            self._learn(shapes, np.flatnonzero(np.bincount(new)))
        return self._by_shape

    def _learn(self, shapes: Shapes, numbers: Ints) -> None:
        """Work out what is remembered of these shapes."""
        gpu, kinds = shapes.gpu[:, numbers], shapes.kinds[numbers]
        costs = self._costs[:, kinds]
        self._by_shape[HOLD, numbers] = pods = self._on_devices(gpu, costs)
        fits = pods > 0
        numbers, gpu, kinds, costs = numbers[fits], gpu[:, fits], kinds[fits], costs[:, fits]
        if len(numbers):
            after = self._after(gpu, costs)
            free = shapes.free[numbers] * (PART // GPU_MILLI) // np.maximum(shapes.devices[numbers], 1)
            over = np.where(after < gpu, after, 0).sum(0) * (PART // GPU_MILLI)
            self._by_shape[TIED, numbers] = 2 * free + over
            self._by_shape[AFTER, numbers] = after.sum(0)
            self._by_shape[USABLE:, numbers] = self._grid.typical.usable(kinds, after)

    def _on_devices(self, gpu: Ints, costs: Ints) -> Ints:
        """How many pods the devices hold."""
        if self._request.bare:
            return np.full(gpu.shape[1], MANY, np.int64)
        if self._whole:
            free: Ints = ((gpu == costs) & (costs > 0)).sum(0)
            return free // self._whole
        pods: Ints = np.where(costs > 0, gpu // np.maximum(costs, 1), 0).sum(0)
        return pods

    def _after(self, gpu: Ints, costs: Ints) -> Ints:
        """What the devices would have left, as :func:`~scheduling.engine.placement.free.pick_devices` picks them."""
        if self._request.bare:
            return gpu
        if self._whole:
            free = (gpu == costs) & (costs > 0)
            taken: NDArray[np.bool_] = free & (np.cumsum(free, axis=0) <= self._whole)
            return np.where(taken, 0, gpu)
        fits = (costs > 0) & (gpu >= costs)
        tightness = np.where(fits, (gpu == GPU_MILLI) * GPU_MILLI + gpu - costs, NOWHERE)
        at = np.argmin(tightness, axis=0)
        after, columns = gpu.copy(), np.arange(gpu.shape[1])
        after[at, columns] -= costs[at, columns]
        return after
