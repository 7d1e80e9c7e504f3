"""How many pods of a request nodes and domains hold, as things stand (section 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from scheduling.engine.placement.domains import Domain
from scheduling.engine.placement.free import free_when_empty, pods_in
from scheduling.engine.placement.ledger import Ledger
from scheduling.engine.placement.nodes import Where
from scheduling.engine.placement.pod_request import PodRequest


class HeldPods:
    """How many pods of a request the nodes of some domains hold when all that is stopping is gone, by node and by
    domain."""

    def __init__(self, ledger: Ledger, request: PodRequest, domains: Iterable[Domain]) -> None:
        self._ledger = ledger
        self._request = request
        self.domains = tuple(domains)
        self.where = self._where()
        self.pods: Counter[int] = Counter()
        self.totals = [0] * len(self.domains)
        self._count_all()

    def _where(self) -> Where:
        return self._ledger.nodes.where(self.domains)

    def _count_all(self) -> None:
        """Count on each node."""
        for rank, (number, costs) in self.where.items():
            count = pods_in(self._ledger.later.free[rank], costs, self._request)
            if count:
                self.pods[rank] = count
                self.totals[number] += count

    @cached_property
    def empties(self) -> dict[int, int]:
        """How many pods each node would hold if it ran nothing of ours."""
        nodes, rows = self._ledger.nodes.rows, self.where.items()
        return {
            rank: pods_in(free_when_empty(nodes[rank]), costs, self._request) for rank, (_, costs) in rows
        }
