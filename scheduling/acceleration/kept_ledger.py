"""The ledger that is kept from cycle to cycle: a cycle tries on it, and what it tried is taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from scheduling.acceleration.node_index import IndexedNodes
from scheduling.engine.model.snapshot import WorkloadInfo
from scheduling.engine.placement.free import NodeFree, Picks
from scheduling.engine.placement.ledger import Ledger
from scheduling.engine.placement.node_index import NodeIndex, Spot
from scheduling.engine.placement.nodes import Nodes
from scheduling.engine.placement.pod_request import PodRequest


class KeptLedger(Ledger):
    """The ledger of one pool, on indexed nodes."""

    now: IndexedNodes
    later: IndexedNodes

    def __init__(self, nodes: Nodes, workloads: Iterable[WorkloadInfo]) -> None:
        self._tried: list[tuple[NodeIndex, int, Picks, int, int, int]] | None = None
        super().__init__(nodes, workloads)

    def _index(self, free: list[NodeFree]) -> IndexedNodes:
        return IndexedNodes(self.nodes, free)

    def see_off(self, workload: WorkloadInfo) -> None:
        """Take out somebody who may have lain on nodes of other pools, whose home this is: out of their ledgers."""
        for host in self.hosts.pop(workload.id, ()):
            host.remove(workload)
            del host.guests[workload.id]

    def begin(self) -> None:
        """From now on remember what is tried."""
        self._tried = []

    def rollback(self) -> None:
        """Take back all that was tried since :meth:`begin`."""
        tried, self._tried = self._tried or [], None
        if not self._stopping:
            self.now = self.later
        held: Counter[tuple[int, tuple[tuple[int, int], ...], int, int]] = Counter()
        for index, rank, picks, cpu, memory, sign in reversed(tried):
            if index is self.now or index is self.later:
                index.change(rank, picks, cpu, memory, -sign)
                held[rank, tuple(picks), cpu, memory] -= sign
        self.freed.extend(rank for (rank, *_), times in held.items() if times > 0)

    def _change_index(self, index: NodeIndex, spot: Spot, of: WorkloadInfo | PodRequest, sign: int) -> None:
        """Change one of the two views, and remember it."""
        index.change(*spot, of.cpu_milli, of.memory_mib, sign)
        if self._tried is not None:
            self._tried.append((index, *spot, of.cpu_milli, of.memory_mib, sign))
