"""The start reservation of the first blocked workload (section 6)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduling.engine.model.peak import PeakHours
from scheduling.engine.model.snapshot import PodPlacement, WorkloadInfo
from scheduling.engine.placement.free import NodeFree, pick_devices, pods_in
from scheduling.engine.placement.ledger import HeldPods, Ledger
from scheduling.engine.placement.nodes import Where
from scheduling.engine.placement.pod_request import PodRequest

End = tuple[int, WorkloadInfo, Sequence[PodPlacement]]
"""When a workload leaves its pods' places."""


@dataclass(slots=True)
class EarliestStart:
    """A start reservation: from when (``None`` if that is not known) and on which nodes.

    ``extra`` is, for each of those nodes, what others may take without keeping its holder waiting. It shrinks as they
    do.
    """

    at: int | None
    extra: dict[int, NodeFree]

    def take(self, ledger: Ledger, request: PodRequest, pods: Iterable[PodPlacement]) -> None:
        """Count what a workload that passes takes of the spare capacity."""
        for pod in pods:
            spot = ledger.spot(pod)
            if spot is not None and spot[0] in self.extra:
                self.extra[spot[0]].change(spot[1], request.cpu_milli, request.memory_mib, -1)


def reserve_start(
    ledger: Ledger,
    request: PodRequest,
    pods: int,
    ends: Iterable[End],
    yielding: Iterable[tuple[WorkloadInfo, Sequence[PodPlacement]]],
    *,
    tally: HeldPods,
    peak: PeakHours | None = None,
) -> EarliestStart:
    """The earliest time at which so many pods fit, and the nodes; without ends, the nodes where least is missing.

    ``ends`` come in the order of their times, then ids. ``yielding`` are those that the workload may preempt whenever
    it likes: they are not in its way. ``tally`` says how many of its pods the nodes hold as things stand. ``peak`` are
    the hours in which the workload is not admitted: it starts after them, on what has ended by then.
    """
    free = list(ledger.later.free)
    held: dict[int, int] = {}
    totals = list(tally.totals)
    ready: set[int] = set()

    def leave(leaving: Iterable[tuple[WorkloadInfo, Sequence[PodPlacement]]]) -> None:
        """Let these go, and count again what their nodes hold."""
        for rank in _free(ledger, free, leaving):
            if rank in tally.where:
                number, costs = tally.where[rank]
                count = pods_in(free[rank], costs, request)
                totals[number] += count - held.get(rank, tally.pods[rank])
                held[rank] = count
                if totals[number] >= pods:
                    ready.add(number)

    leave(yielding)
    ready.update(number for number, total in enumerate(totals) if total >= pods)
    starts_at: int | None = None
    for at, workload, placements in ends:
        if starts_at is not None and at > starts_at:
            break
        leave([(workload, placements)])
        if ready and starts_at is None:
            starts_at = at if peak is None else peak.opens_at(at)
            if starts_at in (at, None):
                break
    if starts_at is None:
        return EarliestStart(None, _extra_where_least_is_missing(ledger, request, pods, tally, free))
    best = min(ready, key=lambda number: (totals[number], tally.domains[number].key))
    there = _held_in(best, tally, held)
    return EarliestStart(
        starts_at, _extra_then(ledger, request, pods, where=tally.where, free=free, counts=there)
    )


def _held_in(domain: int, tally: HeldPods, held: dict[int, int]) -> dict[int, int]:
    """On which nodes of a domain pods fit, and how many: as the tally has it but for those that ``held`` tells of.

    Where nothing fits as things stand, only those that have been counted again may have come to hold something.
    """
    before = tally.pods if tally.totals[domain] else {}
    some = {rank: count for rank, count in before.items() if count} | held
    return {rank: count for rank, count in some.items() if count and tally.where[rank][0] == domain}


def _free(
    ledger: Ledger, free: list[NodeFree], leaving: Iterable[tuple[WorkloadInfo, Sequence[PodPlacement]]]
) -> set[int]:
    """Give back in ``free`` what these workloads hold, on copies of its entries, and return their nodes."""
    ranks = set()
    for workload, placements in leaving:
        for pod in placements:
            spot = ledger.spot(pod)
            if spot is not None:
                node_free = free[spot[0]] = free[spot[0]].copy()
                node_free.change(spot[1], workload.cpu_milli, workload.memory_mib, 1)
                ranks.add(spot[0])
    return ranks


