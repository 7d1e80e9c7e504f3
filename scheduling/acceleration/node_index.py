"""Which domain and which node a pod goes to, looked up in indexes and arrays (section 5).

Implements :class:`~scheduling.engine.placement.node_index.NodeIndex`: the same nodes as the plain one, ties included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from scheduling.acceleration.indexed_free import IndexedFree
from scheduling.acceleration.node_scores import NOWHERE
from scheduling.acceleration.typical_arrays import Floats, Ints
from scheduling.engine.model.snapshot import GPU_MILLI, NodeOrder
from scheduling.engine.placement.domains import Domain
from scheduling.engine.placement.free import pick_devices, pods_in
from scheduling.engine.placement.node_eligibility import Usable
from scheduling.engine.placement.node_index import Excluded, Spot
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.placement.scoring import tightness


class IndexedNodes(IndexedFree):
    """What is free on each node of a pool, and which is best."""

    def first_spot(self, domain: Domain, request: PodRequest, excluded: Excluded) -> Spot | None:
        """The best place for one pod in a domain, outside the excluded nodes."""
        if domain.rank is not None:
            rank, costs = domain.rank, domain.usable[0].costs
            picks = None if rank in excluded else pick_devices(self.free[rank], costs, request)
            return None if picks is None else (rank, picks)
        nodes = self.nodes
        if not (request.bare or any(_devices_suffice(self, usable, request) for usable in domain.usable)):
            return None
        if request.bare or self.arrays.typical or nodes.pool.policy.placement is NodeOrder.SPREAD:
            return _best_spot(self, domain, request, excluded)
        return _tightest_spot(self, domain, request, excluded)

    def fewest_nodes(
        self, domain: Domain, request: PodRequest, pods: int, excluded: Excluded
    ) -> Iterator[tuple[int, int]]:
        """The nodes of a domain, as few as hold so many pods or all that hold some, and how many pods each takes."""
        held, keys = self.scores(request).pods, self.scores(request).keys
        ranks = self.arrays.ranks_of(domain.usable)
        ranks = ranks[held[ranks] > 0]
        ranks = ranks[np.lexsort((ranks, keys[ranks], -held[ranks]))]
        if excluded:
            ranks = ranks[[rank not in excluded for rank in ranks.tolist()]]
        for at, rank in enumerate(ranks.tolist()):
            if held[rank] >= pods:
                rest = ranks[at:][held[ranks[at:]] >= pods]
                yield int(rest[np.lexsort((rest, keys[rest]))[0]]), pods
                return
            yield rank, int(held[rank])
            pods -= int(held[rank])

    def by_tightness(self, request: PodRequest, pods: int, level: tuple[Domain, ...]) -> Iterator[Domain]:
        """The domains of a level that hold so many pods, the one with least free first."""
        if len(level) <= 1:
            yield from level
            return
        numbers, held = self.arrays.numbers_in(level), self.scores(request).pods.copy()
        if held.sum() < pods:
            return
        fitting = np.flatnonzero(_by_domain(numbers, held, len(level)) >= pods)
        if not len(fitting):
            return
        free = _by_domain(numbers, self.grid.refresh().free, len(level))[fitting]
        for least in np.unique(free):
            tied = fitting[free == least]
            for number in tied if len(tied) == 1 else _by_nodes(numbers, held, pods, tied):
                yield level[int(number)]


def might_hold(index: IndexedFree, request: PodRequest) -> bool:
    """Whether some node might hold a pod, as far as the index of the devices tells; false only if none does."""
    return request.bare or any(
        _devices_suffice(index, usable, request) for usable in index.nodes.usable(request)
    )


def _devices_suffice(index: IndexedFree, usable: Usable, request: PodRequest) -> bool:
    """Whether some node of a kind could have the devices, as far as the index tells."""
    if not usable.uniform:
        return True
    whole = index.whole[usable.number]
    if request.whole:
        return any(count >= request.whole for count in whole)
    return bool(whole) or any(left >= usable.costs[0] for left in index.partly[usable.number])


def _best_spot(index: IndexedFree, domain: Domain, request: PodRequest, kept: Excluded) -> Spot | None:
    """The place on the node with the lowest key."""
    keys, ranks = index.scores(request).keys, index.arrays.ranks_of(domain.usable)
    if kept:
        keys = keys.copy()
        keys[list(kept)] = NOWHERE
    if len(ranks) < len(keys):
        keys = keys[ranks]
    if not len(keys):
        return None
    at = int(np.argmin(keys))
    if keys[at] == NOWHERE:
        return None
    rank = int(ranks[at])
    costs = index.arrays.costs_on(request, rank)
    picks = None if costs is None else pick_devices(index.free[rank], costs, request)
    return None if picks is None else (rank, picks)


def _tightest_spot(index: IndexedFree, domain: Domain, request: PodRequest, kept: Excluded) -> Spot | None:
    """The tightest place, from the index of the kinds."""
    best: tuple[int, int, Sequence[int]] | None = None
    for usable in domain.usable:
        found = _indexed(index, usable, request) if usable.uniform else _scanned(index, usable, request)
        for key, rank in found:
            if best is not None and (key, rank) >= best[:2]:
                break
            if rank not in kept and pods_in(index.free[rank], usable.costs, request):
                best = (key, rank, usable.costs)
                break
    if best is None:
        return None
    picks = pick_devices(index.free[best[1]], best[2], request)
    return None if picks is None else (best[1], picks)


def _indexed(index: IndexedFree, usable: Usable, request: PodRequest) -> Iterable[tuple[int, int]]:
    """(key, rank) of the nodes of a kind whose devices suffice, tightest first, from the index."""
    whole, partly = index.whole[usable.number], index.partly[usable.number]
    counts = [count for count in whole if count >= max(request.whole, 1)]
    lefts = [] if request.whole else [left for left in partly if left >= usable.costs[0]]
    yield from ((left - usable.costs[0], rank) for left in sorted(lefts) for rank in partly[left])
    yield from (
        (GPU_MILLI * (1 + count - request.whole), rank) for count in sorted(counts) for rank in whole[count]
    )


def _scanned(index: IndexedFree, usable: Usable, request: PodRequest) -> Iterable[tuple[int, int]]:
    """(key, rank) of the nodes of a kind with several kinds of device, or with slices, tightest first, by a look at
    each."""
    node_class, costs = index.nodes.classes[usable.number], usable.costs
    keys = [
        (tightness(node_class, index.free[rank], costs, request, uniform=False), rank)
        for rank in index.nodes.members[usable.number]
    ]
    return sorted([(key, rank) for key, rank in keys if key is not None])


def _by_domain(numbers: Ints, amounts: Ints, domains: int) -> Floats:
    """The sum for each domain of what there is on its nodes, given the number of each node's domain."""
    return np.asarray(np.bincount(numbers + 1, amounts, domains + 1), np.float64)[1:]


def _by_nodes(where: Ints, held: Ints, pods: int, tied: Ints) -> Ints:
    """These domains by the fewest nodes on which so many pods find room, then by number.

    ``where`` is the domain of each node, ``held`` how many pods it holds.
    """
    chosen = np.flatnonzero(np.isin(where, tied) & (held > 0))
    chosen = chosen[np.lexsort((-held[chosen], where[chosen]))]
    domain, count = where[chosen], held[chosen]
    before = np.cumsum(count) - count
    first = np.searchsorted(domain, domain)
    needed = before - before[first] < pods
    nodes = np.bincount(domain, needed)[tied]
    return tied[np.lexsort((tied, nodes))]
