"""Timelines that look at few nodes: those on which a pod cannot fit sooner are left out (sections 6 and 9)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heappop, heapreplace

from scheduling.engine.model.quantities import UNLIMITED
from scheduling.engine.model.snapshot import NodeInfo
from scheduling.engine.placement.domains import Domain
from scheduling.engine.placement.free import NodeFree
from scheduling.engine.placement.nodes import Nodes, Where
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.reasons.timeline import Fit, NodeTimeline, PodEnd, Timeline


class KeptNodeTimeline(NodeTimeline):
    """The timeline of a node, which remembers when its devices are free as a whole."""

    def __init__(self, node: NodeInfo, node_free: NodeFree, now: int) -> None:
        super().__init__(node, node_free, now)
        self._whole: list[tuple[int, int]] | None = None

    def whole_devices(self) -> list[tuple[int, int]]:
        """When each device is free as a whole, the soonest first."""
        if self._whole is None:
            self._whole = super().whole_devices()
        return self._whole

    def take(self, request: PodRequest, costs: Sequence[int], at: int, until: int | None) -> None:
        """Give one pod its place from then on."""
        self._whole = None
        super().take(request, costs, at, until)

    def not_before(self, request: PodRequest) -> int | None:
        """A time before which no pod of a request fits here; ``None`` if none ever does, as far as is known."""
        if request.whole:
            whole = self.whole_devices()
            return whole[request.whole - 1][0] if len(whole) >= request.whole else None
        return min([at for device in self.devices if (at := device.soonest) is not None], default=None)


class KeptTimeline(Timeline):
    """A timeline that remembers, by request, which nodes it allows and when a pod fits where others were given places.

    The nodes of a request are kept as a heap, by a time that is not too late.
    """

    def __init__(
        self,
        nodes: Nodes,
        free: Sequence[NodeFree],
        now: int,
        ends: Mapping[int, Sequence[PodEnd]],
        *,
        without_elastic: bool,
    ) -> None:
        super().__init__(nodes, free, now, ends, without_elastic=without_elastic)
        self._kept: dict[int, KeptNodeTimeline] = {}
        self._soonest = [self._first_end(rank) for rank in range(len(free))]
        """When something of each node comes free first, before anything is given a place there."""
        self._firsts: dict[PodRequest, list[tuple[int, int]]] = {}
        self._where_of: dict[PodRequest, Where] = {}
        self._of_given: dict[PodRequest, dict[int, int | None]] = {}

    def _new(self, rank: int, node_free: NodeFree, now: int) -> KeptNodeTimeline:
        found = self._kept[rank] = KeptNodeTimeline(self._nodes.rows[rank], node_free, now)
        return found

    def _first_end(self, rank: int) -> int | None:
        """When something of a node comes free first; ``None`` if nothing is known."""
        if max(self._free[rank].gpu, default=0) > 0:
            return self._now
        ends = [self._end(end) for end in self._ends.get(rank, ())]
        return min([at for at in ends if at is not None], default=None)

    def only(self, rank: int, node_free: NodeFree, now: int) -> None:
        """Nothing of a node comes free for others but this."""
        super().only(rank, node_free, now)
        self._changed(rank)

    def _changed(self, rank: int) -> None:
        """Forget when a pod fits on a node where something was given a place."""
        for times in self._of_given.values():
            times.pop(rank, None)

    def when(self, request: PodRequest, pods: int, among: Collection[int] | None = None) -> Fit | None:
        """The earliest time at which so many pods fit together, and the node of each."""
        return self._first(request) if pods == 1 and among is None else super().when(request, pods, among)

    def take(self, request: PodRequest, ranks: Iterable[int], at: int, until: int | None) -> None:
        """Give a pod its place on each of these nodes."""
        ranks = tuple(ranks)
        for rank in ranks:
            self._changed(rank)
        super().take(request, ranks, at, until)

    def given(self, request: PodRequest, at: int) -> int | None:
        """Of the nodes where something was given a place the one that holds a pod by then, and has it last."""
        where, times = self._where(request), self._of_given.setdefault(request, {})
        for rank in self._given - times.keys():
            times[rank] = self._first_on(request, rank, where)
        there = ((when, rank) for rank, when in times.items() if when is not None and when <= at)
        return max(there, default=(0, None))[1]

    def _where(self, request: PodRequest) -> Where:
        found = self._where_of.get(request)
        if found is None:
            found = self._where_of[request] = super()._where(request)
        return found

    def _first(self, request: PodRequest) -> Fit | None:
        """That of one pod: the first of the heap whose time is true has it, and others are put back."""
        where = self._where(request)
        heap = self._firsts.get(request)
        if heap is None:
            heap = self._firsts[request] = self._by_bound(request, where)
        while heap:
            at, rank = heap[0]
            found = self._first_on(request, rank, where)
            if found == at:
                return at, [rank]
            if found is None:
                heappop(heap)
            else:
                heapreplace(heap, (found, rank))
        return None

    def _by_bound(self, request: PodRequest, ranks: Iterable[int]) -> list[tuple[int, int]]:
        """The nodes where a pod of a request could fit and the time before which none does, sorted."""
        known, soonest = self._kept, self._soonest
        bounds = [
            (known[rank].not_before(request) if rank in known else soonest[rank], rank) for rank in ranks
        ]
        return sorted([(at, rank) for at, rank in bounds if at is not None])

    def _together(
        self,
        request: PodRequest,
        pods: int,
        domain: Domain,
        among: Collection[int] | None,
        best: Fit | None,
    ) -> Fit | None:
        """That of one domain; ``None`` too if that is later than the best."""
        costs = {rank: each for rank, each in self._nodes.ranks(domain) if among is None or rank in among}
        latest = best[0] if best else UNLIMITED
        chosen: list[tuple[int, int]] = []
        for bound, rank in self._by_bound(request, costs):
            if bound > latest or (len(chosen) == pods and bound > chosen[-1][0]):
                break
            found = self._node(rank).pods(request, costs[rank], pods)
            chosen = sorted([*chosen, *((at, rank) for at in found)])[:pods]
        return (chosen[-1][0], [rank for _, rank in chosen]) if len(chosen) == pods else None
