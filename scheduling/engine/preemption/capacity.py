"""Whether a workload's pods fit while victims come and go (section 7)."""

from __future__ import annotations

from scheduling.engine.placement.free import NodeFree, pods_in
from scheduling.engine.placement.ledger import HeldPods, Ledger
from scheduling.engine.placement.nodes import Where
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.preemption.victims import Victim


class VictimCapacity:
    """Whether one of some domains holds so many pods, while victims come and go on copies of what is free.

    Nodes that are ``closed`` do not count.
    """

    def __init__(
        self, ledger: Ledger, request: PodRequest, pods: int, tally: HeldPods, closed: frozenset[int]
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
        """The numbers of the domains that hold all pods."""
        if max(self._totals, default=0) >= pods:
            self.ready.update(number for number, total in enumerate(self._totals) if total >= pods)

    @property
    def enough(self) -> bool:
        """Whether one of the domains holds all pods."""
        return bool(self.ready)

    def concerns(self, victim: Victim) -> bool:
        """Whether the victim holds something the preemptor could use."""
        for rank, picks in victim.spots:
            if rank in self._where and rank not in self._closed:
                costs = self._where[rank][1]
                for at, _ in picks:
                    if costs[at]:
                        return True
        return False

    def change(self, victim: Victim, sign: int) -> None:
        """Let a victim go (1) or come back (-1)."""
        workload = victim.placed.workload
        for rank, picks in victim.spots:
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
