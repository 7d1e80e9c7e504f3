"""What a place costs at least: where it is worth to search for victims (section 7)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence

from scheduling.acceleration.eligible_victims import EligibleVictims
from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.engine.model.snapshot import GPU_MILLI, Request
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.preemption.candidate_domains import FREE, Bound
from scheduling.engine.preemption.victims import PlacedWorkload, Tier

Sort = tuple[int | None, int, Request | None, tuple[str, ...]]
"""What preemptors of one table have in common: what they may take at most, and what their pods ask of devices."""


class CostBounds:
    """For each node what a place for one pod costs at least; kept up to date while victims go."""

    def __init__(self, ledger: KeptLedger, eligible: EligibleVictims) -> None:
        self.nodes = ledger.nodes
        self._later = ledger.later
        self._eligible = eligible
        self._tables: dict[Sort, _Table] = {}

    @property
    def changes(self) -> tuple[list[int], list[int]]:
        """The nodes on which more or less is free, and those with other pods than before, each in order."""
        return self._later.changed, self._eligible.changed

    def by_cost(
        self, request: PodRequest, highest_victim: int | None, among: Iterable[int] | None = None
    ) -> Sequence[tuple[Bound, int]]:
        """The nodes (or those ``among`` some) with devices for a pod if all it may take went, the least bound first;
        whether the node lets it in does not count."""
        sort = (highest_victim, request.whole, None if request.whole else request.request, request.gpu_types)
        table = self._tables.get(sort)
        if table is None:
            table = self._tables[sort] = _Table(self, request, highest_victim)
        return table.refreshed() if among is None else table.refreshed_among(among)

    def of_devices(
        self, rank: int, costs: Sequence[int], may_go: Callable[[PlacedWorkload], bool]
    ) -> list[Bound | None]:
        """What each device of a node costs at least, of which a pod takes so much; ``None`` for those that it could not
        use even if all went that may."""
        free = self._later.free[rank].gpu
        most = list(free)
        lying: list[list[Bound]] = [[] for _ in free]
        for pods in self._eligible.on(rank):
            placed = pods[0][0]
            if may_go(placed):
                for _, pod_index, picks in pods:
                    tier = _tier_of(placed, pod_index)
                    for at, milli in picks:
                        most[at] += milli
                        lying[at].append((tier, milli * placed.lost_ms // GPU_MILLI))
        return [_of_device(free[at], most[at], cost, lying[at]) for at, cost in enumerate(costs)]


def _tier_of(placed: PlacedWorkload, pod_index: int) -> Tier:
    """The tier of a pod: lower for one above the minimum."""
    least = placed.workload.min_pods
    whole = len(placed.pods) <= least or sum(pod.pod_index < pod_index for pod in placed.pods) < least
    return placed.tier(whole=whole)


class _Table:
    """The nodes by their bounds, for one sort of preemptors."""

    def __init__(self, bounds: CostBounds, request: PodRequest, highest_victim: int | None) -> None:
        self._bounds = bounds
        self._request = request
        self._highest = highest_victim
        self._costs = [kind.costs(request) for kind in bounds.nodes.classes]
        self._of: dict[int, Bound | None] = {}
        self._sorted: list[tuple[Bound, int]] | None = None
        self._seen = tuple(len(changes) for changes in bounds.changes)

    def refreshed(self) -> Sequence[tuple[Bound, int]]:
        """All of them, after another look at the nodes that have changed."""
        self._refresh()
        if self._sorted is None:
            self._sorted = sorted(self._known(range(len(self._bounds.nodes.rows))))
        return self._sorted

    def refreshed_among(self, ranks: Iterable[int]) -> Sequence[tuple[Bound, int]]:
        """Those of these nodes that are there, likewise."""
        self._refresh()
        return sorted(self._known(ranks))

    def _known(self, ranks: Iterable[int]) -> Iterator[tuple[Bound, int]]:
        """The bounds of these nodes, worked out where they are not yet."""
        for rank in ranks:
            if rank not in self._of:
                self._of[rank] = self._bound(rank)
            bound = self._of[rank]
            if bound is not None:
                yield bound, rank

    def _refresh(self) -> None:
        free, rows = self._bounds.changes
        if self._seen != (len(free), len(rows)):
            for rank in {*free[self._seen[0] :], *rows[self._seen[1] :]}:
                if rank in self._of:
                    self._renew(rank)
            self._seen = (len(free), len(rows))

    def _renew(self, rank: int) -> None:
        bound, before = self._bound(rank), self._of[rank]
        self._of[rank] = bound
        if self._sorted is not None:
            if before is not None:
                del self._sorted[bisect_left(self._sorted, (before, rank))]
            if bound is not None:
                insort(self._sorted, (bound, rank))

    def _may_go(self, placed: PlacedWorkload) -> bool:
        return self._highest is None or placed.workload.priority <= self._highest

    def _bound(self, rank: int) -> Bound | None:
        """That of the cheapest devices which are enough for one pod."""
        kind = self._bounds.nodes.class_of[rank]
        if kind < 0:
            return None
        devices = self._bounds.of_devices(rank, self._costs[kind], self._may_go)
        found = sorted([bound for bound in devices if bound is not None])
        needed = max(self._request.whole, 1)
        if len(found) < needed:
            return None
        return (found[needed - 1][0], sum(sorted([lost for _, lost in found])[:needed]))


def _of_device(free: int, most: int, needed: int, lying: Sequence[Bound]) -> Bound | None:
    """All must go where a whole device is needed, at least one where a part will do."""
    if not needed or most < needed:
        return None
    if free >= needed:
        return FREE
    if needed == GPU_MILLI:
        return (max(tier for tier, _ in lying), sum(lost for _, lost in lying))
    return (min(tier for tier, _ in lying), min(lost for _, lost in lying))
