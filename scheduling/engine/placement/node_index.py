"""Which node or domain is best (section 5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Self

from scheduling.engine.model.snapshot import NodeOrder
from scheduling.engine.placement.domains import Domain, Level
from scheduling.engine.placement.fragmentation import Fragmentation
from scheduling.engine.placement.free import NodeFree, Picks, pick_devices, pods_in
from scheduling.engine.placement.nodes import Nodes
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.placement.scoring import NodeScore, held, tightness

Spot = tuple[int, Picks]
"""A node's rank and the devices of it."""
Excluded = Mapping[int, NodeFree]
"""Nodes of a start reservation, and what others may use of each."""
NOTHING_EXCLUDED: Excluded = {}


class NodeIndex:
    """What is free on each node of a pool, by rank, and which is best, by a look at each node."""

    def __init__(self, nodes: Nodes, free: list[NodeFree], score: NodeScore | None = None) -> None:
        self.nodes = nodes
        self.free = free
        self._score = score or NodeScore(
            Fragmentation(nodes.pool.recent, nodes.classes), nodes.pool.policy.placement
        )

    def copy(self) -> Self:
        """An index that can be changed without changing this one."""
        return type(self)(self.nodes, [each.copy() for each in self.free], self._score)

    def change(self, rank: int, picks: Picks, cpu: int, memory: int, sign: int) -> None:
        """Give back (``sign`` 1) or take (-1) what a pod holds of a node."""
        self.free[rank].change(picks, cpu, memory, sign)

    def first_spot(self, domain: Domain, request: PodRequest, excluded: Excluded) -> Spot | None:
        """The best place for one pod in a domain, outside the excluded nodes."""
        keys = [(key, rank) for rank, key in self._keys(domain, request) if rank not in excluded]
        if not keys:
            return None
        _, rank = min(keys)
        costs = dict(self.nodes.ranks(domain))[rank]
        picks = pick_devices(self.free[rank], costs, request)
        return None if picks is None else (rank, picks)

    def _keys(self, domain: Domain, request: PodRequest) -> Iterator[tuple[int, int]]:
        """The nodes of a domain where a pod fits, and their keys."""
        spreads = self._score.placement is NodeOrder.SPREAD
        by_key = request.bare or bool(self._score.measure) or spreads or domain.rank is not None
        for usable in domain.usable:
            for rank in self.nodes.members_in(domain, usable):
                free = self.free[rank]
                key = (
                    self._key(rank, usable.costs, request)
                    if by_key
                    else tightness(
                        self.nodes.classes[usable.number],
                        free,
                        usable.costs,
                        request,
                        uniform=usable.uniform,
                    )
                )
                if key is not None:
                    yield rank, key

    def _key(self, rank: int, costs: tuple[int, ...], request: PodRequest) -> int | None:
        return self._score.key(self.nodes.class_of[rank], self.free[rank], costs, request)

    def fewest_nodes(
        self, domain: Domain, request: PodRequest, pods: int, excluded: Excluded
    ) -> Iterator[tuple[int, int]]:
        """The nodes of a domain, as few as hold so many pods or all that hold some, and how many pods each takes.

        Nodes are filled one after the other: first those that hold most, and at the end the one that is best by the
        policy among those that hold the rest. None of the excluded nodes.
        """
        holding = [
            (count, self._key(rank, costs, request) or 0, rank)
            for rank, costs in self.nodes.ranks(domain)
            if rank not in excluded and (count := held(self.free[rank], costs, request))
        ]
        holding.sort(key=lambda each: (-each[0], *each[1:]))
        for at, (count, _, rank) in enumerate(holding):
            if count >= pods:
                _, best = min((key, other) for enough, key, other in holding[at:] if enough >= pods)
                yield best, pods
                return
            yield rank, count
            pods -= count

    def by_tightness(self, request: PodRequest, pods: int, level: Level) -> Iterator[Domain]:
        """The domains of a level that hold so many pods: least free first, then the fewest nodes needed, then by
        key."""
        if len(level) <= 1:
            yield from level
            return
        found = []
        for number, domain in enumerate(level):
            there = dict(self.nodes.ranks(domain))
            counts = sorted(
                (held(self.free[rank], costs, request) for rank, costs in there.items()), reverse=True
            )
            if sum(counts) >= pods:
                left = sum(each for rank in there for each in self.free[rank].gpu if each > 0)
                found.append((left, _nodes_needed(counts, pods), number))
        for _, _, number in sorted(found, key=itemgetter(0, 1, 2)):
            yield level[number]

    def fragmentation(self) -> float:
        """The part (0 to 1) of what is free on nodes that take new pods that typical requests could not use."""
        measure = self._score.measure
        if not measure:
            return 0.0
        rows = [
            (number, free) for number, free in zip(self.nodes.class_of, self.free, strict=True) if number >= 0
        ]
        left = sum(each for _, free in rows for each in free.gpu if each > 0)
        lost = sum(measure.of(number, free) for number, free in rows)
        return float(lost) / measure.total / left if left else 0.0


def extra_spot(
    nodes: Nodes, free: list[NodeFree], domain: Domain, request: PodRequest, excluded: Excluded
) -> Spot | None:
    """A place on the excluded nodes that leaves their holder what it needs."""
    costs = {usable.number: usable.costs for usable in domain.usable}
    for rank in sorted(excluded) if domain.rank is None else excluded.keys() & {domain.rank}:
        number = next((number for number in nodes.classes_of[rank] if number in costs), None)
        if number is not None and pods_in(free[rank], costs[number], request):
            picks = pick_devices(free[rank].within(excluded[rank]), costs[number], request)
            if picks is not None:
                return rank, picks
    return None


def _nodes_needed(counts: Iterable[int], pods: int) -> int:
    """On how many nodes, those that hold most first, so many pods fit."""
    needed = 0
    for count in counts:
        if pods <= 0 or not count:
            break
        pods -= count
        needed += 1
    return needed
