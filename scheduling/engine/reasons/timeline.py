"""When devices come free, as far as time limits tell: what an ETA is read from (sections 6 and 9).

Everything here only ever moves later: a workload that is given a place holds it from then until its time limit is over,
and no other is given the hours in which it stands idle until then. So a start that is read here may come earlier, by a
passing or an early end, and is late only where something new goes before.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heappop, heapreplace
from typing import NamedTuple

from scheduling.engine.model.quantities import UNLIMITED
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
        total = 0
        for at, bit in self._bits:
            total += bit
            while total >= amount * (len(found) + 1):
                found.append(at)
                if len(found) == most:
                    return found
        return found

    def take(self, amount: int, at: int, until: int | None) -> None:
        """Take so much: of what is free by ``at`` what comes last, then what comes after it, then what is not known
        of. It comes free again at ``until``, if that is known."""
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


class _Machine:
    """One node: when its devices, CPU and memory come free."""

    __slots__ = ("_sizes", "_whole", "cpu", "devices", "memory")

    def __init__(self, node: NodeInfo, node_free: NodeFree, now: int) -> None:
        self._sizes = [device.share_milli for device in node.devices]
        self.devices = [Stock(now, left) for left in node_free.gpu]
        self.cpu = Stock(now, node_free.cpu)
        self.memory = Stock(now, node_free.memory)
        self._whole: list[tuple[int, int]] | None = None

    def comes(self, at: int, picks: Iterable[tuple[int, int]], cpu: int, memory: int) -> None:
        """What a pod holds comes free at that time."""
        for device, milli in picks:
            self.devices[device].comes(at, milli)
        self.cpu.comes(at, cpu)
        self.memory.comes(at, memory)

    def pods(self, request: PodRequest, costs: Sequence[int], most: int) -> list[int]:
        """When the first, the second, ... pod of a request fits here beside those before it, ``most`` at most."""
        if request.whole:
            whole = [at for at, number in self._whole_devices() if costs[number]]
            times = whole[request.whole - 1 : request.whole * most : request.whole]
        else:
            devices = zip(self.devices, costs, strict=True)
            times = sorted([at for device, cost in devices if cost for at in device.times(cost, most)])[:most]
        for stock, each in ((self.cpu, request.cpu_milli), (self.memory, request.memory_mib)):
            if each and times:
                free = stock.times(each, len(times))
                times = [max(both) for both in zip(times, free, strict=False)]
        return times

    def not_before(self, request: PodRequest) -> int | None:
        """A time before which no pod of a request fits here; ``None`` if none ever does, as far as is known."""
        if request.whole:
            whole = self._whole_devices()
            return whole[request.whole - 1][0] if len(whole) >= request.whole else None
        return min((at for device in self.devices if (at := device.soonest) is not None), default=None)

    def _whole_devices(self) -> list[tuple[int, int]]:
        """When each device is free as a whole, the soonest first; without those of which that is not known."""
        if self._whole is None:
            rows = zip(self.devices, self._sizes, strict=True)
            times = [(device.when(size), number) for number, (device, size) in enumerate(rows)]
            self._whole = sorted((at, number) for at, number in times if at is not None)
        return self._whole

    def take(self, request: PodRequest, costs: Sequence[int], at: int, until: int | None) -> None:
        """Give one pod its place from then on: of the devices free by then those that are so last, else those that
        are so first."""
        self._whole = None
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
        self._machines: dict[int, _Machine] = {}
        self._soonest = [self._first_end(rank) for rank in range(len(free))]
        """When something of each node comes free first, before anything is given a place there."""
        self._firsts: dict[PodRequest, list[tuple[int, int]]] = {}
        self._given: dict[int, None] = {}
        self._where_of: dict[PodRequest, Where] = {}
        self._of_given: dict[PodRequest, dict[int, int | None]] = {}

    def _end(self, end: PodEnd) -> int | None:
        """When what a pod holds comes free."""
        return self._now if self._without_elastic and not end.reserved else end.at

    def _first_end(self, rank: int) -> int | None:
        """When something of a node comes free first; ``None`` if nothing is known."""
        if max(self._free[rank].gpu, default=0) > 0:
            return self._now
        ends = [self._end(end) for end in self._ends.get(rank, ())]
        return min([at for at in ends if at is not None], default=None)

    def only(self, rank: int, node_free: NodeFree, now: int) -> None:
        """Nothing of a node comes free for others but this."""
        self._machines[rank] = _Machine(self._nodes.rows[rank], node_free, now)
        self._changed(rank)

    def _changed(self, rank: int) -> None:
        """Forget when a pod fits on a node where something was given a place."""
        for times in self._of_given.values():
            times.pop(rank, None)

    def _machine(self, rank: int) -> _Machine:
        """A node, made when it is first looked at closely."""
        machine = self._machines.get(rank)
        if machine is None:
            machine = _Machine(self._nodes.rows[rank], self._free[rank], self._now)
            self._machines[rank] = machine
            for end in self._ends.get(rank, ()):
                at = self._end(end)
                if at is not None:
                    machine.comes(at, end.picks, end.cpu, end.memory)
        return machine

    def when(
        self, request: PodRequest, pods: int, among: Collection[int] | None = None
    ) -> tuple[int, list[int]] | None:
        """The earliest time at which so many pods fit together (on these nodes only), and the node of each; ``None``
        if that is not known."""
        if pods == 1 and among is None:
            return self._first(request)
        levels = self._nodes.domains(request)
        best: tuple[int, list[int]] | None = None
        for domain in levels[-1] if levels else ():
            found = self._together(request, pods, domain, among, best[0] if best else UNLIMITED)
            if found is not None and (best is None or found < best):
                best = found
        return best

    def take(self, request: PodRequest, ranks: Iterable[int], at: int, until: int | None) -> None:
        """Give a pod its place on each of these nodes (as often as it is named), from then until then."""
        where = self._where(request)
        for rank in ranks:
            self._given[rank] = None
            self._changed(rank)
            self._machine(rank).take(request, where[rank][1], at, until)

    def given(self, request: PodRequest, at: int) -> int | None:
        """Of the nodes where something was given a place the one that holds a pod by then, and has it last;
        ``None`` if none has."""
        where, times = self._where(request), self._of_given.setdefault(request, {})
        for rank in self._given.keys() - times.keys():
            found = self._machine(rank).pods(request, where[rank][1], 1) if rank in where else []
            times[rank] = found[0] if found else None
        there = ((when, rank) for rank, when in times.items() if when is not None and when <= at)
        return max(there, default=(0, None))[1]

    def _where(self, request: PodRequest) -> Where:
        """The nodes that a request allows."""
        found = self._where_of.get(request)
        if found is None:
            levels = self._nodes.domains(request)
            found = self._where_of[request] = self._nodes.where(levels[-1]) if levels else {}
        return found

    def _first(self, request: PodRequest) -> tuple[int, list[int]] | None:
        """That of one pod. The nodes of a request are kept as a heap, by a time that is not too late: the first whose
        time is true has it, and others are put back."""
        where = self._where(request)
        heap = self._firsts.get(request)
        if heap is None:
            heap = self._firsts[request] = self._by_bound(request, where)
        while heap:
            at, rank = heap[0]
            found = self._machine(rank).pods(request, where[rank][1], 1)
            if found == [at]:
                return at, [rank]
            if found:
                heapreplace(heap, (found[0], rank))
            else:
                heappop(heap)
        return None

    def _by_bound(self, request: PodRequest, ranks: Iterable[int]) -> list[tuple[int, int]]:
        """The nodes where a pod of a request could fit and the time before which none does, sorted."""
        machines, soonest = self._machines, self._soonest
        bounds = [
            (machines[rank].not_before(request) if rank in machines else soonest[rank], rank)
            for rank in ranks
        ]
        return sorted([(at, rank) for at, rank in bounds if at is not None])

    def _together(
        self, request: PodRequest, pods: int, domain: Domain, among: Collection[int] | None, latest: int
    ) -> tuple[int, list[int]] | None:
        """That of several pods in one domain: each where it fits soonest, at equal times on the first node by id;
        ``None`` too if that is after the latest."""
        costs = {rank: each for rank, each in self._nodes.ranks(domain) if among is None or rank in among}
        chosen: list[tuple[int, int]] = []
        for bound, rank in self._by_bound(request, costs):
            if bound > latest or (len(chosen) == pods and bound > chosen[-1][0]):
                break
            found = self._machine(rank).pods(request, costs[rank], pods)
            chosen = sorted([*chosen, *((at, rank) for at in found)])[:pods]
        return (chosen[-1][0], [rank for _, rank in chosen]) if len(chosen) == pods else None
