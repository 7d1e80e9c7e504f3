"""What is left on every node, indexed so that a place is looked up instead of searched for (section 5)."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Self

from scheduling.acceleration.grid import Grid
from scheduling.acceleration.node_arrays import NodeArrays
from scheduling.acceleration.node_scores import NodeScores
from scheduling.engine.model.snapshot import GPU_MILLI
from scheduling.engine.placement.free import NodeFree, Picks
from scheduling.engine.placement.node_index import NodeIndex
from scheduling.engine.placement.nodes import Nodes
from scheduling.engine.placement.pod_request import PodRequest

RanksByCount = dict[int, list[int]]

SCORES_KEPT = 256
"""Of so many requests it is remembered how good each node is for them."""
NOT_PARTLY = frozenset({0, GPU_MILLI})
"""What is left of a device that is idle, or taken whole."""


class IndexedFree(NodeIndex):
    """What is free on each node of a pool.

    ``changed`` are the nodes that have been changed, in order, for indexes that keep figures of their own.
    """

    def __init__(self, nodes: Nodes, free: list[NodeFree], arrays: NodeArrays | None = None) -> None:
        self.nodes = nodes
        self.arrays = NodeArrays(nodes) if arrays is None else arrays
        self.free = free
        self._own: set[int] | None = None
        """The nodes whose free capacity is no other index's, once some are."""
        self._whole: list[RanksByCount] = [{} for _ in nodes.classes]
        self._partly: list[RanksByCount] = [{} for _ in nodes.classes]
        self._indexed = 0
        self.changed: list[int] = []
        self._grid: Grid | None = None
        self._scores: dict[PodRequest, NodeScores] = {}
        self._indexed_as: list[tuple[int, frozenset[int]]] = [(0, frozenset())] * len(nodes.rows)
        for rank in range(len(free)):
            self._index(rank)

    def copy(self) -> Self:
        """An index that can be changed without changing this one."""
        twin = type(self)(self.nodes, [], self.arrays)
        twin.free = list(self.free)
        self._own, twin._own = set(), set()
        twin._whole = [{count: list(ranks) for count, ranks in found.items()} for found in self.whole]
        twin._partly = [{left: list(ranks) for left, ranks in found.items()} for found in self.partly]
        twin._indexed_as = list(self._indexed_as)
        if self._grid is not None:
            twin._grid = self.grid.refresh().copy(twin.free, twin.changed)
        return twin

    @property
    def whole(self) -> list[RanksByCount]:
        """For each kind, by how many whole devices are free, the ranks of the nodes, in order."""
        self._catch_up()
        return self._whole

    @property
    def partly(self) -> list[RanksByCount]:
        """For each kind, by what is left of a partly used device, the ranks of the nodes with such a one, in order."""
        self._catch_up()
        return self._partly

    @property
    def grid(self) -> Grid:
        """What is free, as arrays; to be refreshed before use."""
        if self._grid is None or self._grid.pool is not self.nodes.pool:
            self._grid = Grid(self.nodes, self.arrays, self.free, self.changed)
            self._scores.clear()
        return self._grid

    def scores(self, request: PodRequest) -> NodeScores:
        """How many pods of the request each node holds, and how good it is for them."""
        grid = self.grid
        found = self._scores.get(request)
        if found is None:
            if len(self._scores) >= SCORES_KEPT:
                del self._scores[next(iter(self._scores))]
            found = self._scores[request] = NodeScores(grid, request)
        return found

    def fragmentation(self) -> float:
        """The part (0 to 1) of what is free on nodes that take new pods that typical requests could not use."""
        return self.grid.refresh().fragmentation() if self.arrays.typical else 0.0

    def change(self, rank: int, picks: Picks, cpu: int, memory: int, sign: int) -> None:
        """Give back (``sign`` 1) or take (-1) what a pod holds of a node."""
        if self._own is not None and rank not in self._own:
            self._own.add(rank)
            self.free[rank] = self.free[rank].copy()
        self.free[rank].change(picks, cpu, memory, sign)
        self.changed.append(rank)

    def _catch_up(self) -> None:
        """Index the nodes that have changed since the last time; most that is tried is taken back before."""
        changed = self.changed
        if self._indexed < len(changed):
            for rank in set(changed[self._indexed :]):
                self._index(rank)
            self._indexed = len(changed)

    def _index(self, rank: int) -> None:
        """Put a node where what is free on it says it belongs, among all nodes of its kinds."""
        kinds = self.nodes.classes_of[rank]
        if not kinds:
            return
        gpu = self.free[rank].gpu
        whole, partly = gpu.count(GPU_MILLI), frozenset(gpu) - NOT_PARTLY
        before = self._indexed_as[rank]
        if (whole, partly) == before:
            return
        self._indexed_as[rank] = (whole, partly)
        for kind in kinds:
            if whole != before[0]:
                _take_out(self._whole[kind], before[0], rank)
                _put_in(self._whole[kind], whole, rank)
            for left in before[1] - partly:
                _take_out(self._partly[kind], left, rank)
            for left in partly - before[1]:
                _put_in(self._partly[kind], left, rank)


def _put_in(level_heaps: RanksByCount, key: int, rank: int) -> None:
    if key > 0:
        insort(level_heaps.setdefault(key, []), rank)


def _take_out(level_heaps: RanksByCount, key: int, rank: int) -> None:
    if key > 0:
        ranks = level_heaps[key]
        del ranks[bisect_left(ranks, rank)]
        if not ranks:
            del level_heaps[key]
