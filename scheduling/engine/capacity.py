"""How many pods of a newcomer fit, while victims come and go (section 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from scheduling.engine.ledger import Ledger
from scheduling.engine.placement.domains import Domain
from scheduling.engine.placement.free import NodeFree, free_when_empty, pods_in
from scheduling.engine.placement.nodes import Where
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.standing import Unit

MANY_NODES = 64
"""From so many nodes, or changes of nodes, on it is worth while to count with arrays."""


class Tally:
    """How many pods of a request the nodes of some domains hold when all who stop are gone, and the domains as a whole.

    It lives as long as the ledger; :meth:`refresh` counts those nodes again that have changed meanwhile. ``risen`` is
    how many pods more its nodes have come to hold since it was made, by domain, never mind what they lost, and
    ``rises`` in all. ``pods`` has those nodes only that hold some, or did.
    """

    def __init__(
        self, ledger: Ledger, request: PodRequest, domains: Sequence[Domain], *, whole_level: bool = False
    ) -> None:
        self.domains = tuple(domains)
        self.where: Where = (
            ledger.nodes.where(self.domains)
            if whole_level
            else {
                rank: (number, costs)
                for number, domain in enumerate(domains)
                for rank, costs in ledger.nodes.ranks(domain)
            }
        )
        self.pods: Counter[int] = Counter()
        self.totals = [0] * len(domains)
        self.risen = [0] * len(domains)
        self.rises = 0
        self._later = ledger.later
        self._request = request
        self._seen = len(ledger.later.changed)
        self._in_arrays = whole_level and len(self.where) >= MANY_NODES and not request.bare
        if self._in_arrays:
            self._count_all(tuple(domains))
        else:
            for rank in self.where:
                self._count(rank)

    @classmethod
    def of_level(cls, ledger: Ledger, request: PodRequest, level: tuple[Domain, ...]) -> Tally:
        """That of a level of domains, on all devices of their nodes."""
        return cls(ledger, request, level, whole_level=True)

    def _count_all(self, level: tuple[Domain, ...]) -> None:
        """Count on all nodes at once."""
        numbers, pods = self._later.arrays.numbers_in(level), self._later.outlook(self._request).pods
        inside = np.flatnonzero((numbers >= 0) & (pods > 0))
        self.pods.update(dict(zip(inside.tolist(), pods[inside].tolist(), strict=True)))
        self.totals = np.bincount(numbers[inside], pods[inside], len(level)).astype(np.int64).tolist()

    @cached_property
    def empties(self) -> dict[int, int]:
        """How many pods each node would hold if it ran nothing of ours."""
        nodes = self._later.nodes.rows
        rows = self.where.items()
        return {
            rank: pods_in(free_when_empty(nodes[rank]), costs, self._request) for rank, (_, costs) in rows
        }

    def refresh(self) -> Tally:
        """Bring it up to date, and return it."""
        changed = self._later.changed
        if self._in_arrays and self._seen + MANY_NODES < len(changed):
            self._refresh_many()
        elif self._seen < len(changed):
            for rank in set(changed[self._seen :]):
                if rank in self.where:
                    self._count(rank)
        self._seen = len(changed)
        return self

    def _refresh_many(self) -> None:
        """Look at all nodes that may have changed at once, and count where one holds another number of pods."""
        pods = self._later.outlook(self._request).pods
        ranks = np.flatnonzero(self._later.grid.stamp > self._seen)
        for rank, count in zip(ranks.tolist(), pods[ranks].tolist(), strict=True):
            if count != self.pods[rank] and rank in self.where:
                self._note(rank, count)

    def _count(self, rank: int) -> None:
        self._note(rank, pods_in(self._later.free[rank], self.where[rank][1], self._request))

    def _note(self, rank: int, pods: int) -> None:
        """Take note of how many pods a node holds."""
        more = pods - self.pods[rank]
        if not more:
            return
        number = self.where[rank][0]
        self.totals[number] += more
        self.pods[rank] = pods
        if more > 0:
            self.risen[number] += more
            self.rises += more


class Capacity:
    """Whether one of a tally's domains holds so many pods, while victims come and go on copies of what is free.

    Nodes that are ``closed`` do not count.
    """

    def __init__(
        self, ledger: Ledger, request: PodRequest, pods: int, tally: Tally, closed: frozenset[int]
    ) -> None:
        self._later = ledger.later.free
        self._request = request
        self._wanted = pods
        self._where: Where = tally.where
        self._closed = closed
        self._free: dict[int, NodeFree] = {}
        self._pods = tally.pods
        self._now: dict[int, int] = {}
        self._totals = list(tally.totals)
        for rank in closed:
            if rank in tally.where:
                self._totals[tally.where[rank][0]] -= tally.pods[rank]
        self.ready: set[int] = set()
        """The numbers of the domains that have room for all pods."""
        if max(self._totals, default=0) >= pods:
            self.ready.update(number for number, total in enumerate(self._totals) if total >= pods)

    @property
    def enough(self) -> bool:
        """Whether one of the domains has room for all pods."""
        return bool(self.ready)

    def concerns(self, unit: Unit) -> bool:
        """Whether the unit holds something the newcomer could use."""
        for rank, picks in unit.spots:
            if rank in self._where and rank not in self._closed:
                costs = self._where[rank][1]
                for at, _ in picks:
                    if costs[at]:
                        return True
        return False

    def change(self, unit: Unit, sign: int) -> None:
        """Let a unit go (1) or come back (-1)."""
        workload = unit.standing.workload
        for rank, picks in unit.spots:
            if rank in self._where and rank not in self._closed:
                node_free = self._free.get(rank)
                if node_free is None:
                    node_free = self._free[rank] = self._later[rank].copy()
                node_free.change(picks, workload.cpu_milli, workload.memory_mib, sign)
                self._count(rank, node_free)

    def _count(self, rank: int, node_free: NodeFree) -> None:
        number, costs = self._where[rank]
        pods = pods_in(node_free, costs, self._request)
        before = self._now.get(rank)
        more = pods - (self._pods[rank] if before is None else before)
        if more:
            self._now[rank] = pods
            self._totals[number] += more
            if self._totals[number] >= self._wanted:
                self.ready.add(number)
            else:
                self.ready.discard(number)