def _extra_then(
    ledger: Ledger,
    request: PodRequest,
    pods: int,
    *,
    where: Where,
    free: Sequence[NodeFree],
    counts: dict[int, int],
) -> dict[int, NodeFree]:
    """What the chosen nodes have left then: the fewest nodes, the pods on devices that are busy until then."""
    extra: dict[int, NodeFree] = {}
    order = sorted(counts, key=lambda rank: (-min(counts[rank], pods), sum(ledger.now.free[rank].gpu), rank))
    for rank in order:
        if pods <= 0 or counts[rank] == 0:
            break
        node_free = extra[rank] = free[rank].copy()
        for _ in range(min(pods, counts[rank])):
            _take_busy_first(node_free, ledger.now.free[rank], where[rank][1], request)
            pods -= 1
    return extra


def _take_busy_first(node_free: NodeFree, now: NodeFree, costs: Sequence[int], request: PodRequest) -> None:
    """Take one pod's devices, those first that are in use now: others can use the idle ones until then."""
    if request.whole:
        idle = [at for at, left in enumerate(node_free.gpu) if left and left == costs[at]]
        idle.sort(key=lambda at: (now.gpu[at], at))
        node_free.change(
            [(at, costs[at]) for at in idle[: request.whole]], request.cpu_milli, request.memory_mib, -1
        )
    else:
        node_free.change(
            pick_devices(node_free, costs, request) or (), request.cpu_milli, request.memory_mib, -1
        )


def _extra_where_least_is_missing(
    ledger: Ledger, request: PodRequest, pods: int, tally: HeldPods, free: Sequence[NodeFree]
) -> dict[int, NodeFree]:
    """The nodes that lack least for the workload, with what they have free beyond what it needs of them."""
    best: tuple[int, tuple[str, ...], dict[int, int]] | None = None
    costs: dict[int, Sequence[int]] = {}
    for domain in tally.domains:
        found = _least_missing(request, pods, dict(ledger.nodes.ranks(domain)), free, tally.empties)
        if found is not None and (best is None or (found[0], domain.key) < best[:2]):
            best = (found[0], domain.key, found[1])
            costs = dict(ledger.nodes.ranks(domain))
    extra: dict[int, NodeFree] = {}
    for rank, count in (best[2] if best else {}).items():
        node_free = extra[rank] = free[rank].copy()
        for _ in range(count):
            _take_what_is_free(node_free, costs[rank], request)
    return extra


def _least_missing(
    request: PodRequest,
    pods: int,
    costs: Mapping[int, Sequence[int]],
    free: Sequence[NodeFree],
    most: Mapping[int, int],
) -> tuple[int, dict[int, int]] | None:
    """How much the nodes of a domain lack for so many pods, and how many of them on which node, each as many as it
    holds at ``most``; ``None`` if they are too few."""
    heap = [(_missing(free[rank], each, request, 1), rank, 1) for rank, each in costs.items() if most[rank]]
    heapq.heapify(heap)
    total, chosen = 0, {}
    while pods and heap:
        missing, rank, number = heapq.heappop(heap)
        total += missing
        chosen[rank] = number
        pods -= 1
        if number < most[rank]:
            more = _missing(free[rank], costs[rank], request, number + 1)
            heapq.heappush(heap, (more, rank, number + 1))
    return None if pods else (total, chosen)


def _missing(node_free: NodeFree, costs: Sequence[int], request: PodRequest, number: int) -> int:
    """Milli-GPUs a node lacks for its ``number``-th pod; 1 where it is not GPUs that it lacks."""
    if pods_in(node_free, costs, request) >= number:
        return 0
    if not request.whole:
        return max(
            1,
            max(costs)
            - max((left for left, cost in zip(node_free.gpu, costs, strict=True) if cost), default=0),
        )
    idle = sum(1 for left, cost in zip(node_free.gpu, costs, strict=True) if left == cost > 0)
    return max(1, max(costs) * min(request.whole, number * request.whole - idle))


def _take_what_is_free(node_free: NodeFree, costs: Sequence[int], request: PodRequest) -> None:
    """Take what a pod could use of what is free, even where that is not all it needs."""
    if request.whole:
        idle = [at for at, left in enumerate(node_free.gpu) if left and left == costs[at]]
        picks = [(at, costs[at]) for at in idle[: request.whole]]
    else:
        fullest = max(range(len(costs)), key=lambda at: (costs[at] > 0, node_free.gpu[at], -at))
        picks = list(pick_devices(node_free, costs, request) or [(fullest, max(0, node_free.gpu[fullest]))])
    node_free.change(picks, request.cpu_milli, request.memory_mib, -1)
