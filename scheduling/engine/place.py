"""Which domain and which node a pod goes to (section 5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from scheduling.engine.fragmentation import Floats, Ints
from scheduling.engine.model.snapshot import GPU_MILLI, Placement, Slicing
from scheduling.engine.outlook import NOWHERE
from scheduling.engine.placement.domains import Domain
from scheduling.engine.placement.free import NodeFree, Picks, pick_devices, pods_in
from scheduling.engine.placement.node_eligibility import Usable
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.space import Space

Spot = tuple[int, Picks]
"""A node's rank and the devices of it."""

NOTHING_KEPT: Mapping[int, NodeFree] = {}


def choose_spot(
    space: Space, domain: Domain, request: PodRequest, kept: Mapping[int, NodeFree]
) -> Spot | None:
    """Where the next pod goes, ``None`` if it fits nowhere in the domain.

    Binpack takes the node by expected fragmentation (:mod:`scheduling.engine.outlook`), and where the pool has no
    typical requests the tightest: fewest whole devices left over; for a share, the partly used device with least left
    over, and a whole one only where none fits. Spread takes the node with most free. Ties go by id. Of the nodes
    ``kept`` for somebody else only the spare capacity given there is used, and only when no other node will do.
    """
    spot = _first_spot(space, domain, request, kept)
    return _spare_spot(space, domain, request, kept) if spot is None and kept else spot


def fewest_nodes(
    space: Space, domain: Domain, request: PodRequest, pods: int, kept: Mapping[int, NodeFree]
) -> Iterator[tuple[int, int]]:
    """The nodes of a domain, as few as hold so many pods or all that have room, and how many pods each takes.

    Nodes are filled one after the other: first those that hold most, and at the end the one that is best by the policy
    among those that hold the rest. None that is ``kept`` for somebody else.
    """
    held, keys = space.outlook(request).pods, space.outlook(request).keys
    ranks = space.arrays.ranks_of(domain.usable)
    ranks = ranks[held[ranks] > 0]
    ranks = ranks[np.lexsort((ranks, keys[ranks], -held[ranks]))]
    if kept:
        ranks = ranks[[rank not in kept for rank in ranks.tolist()]]
    for at, rank in enumerate(ranks.tolist()):
        if held[rank] >= pods:
            rest = ranks[at:][held[ranks[at:]] >= pods]
            yield int(rest[np.lexsort((rest, keys[rest]))[0]]), pods
            return
        yield rank, int(held[rank])
        pods -= int(held[rank])


def _first_spot(
    space: Space, domain: Domain, request: PodRequest, kept: Mapping[int, NodeFree]
) -> Spot | None:
    """The best place outside the kept nodes."""
    if domain.rank is not None:
        rank, costs = domain.rank, domain.usable[0].costs
        picks = None if rank in kept else pick_devices(space.free[rank], costs, request)
        return None if picks is None else (rank, picks)
    nodes = space.nodes
    if not (request.bare or any(_devices_suffice(space, usable, request) for usable in domain.usable)):
        return None
    if request.bare or space.arrays.typical or nodes.pool.policy.placement is Placement.SPREAD:
        return _best_spot(space, domain, request, kept)
    return _tightest_spot(space, domain, request, kept)


def might_hold(space: Space, request: PodRequest) -> bool:
    """Whether some node might hold a pod, as far as the index of the devices tells; false only if none does."""
    return request.bare or any(
        _devices_suffice(space, usable, request) for usable in space.nodes.usable(request)
    )


def _devices_suffice(space: Space, usable: Usable, request: PodRequest) -> bool:
    """Whether some node of a kind could have the devices, as far as the index tells."""
    if not usable.uniform:
        return True
    whole = space.whole[usable.number]
    if request.whole:
        return any(count >= request.whole for count in whole)
    return bool(whole) or any(left >= usable.costs[0] for left in space.partly[usable.number])


def _best_spot(
    space: Space, domain: Domain, request: PodRequest, kept: Mapping[int, NodeFree]
) -> Spot | None:
    """The place on the node with the lowest key."""
    keys, ranks = space.outlook(request).keys, space.arrays.ranks_of(domain.usable)
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
    costs = space.nodes.costs_on(request, rank)
    picks = None if costs is None else pick_devices(space.free[rank], costs, request)
    return None if picks is None else (rank, picks)


