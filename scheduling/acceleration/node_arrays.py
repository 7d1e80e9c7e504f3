"""A pool's nodes as arrays: ranks by class, domains by rank, and the typical requests (section 5)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduling.acceleration.typical_arrays import Ints, TypicalArrays
from scheduling.engine.model.snapshot import PoolInfo
from scheduling.engine.placement.domains import Level
from scheduling.engine.placement.free import NodeFree, pods_in
from scheduling.engine.placement.node_eligibility import Usable
from scheduling.engine.placement.nodes import Nodes, Where
from scheduling.engine.placement.pod_request import PodRequest

LEVELS_KEPT = 512
"""For so many levels it is remembered which node is in which domain."""


class NodeArrays:
    """What arrays over the nodes of a pool have in common; it holds as long as the nodes do."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._typical: tuple[PoolInfo, TypicalArrays] | None = None
        self._ranks: dict[tuple[int, ...], Ints] = {}
        self._numbers_in: dict[int, tuple[Level, Ints]] = {}
        self._costs: dict[PodRequest, dict[int, tuple[int, ...]]] = {}
        self._where: dict[int, tuple[Level, Where]] = {}

    @property
    def typical(self) -> TypicalArrays:
        """The pool's typical requests, as its nodes could serve them."""
        pool = self._nodes.pool
        if self._typical is None or self._typical[0] is not pool:
            self._typical = (pool, TypicalArrays(pool.recent, self._nodes.classes))
        return self._typical[1]

    def ranks_of(self, usable: Iterable[Usable]) -> Ints:
        """The ranks of all nodes of these classes, in order."""
        numbers = tuple([each.number for each in usable])
        found = self._ranks.get(numbers)
        if found is None:
            ranks = [rank for number in numbers for rank in self._nodes.members[number]]
            found = self._ranks[numbers] = np.sort(np.array(ranks, np.int64))
        return found

    def costs_on(self, request: PodRequest, rank: int) -> tuple[int, ...] | None:
        """The cost of a pod on a node's devices; ``None`` where it may not run."""
        costs = self._costs.get(request)
        if costs is None:
            costs = {each.number: each.costs for each in self._nodes.usable(request)}
            self._costs[request] = costs
        return costs.get(self._nodes.class_of[rank])

    def holds(self, request: PodRequest, rank: int, free: NodeFree) -> bool:
        """Whether a node with so much free could take a pod."""
        costs = self.costs_on(request, rank)
        return costs is not None and pods_in(free, costs, request) > 0

    def where(self, level: Level) -> Where:
        """For each node of a level the number of its domain, and the cost of a pod on its devices."""
        known = self._where.get(id(level))
        if known is None or known[0] is not level:
            if len(self._where) >= LEVELS_KEPT:
                self._where.clear()
            known = self._where[id(level)] = (level, self._nodes.where(level))
        return known[1]

    def numbers_in(self, level: Level) -> Ints:
        """For each node the number of its domain in a level; -1 for none."""
        known = self._numbers_in.get(id(level))
        if known is not None and known[0] is level:
            return known[1]
        found = np.full(len(self._nodes.rows), -1, np.int64)
        for number, domain in enumerate(level):
            found[self.ranks_of(domain.usable) if domain.rank is None else domain.rank] = number
        if len(self._numbers_in) >= LEVELS_KEPT:
            self._numbers_in.clear()
        self._numbers_in[id(level)] = (level, found)
        return found
