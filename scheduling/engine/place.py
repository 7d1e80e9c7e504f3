"""Which node a pod goes to, and all pods of a gang or none (section 5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scheduling.engine.ask import Ask
from scheduling.engine.fleet import Domain, Usable
from scheduling.engine.space import Picks, Room, Space, pick_devices, pods_in
from scheduling.engine.types import GPU_MILLI, Placement

Spot = tuple[int, Picks]
"""A node's rank and the devices of it."""

NOTHING_KEPT: Mapping[int, Room] = {}


def choose_spot(
    space: Space, domain: Domain, ask: Ask, placement: Placement, kept: Mapping[int, Room]
) -> Spot | None:
    """Where the next pod goes, ``None`` if it fits nowhere in the domain.

    Binpack takes the tightest node: fewest whole devices left over; for a share, the partly used device with least
    left over, and a whole one only where none fits. Spread takes the node with most whole devices free. Ties go by
    id. Of the nodes ``kept`` for somebody else only the spare room given there is used, and only when no other node
    will do.
    """
    best: tuple[int, int, Sequence[int]] | None = None
    for usable in domain.usable:
        if domain.rank is not None:
            ranked: Iterable[tuple[int, int]] = ((0, domain.rank),)
        elif usable.uniform:
            ranked = _indexed(space, usable, ask, placement)
        else:
            ranked = _scanned(space, usable, ask, placement)
        for key, rank in ranked:
            if best is not None and (key, rank) >= best[:2]:
                break
            if rank not in kept and pods_in(space.rooms[rank], usable.costs, ask):
                best = (key, rank, usable.costs)
                break
    if best is not None:
        picks = pick_devices(space.rooms[best[1]], best[2], ask)
        return None if picks is None else (best[1], picks)
    return _spare_spot(space, domain, ask, kept) if kept else None


def _spare_spot(space: Space, domain: Domain, ask: Ask, kept: Mapping[int, Room]) -> Spot | None:
    """A place on the kept nodes that leaves them what they are kept for."""
    costs = {usable.kind: usable.costs for usable in domain.usable}
    for rank in sorted(kept) if domain.rank is None else kept.keys() & {domain.rank}:
        kind = next((kind for kind in space.fleet.kinds_of[rank] if kind in costs), None)
        if kind is not None and pods_in(space.rooms[rank], costs[kind], ask):
            picks = pick_devices(space.rooms[rank].within(kept[rank]), costs[kind], ask)
            if picks is not None:
                return rank, picks
    return None


def _indexed(space: Space, usable: Usable, ask: Ask, placement: Placement) -> Iterable[tuple[int, int]]:
    """(key, rank) of the nodes of a kind whose devices suffice, best first, from the index."""
    whole, partly = space.whole[usable.kind], space.partly[usable.kind]
    counts = [count for count in whole if count >= max(ask.whole, 1)]
    lefts = [] if ask.whole else [left for left in partly if left >= usable.costs[0]]
    if placement is Placement.SPREAD:
        yield from ((-count, rank) for count in sorted(counts, reverse=True) for rank in whole[count])
        yield from ((GPU_MILLI - left, rank) for left in sorted(lefts, reverse=True) for rank in partly[left])
    else:
        yield from ((left - usable.costs[0], rank) for left in sorted(lefts) for rank in partly[left])
        yield from (
            (GPU_MILLI * (1 + count - ask.whole), rank) for count in sorted(counts) for rank in whole[count]
        )


def _scanned(space: Space, usable: Usable, ask: Ask, placement: Placement) -> Iterable[tuple[int, int]]:
    """(key, rank) of the nodes of a kind with several sorts of device, best first, by looking at each."""
    found = []
    for rank in space.fleet.members[usable.kind]:
        room = space.rooms[rank]
        picks = pick_devices(room, usable.costs, ask)
        if picks is None:
            continue
        free, (at, milli) = room.gpu.count(GPU_MILLI), picks[0]
        if placement is Placement.SPREAD:
            key = -free
        elif ask.whole or room.gpu[at] == GPU_MILLI:
            key = GPU_MILLI * (1 + free - ask.whole)
        else:
            key = room.gpu[at] - milli
        found.append((key, rank))
    return sorted(found)


def by_tightness(space: Space, domains: Iterable[Domain]) -> list[tuple[int, Domain]]:
    """The domains with what is free in them, the one with least first, then by key."""

    def free(domain: Domain) -> int:
        if domain.rank is not None:
            return sum(max(0, left) for left in space.rooms[domain.rank].gpu)
        return sum(space.free[usable.kind] for usable in domain.usable)

    found = [(free(domain), domain) for domain in domains]
    return sorted(found, key=lambda entry: (entry[0], entry[1].key))