def _tightest_spot(
    space: Space, domain: Domain, request: PodRequest, kept: Mapping[int, NodeFree]
) -> Spot | None:
    """The tightest place, from the index of the kinds."""
    best: tuple[int, int, Sequence[int]] | None = None
    for usable in domain.usable:
        found = _indexed(space, usable, request) if usable.uniform else _scanned(space, usable, request)
        for key, rank in found:
            if best is not None and (key, rank) >= best[:2]:
                break
            if rank not in kept and pods_in(space.free[rank], usable.costs, request):
                best = (key, rank, usable.costs)
                break
    if best is None:
        return None
    picks = pick_devices(space.free[best[1]], best[2], request)
    return None if picks is None else (best[1], picks)


def _indexed(space: Space, usable: Usable, request: PodRequest) -> Iterable[tuple[int, int]]:
    """(key, rank) of the nodes of a kind whose devices suffice, tightest first, from the index."""
    whole, partly = space.whole[usable.number], space.partly[usable.number]
    counts = [count for count in whole if count >= max(request.whole, 1)]
    lefts = [] if request.whole else [left for left in partly if left >= usable.costs[0]]
    yield from ((left - usable.costs[0], rank) for left in sorted(lefts) for rank in partly[left])
    yield from (
        (GPU_MILLI * (1 + count - request.whole), rank) for count in sorted(counts) for rank in whole[count]
    )


def _scanned(space: Space, usable: Usable, request: PodRequest) -> Iterable[tuple[int, int]]:
    """(key, rank) of the nodes of a kind with several sorts of device, or with slices, tightest first, by looking at
    each. Of nodes with a slice for the pod that with the fewest others comes first."""
    found = []
    is_slice = [device.slicing is not Slicing.WHOLE for device in space.nodes.classes[usable.number].devices]
    for rank in space.nodes.members[usable.number]:
        node_free = space.free[rank]
        picks = pick_devices(node_free, usable.costs, request)
        if picks is None:
            continue
        at, milli = picks[0]
        if is_slice[at]:
            found.append((pods_in(node_free, usable.costs, request) - 1, rank))
            continue
        breaks_whole = node_free.gpu[at] == GPU_MILLI
        left = GPU_MILLI * (1 + node_free.gpu.count(GPU_MILLI) - request.whole)
        found.append((left if breaks_whole else node_free.gpu[at] - milli, rank))
    return sorted(found)


def _spare_spot(
    space: Space, domain: Domain, request: PodRequest, kept: Mapping[int, NodeFree]
) -> Spot | None:
    """A place on the kept nodes that leaves them what they are kept for."""
    costs = {usable.number: usable.costs for usable in domain.usable}
    for rank in sorted(kept) if domain.rank is None else kept.keys() & {domain.rank}:
        kind = next((kind for kind in space.nodes.classes_of[rank] if kind in costs), None)
        if kind is not None and pods_in(space.free[rank], costs[kind], request):
            picks = pick_devices(space.free[rank].within(kept[rank]), costs[kind], request)
            if picks is not None:
                return rank, picks
    return None


def by_tightness(space: Space, request: PodRequest, pods: int, level: tuple[Domain, ...]) -> Iterator[Domain]:
    """The domains of a level that hold so many pods: the one with least free first, then the one where they need the
    fewest nodes, then by key.
    """
    if len(level) <= 1:
        yield from level
        return
    numbers, held = space.arrays.numbers_in(level), space.outlook(request).pods.copy()
    if held.sum() < pods:
        return
    fitting = np.flatnonzero(_by_domain(numbers, held, len(level)) >= pods)
    if not len(fitting):
        return
    free = _by_domain(numbers, space.grid.refresh().free, len(level))[fitting]
    for least in np.unique(free):
        tied = fitting[free == least]
        for number in tied if len(tied) == 1 else _by_nodes(numbers, held, pods, tied):
            yield level[int(number)]


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
