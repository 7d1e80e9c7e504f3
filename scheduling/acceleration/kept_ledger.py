"""The ledger that is kept from cycle to cycle: a cycle tries on it, and what it tried is taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from scheduling.acceleration.node_index import IndexedNodes
from scheduling.engine.model.snapshot import PodPlacement, WorkloadInfo
from scheduling.engine.placement.free import NodeFree, Picks
from scheduling.engine.placement.ledger import STOPPING, Ledger
from scheduling.engine.placement.node_index import NodeIndex, Spot
from scheduling.engine.placement.nodes import Nodes
from scheduling.engine.placement.pod_request import PodRequest


class KeptLedger(Ledger):
    """The ledger of one pool, on indexed nodes.

    ``held`` is what each of the first workloads holds, in their order; what is stopping counts for no team. ``freed``
    are the nodes where something was given back, in order.
    """

    now: IndexedNodes
    later: IndexedNodes

    def __init__(self, nodes: Nodes, workloads: Iterable[WorkloadInfo]) -> None:
        self._tried: list[tuple[NodeIndex, int, Picks, int, int, int]] | None = None
        self.freed: list[int] = []
        self.held: list[int] = []
        self._first = list(workloads)
        self._torn: list[WorkloadInfo] = []
        super().__init__(nodes, ())
        self.lost += self._torn
        stopping = [workload for workload in self._first if workload.status is STOPPING]
        for workload in stopping:
            self._hold_for_now(workload, -1)
        self.lost += [workload for workload in stopping if self.missing(workload)]
        self._first, self._torn = [], []

    def _index(self, free: list[NodeFree]) -> IndexedNodes:
        """Indexed nodes, once the first workloads have taken what they hold."""
        for workload in self._first:
            held, there = 0, True
            if workload.status is not STOPPING:
                held, there = self._take(workload, free)
            self.held.append(held)
            if not there:
                self._torn.append(workload)
        return IndexedNodes(self.nodes, free)

    def _take(self, workload: WorkloadInfo, free: list[NodeFree]) -> tuple[int, bool]:
        """Take what a workload holds, before anything is indexed: how much it holds, and whether all of it is there."""
        ranks, positions = self.nodes.rank, self.positions
        cpu, memory = workload.cpu_milli, workload.memory_mib
        there, held = True, 0
        for pod in workload.placements:
            rank = ranks.get(pod.node)
            if rank is None:
                there = False
                held += pod.milli
                continue
            node_free, at = free[rank], positions[rank]
            node_free.cpu -= cpu
            node_free.memory -= memory
            gpu = node_free.gpu
            for share in pod.devices:
                milli = share.milli
                held += milli
                if share.index in at:
                    gpu[at[share.index]] -= milli
                else:
                    there = False
        return held, there

    def remove(self, workload: WorkloadInfo) -> None:
        """Take out a workload that was placed or stopping."""
        super().remove(workload)
        if workload.status is not STOPPING:
            self.note_freed(workload.placements)

    def leave(self, workload: WorkloadInfo, pods: Sequence[PodPlacement]) -> None:
        """Let pods go."""
        super().leave(workload, pods)
        self.note_freed(pods)

    def note_freed(self, pods: Iterable[PodPlacement]) -> None:
        """Note that something was given back on these nodes."""
        self.freed.extend(rank for pod in pods if (rank := self.nodes.rank.get(pod.node)) is not None)

    def see_off(self, workload: WorkloadInfo) -> None:
        """Take a workload of this pool out of the ledgers of other pools on whose nodes it has pods."""
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

    def hold(self, request: PodRequest, pods: Iterable[PodPlacement]) -> None:
        """Hold once more what was taken back."""
        self._change(request, pods, -1)

    def _change_index(self, index: NodeIndex, spot: Spot, of: WorkloadInfo | PodRequest, sign: int) -> None:
        """Change one of the two views, and remember it."""
        index.change(*spot, of.cpu_milli, of.memory_mib, sign)
        if self._tried is not None:
            self._tried.append((index, *spot, of.cpu_milli, of.memory_mib, sign))
