"""The ledger: what of a pool's devices, CPU and memory is free, held and promised while a cycle decides (section 1),
and how many pods of a request nodes and domains hold.

Each device is looked at in two ways: ``now`` is what is neither held nor promised, ``later`` what is left when
everything that is stopping is gone. What a cycle preempts is still held, unless it was only Queued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from scheduling.engine.model.snapshot import (
    DeviceShare,
    NodeOrder,
    OpenStatus,
    PodPlacement,
    WorkloadInfo,
)
from scheduling.engine.placement.domains import Domain
from scheduling.engine.placement.free import NodeFree, Picks, free_when_empty, pods_in
from scheduling.engine.placement.node_index import NOTHING_EXCLUDED, Excluded, NodeIndex, Spot, extra_spot
from scheduling.engine.placement.nodes import Nodes, Where
from scheduling.engine.placement.pod_request import PodRequest

STOPPING = OpenStatus.STOPPING
Views = tuple[NodeIndex, ...]


class Ledger:
    """The devices, CPU and memory of one pool's nodes.

    As long as nothing is stopping, ``now`` and ``later`` are one and the same. ``positions`` says for each node at
    which position the device with an index stands. ``lost`` are those of the first ``workloads`` with pods on devices
    that are not there. ``guests`` are workloads of other pools with pods on nodes of this one, ``hosts`` the ledgers of
    other pools on whose nodes pods of this one are, both by id.
    """

    def __init__(self, nodes: Nodes, workloads: Iterable[WorkloadInfo]) -> None:
        self.nodes = nodes
        self.positions = [{device.index: at for at, device in enumerate(node.devices)} for node in nodes.rows]
        self.lost: list[WorkloadInfo] = []
        self.guests: dict[str, WorkloadInfo] = {}
        self.hosts: dict[str, list[Ledger]] = {}
        self.now = self.later = self._index([free_when_empty(node) for node in nodes.rows])
        self._stopping = 0
        for workload in workloads:
            self.add(workload)
            if self.missing(workload):
                self.lost.append(workload)

    def _index(self, free: list[NodeFree]) -> NodeIndex:
        return NodeIndex(self.nodes, free)

    def missing(self, workload: WorkloadInfo) -> frozenset[str]:
        """The nodes of its pods that are not there, or have not all of its devices."""
        missing = set()
        for pod in workload.placements:
            rank = self.nodes.rank.get(pod.node)
            if rank is None or any(share.index not in self.positions[rank] for share in pod.devices):
                missing.add(pod.node)
        return frozenset(missing)

    @property
    def emptying(self) -> bool:
        """Whether something is stopping."""
        return self.now is not self.later

    def _part(self) -> None:
        """From now on keep apart what is free now and what is free later."""
        self.now = self.later.copy()

    def host(self, workload: WorkloadInfo, home: Ledger) -> None:
        """Take in a workload of another pool, whose ledger is its ``home``."""
        self.add(workload)
        self.guests[workload.id] = workload
        home.hosts.setdefault(workload.id, []).append(self)

    def add(self, workload: WorkloadInfo) -> None:
        """Take in a workload that is placed or stopping."""
        if workload.status is STOPPING:
            self._hold_for_now(workload, -1)
        else:
            self._change(workload, workload.placements, -1)

    def remove(self, workload: WorkloadInfo) -> None:
        """Take out a workload that was placed or stopping."""
        if workload.status is STOPPING:
            self._hold_for_now(workload, 1)
        else:
            self._change(workload, workload.placements, 1)

    def _hold_for_now(self, workload: WorkloadInfo, sign: int) -> None:
        """Have a stopping workload hold its devices (-1), or hold them no more (1)."""
        if not self.emptying:
            self._part()
        for pod in workload.placements:
            spot = self.spot(pod)
            if spot is not None:
                self.now.change(*spot, workload.cpu_milli, workload.memory_mib, sign)
        self._stopping -= sign
        if not self._stopping:
            self.now = self.later

    # --- Taking and giving back -----------------------------------------------------------------------------

    def spot(self, pod: PodPlacement) -> Spot | None:
        """Rank and device positions of a pod; ``None`` if its node is not there."""
        rank = self.nodes.rank.get(pod.node)
        if rank is None:
            return None
        at = self.positions[rank]
        return rank, [(at[share.index], share.milli) for share in pod.devices if share.index in at]

    def _change(
        self, of: WorkloadInfo | PodRequest, pods: Iterable[PodPlacement], sign: int, *, now: bool = True
    ) -> None:
        """Give back or take what these pods hold; ``now`` false: nothing of it is free before they are gone."""
        for pod in pods:
            spot = self.spot(pod)
            if spot is not None:
                self._change_at(spot, of, sign, now=now)

    def _change_at(self, spot: Spot, of: WorkloadInfo | PodRequest, sign: int, *, now: bool = True) -> None:
        """Give back or take what one pod holds there."""
        self._change_index(self.later, spot, of, sign)
        if now and self.emptying:
            self._change_index(self.now, spot, of, sign)

    def _change_index(self, index: NodeIndex, spot: Spot, of: WorkloadInfo | PodRequest, sign: int) -> None:
        index.change(*spot, of.cpu_milli, of.memory_mib, sign)

    def leave(self, workload: WorkloadInfo, pods: Sequence[PodPlacement]) -> None:
        """Let pods go. Their devices stay held until the cluster reports them gone, if they may exist already."""
        exists = workload.status is not OpenStatus.QUEUED
        if exists and not self.emptying:
            self._part()
        self._change(workload, pods, 1, now=not exists)

    # --- Placing --------------------------------------------------------------------------------------------

    def place(
        self,
        request: PodRequest,
        pod_indexes: Iterable[int],
        *,
        domains: Iterable[Iterable[Domain]] | None = None,
        excluded: Excluded = NOTHING_EXCLUDED,
        emptying: bool = True,
    ) -> tuple[PodPlacement, ...] | None:
        """Place pods with these indexes and hold what they take, or ``None`` and nothing has changed.

        GPU types are tried in order of preference, one for all pods and then any for each; levels of domains likewise,
        and at each level the tightest first. What fits on what is free is not promised what is ``emptying``; else that
        is used too.
        """
        indexes = tuple(pod_indexes)
        if domains is None:
            alternatives = [(each, self.nodes.domains(each)) for each in (*request.by_preference, request)]
        else:
            alternatives = [(request, tuple(tuple(level) for level in domains))]
        for views in ((self.now,), (self.now, self.later)) if self.emptying and emptying else ((self.now,),):
            for each, levels in alternatives:
                for level in levels:
                    for domain in views[-1].by_tightness(each, len(indexes), level):
                        placements = self._place_in(
                            each, indexes, domain=domain, views=views, excluded=excluded
                        )
                        if placements is not None:
                            return placements
        return None

    def _place_in(
        self,
        request: PodRequest,
        indexes: tuple[int, ...],
        *,
        domain: Domain,
        views: Views,
        excluded: Excluded,
    ) -> tuple[PodPlacement, ...] | None:
        """Place all pods inside one domain, each by the first view by which it fits; if the request names a level, on
        as few nodes as possible."""
        placements: list[PodPlacement] = []
        extra = dict(excluded)
        only: Iterator[Domain] = iter(())
        if request.close and len(indexes) > 1 and domain.rank is None and self._packs:
            only = self._in_order(request, domain, len(indexes), views[-1], excluded)
        for index in indexes:
            spot = self._next_spot(request, next(only, domain), views, extra)
            if spot is None:
                self.undo(request, placements)
                return None
            if spot[0] in extra:
                extra[spot[0]] = extra[spot[0]].copy()
                extra[spot[0]].change(spot[1], request.cpu_milli, request.memory_mib, -1)
            self._change_at(spot, request, -1)
            placements.append(self._pod(index, *spot))
        return tuple(placements)

    @property
    def _packs(self) -> bool:
        return self.nodes.pool.policy.placement is NodeOrder.BINPACK

    def _in_order(
        self, request: PodRequest, domain: Domain, pods: int, index: NodeIndex, excluded: Excluded
    ) -> Iterator[Domain]:
        """The node of each pod, where as few nodes as can be take them."""
        classes_of, usable = self.nodes.classes_of, {each.number: each for each in domain.usable}
        for rank, count in tuple(index.fewest_nodes(domain, request, pods, excluded)):
            of_node = next(usable[number] for number in classes_of[rank] if number in usable)
            yield from [Domain((), (of_node,), rank)] * count

    def _next_spot(
        self, request: PodRequest, domain: Domain, views: Views, excluded: Excluded
    ) -> Spot | None:
        """Where the next pod goes. Excluded nodes come last, and give no more than their spare capacity."""
        for index in views:
            spot = index.first_spot(domain, request, excluded)
            if spot is None and excluded:
                spot = extra_spot(self.nodes, index.free, domain, request, excluded)
            if spot is not None:
                return spot
        return None

    def _pod(self, index: int, rank: int, picks: Picks) -> PodPlacement:
        node = self.nodes.rows[rank]
        shares = tuple(DeviceShare(node.devices[at].index, milli) for at, milli in picks)
        return PodPlacement(index, node.id, shares)

    def undo(self, request: PodRequest, pods: Iterable[PodPlacement]) -> None:
        """Take back what :meth:`place` has held in this cycle."""
        self._change(request, pods, 1)

    def waits(self, of: WorkloadInfo, pods: Iterable[PodPlacement]) -> bool:
        """Whether something that these pods of a workload are promised is still held by what is stopping."""
        hosts = self.hosts.get(of.id, ())
        return any(ledger._waits_here(of, pods) for ledger in (self, *hosts))

    def _waits_here(self, of: WorkloadInfo, pods: Iterable[PodPlacement]) -> bool:
        for pod in pods:
            spot = self.spot(pod)
            if spot is None:
                continue
            rank, picks = spot
            now, later = self.now.free[rank], self.later.free[rank]
            if any(now.gpu[at] < 0 and now.gpu[at] < later.gpu[at] for at, _ in picks):
                return True
            if of.cpu_milli and now.cpu < 0 and now.cpu < later.cpu:
                return True
            if of.memory_mib and now.memory < 0 and now.memory < later.memory:
                return True
        return False

    def free_by_class(self) -> list[list[int]]:
        """What is neither held nor promised on the nodes of each class, by position of the device."""
        found = [[0] * len(each.devices) for each in self.nodes.classes]
        for number, node_free in zip(self.nodes.class_of, self.now.free, strict=True):
            if number >= 0:
                of_class = found[number]
                for at, left in enumerate(node_free.gpu):
                    if left > 0:
                        of_class[at] += left
        return found

    def free_milli(self) -> int:
        """What is neither held nor promised, on nodes that count as capacity."""
        free = zip(self.nodes.rows, self.now.free, strict=True)
        counting = [node_free.gpu for node, node_free in free if node.ready and not node.cordoned]
        return sum([left for gpu in counting for left in gpu if left > 0])


class HeldPods:
    """How many pods of a request nodes and domains hold when all that is stopping is gone."""

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
