"""When devices come free, as far as time limits tell: what an ETA is read from (sections 6 and 9).

Everything here only ever moves later: a workload that is given a place holds it from then until its time limit is over,
and no other is given the hours in which it stands idle until then. So a start that is read here may come earlier, by a
passing or an early end, and is late only where something new goes before.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from scheduling.engine.model.snapshot import NodeInfo
from scheduling.engine.placement.domains import Domain
from scheduling.engine.placement.free import NodeFree, Picks
from scheduling.engine.placement.nodes import Nodes, Where
from scheduling.engine.placement.pod_request import PodRequest


class Stock:
    """An amount that comes free bit by bit: (when, how much), the soonest first. What never comes free is not in it."""

    __slots__ = ("_bits",)

    def __init__(self, now: int, amount: int) -> None:
        self._bits = [(now, amount)] if amount else []

    def comes(self, at: int, amount: int) -> None:
        """So much more comes free at that time."""
        if amount:
            insort(self._bits, (at, amount))

    @classmethod
    def merged(cls, now: int, stocks: Iterable[Stock]) -> Stock:
        """Several stocks as one, to ask and not to take from."""
        merged = cls(now, 0)
        merged._bits = sorted(bit for stock in stocks for bit in stock._bits)
        return merged

    @property
    def soonest(self) -> int | None:
        """When the first of it is free."""
        return self._bits[0][0] if self._bits else None

    def by(self, at: int) -> int:
        """How much is free by then."""
        return sum(bit for when, bit in self._bits if when <= at)

    def when(self, amount: int) -> int | None:
        """When so much is free; ``None`` if that is not known."""
        total = 0
        for at, bit in self._bits:
            total += bit
            if total >= amount:
                return at
        return None

    def times(self, amount: int, most: int) -> list[int]:
        """When the amount is free once, twice, ... ``most`` times, as far as that is known."""
        found: list[int] = []
        total, wanted = 0, amount
        for at, bit in self._bits:
            total += bit
            while total >= wanted:
                found.append(at)
                if len(found) == most:
                    return found
                wanted += amount
        return found

    def take(self, amount: int, at: int, until: int | None) -> None:
        """Take so much: what comes last by ``at``, then what comes later, then what is not known of. It is free again
        at ``until``."""
        rest = amount
        early = [bit for bit in self._bits if bit[0] <= at]
        late = [bit for bit in self._bits if bit[0] > at]
        kept = []
        for when, bit in (*reversed(early), *late):
            used = max(0, min(rest, bit))
            rest -= used
            if bit != used:
                kept.append((when, bit - used))
        self._bits = sorted(kept)
        if until is not None:
            self.comes(until, amount)


class NodeTimeline:
    """When the devices, the CPU and the memory of one node come free."""

    def __init__(self, node: NodeInfo, node_free: NodeFree, now: int) -> None:
        self._sizes = [device.share_milli for device in node.devices]
        self.devices = [Stock(now, left) for left in node_free.gpu]
        self.cpu = Stock(now, node_free.cpu)
        self.memory = Stock(now, node_free.memory)

    def comes(self, at: int, picks: Picks, cpu: int, memory: int) -> None:
        """What a pod holds comes free at that time."""
        for device, milli in picks:
            self.devices[device].comes(at, milli)
        self.cpu.comes(at, cpu)
        self.memory.comes(at, memory)

    def pods(self, request: PodRequest, costs: Sequence[int], most: int) -> list[int]:
        """When the first, the second, ... pod of a request fits here beside those before it, ``most`` at most."""
        if request.whole:
            whole = [at for at, number in self.whole_devices() if costs[number]]
            times = whole[request.whole - 1 : request.whole * most : request.whole]
        else:
            devices = zip(self.devices, costs, strict=True)
            times = sorted([at for device, cost in devices if cost for at in device.times(cost, most)])[:most]
        for stock, each in ((self.cpu, request.cpu_milli), (self.memory, request.memory_mib)):
            if each and times:
                times = list(map(max, times, stock.times(each, len(times))))
        return times

    def whole_devices(self) -> list[tuple[int, int]]:
        """When each device is free as a whole, the soonest first; without those of which that is not known."""
        rows = zip(self.devices, self._sizes, strict=True)
        times = [(device.when(size), number) for number, (device, size) in enumerate(rows)]
        return sorted([(at, number) for at, number in times if at is not None])

    def take(self, request: PodRequest, costs: Sequence[int], at: int, until: int | None) -> None:
        """Give one pod its place: the devices that are free last by then, else those that are free first."""
        early, late = [], []
        for number, (device, cost) in enumerate(zip(self.devices, costs, strict=True)):
            when = device.when(cost) if cost else at
            if cost and when is not None and when <= at:
                early.append((-when, number))
            elif cost:
                late.append((when is None, when or 0, number))
        order = [number for _, number in sorted(early)] + [number for *_, number in sorted(late)]
        for number in order[: max(1, request.whole)]:
            self.devices[number].take(costs[number], at, until)
        self.cpu.take(request.cpu_milli, at, until)
        self.memory.take(request.memory_mib, at, until)


class PodEnd(NamedTuple):
    """A pod, when it ends if that is known, and what it holds of the devices, the CPU and the memory of its node."""

    at: int | None
    reserved: bool
    picks: Picks
    cpu: int
    memory: int


Fit = tuple[int, list[int]]
"""When pods fit together, and the node of each."""


class Timeline:
    """When the devices of one pool come free; what waits is given its places in the order of the queue.

    ``ends`` are the pods on each node. ``without_elastic``: what elastic ones hold is free at once.
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
        self._nodes = nodes
        self._free = free
        self._now = now
        self._ends = ends
        self._without_elastic = without_elastic
        self._of_node: dict[int, NodeTimeline] = {}
        self._given: set[int] = set()

    def _end(self, end: PodEnd) -> int | None:
        return self._now if self._without_elastic and not end.reserved else end.at

    def only(self, rank: int, node_free: NodeFree, now: int) -> None:
        """Nothing of a node comes free for others but this."""
        self._of_node[rank] = self._new(rank, node_free, now)

    def _new(self, rank: int, node_free: NodeFree, now: int) -> NodeTimeline:
        return NodeTimeline(self._nodes.rows[rank], node_free, now)

    def _node(self, rank: int) -> NodeTimeline:
        """A node, made when it is first looked at."""
        if rank not in self._of_node:
            self._of_node[rank] = node = self._new(rank, self._free[rank], self._now)
            for end in self._ends.get(rank, ()):
                at = self._end(end)
                if at is not None:
                    node.comes(at, end.picks, end.cpu, end.memory)
        return self._of_node[rank]

    def when(self, request: PodRequest, pods: int, among: Collection[int] | None = None) -> Fit | None:
        """The earliest time at which so many pods fit together (on these nodes only), and the node of each; ``None``
        if that is not known."""
        best: Fit | None = None
        levels = self._nodes.domains(request)
        for domain in levels[-1] if levels else ():
            found = self._together(request, pods, domain, among, best)
            if found is not None and (best is None or found < best):
                best = found
        return best

    def _together(
        self,
        request: PodRequest,
        pods: int,
        domain: Domain,
        among: Collection[int] | None,
        best: Fit | None,  # noqa: ARG002 - what fits later need not be found
    ) -> Fit | None:
        """That of one domain: each pod where it fits soonest, at equal times on the first node by id."""
        chosen = sorted(
            (at, rank)
            for rank, costs in self._nodes.ranks(domain)
            if among is None or rank in among
            for at in self._node(rank).pods(request, costs, pods)
        )[:pods]
        return (chosen[-1][0], [rank for _, rank in chosen]) if len(chosen) == pods else None

    def take(self, request: PodRequest, ranks: Iterable[int], at: int, until: int | None) -> None:
        """Give a pod its place on each of these nodes (as often as it is named), from then until then."""
        where = self._where(request)
        for rank in ranks:
            self._given.add(rank)
            self._node(rank).take(request, where[rank][1], at, until)

    def given(self, request: PodRequest, at: int) -> int | None:
        """The node with a place given before that holds a pod by then, and has it last; ``None`` if none has."""
        where = self._where(request)
        times = ((self._first_on(request, rank, where), rank) for rank in self._given)
        there = ((when, rank) for when, rank in times if when is not None and when <= at)
        return max(there, default=(0, None))[1]

    def _first_on(self, request: PodRequest, rank: int, where: Where) -> int | None:
        found = self._node(rank).pods(request, where[rank][1], 1) if rank in where else []
        return found[0] if found else None

    def _where(self, request: PodRequest) -> Where:
        levels = self._nodes.domains(request)
        return self._nodes.where(levels[-1]) if levels else {}
