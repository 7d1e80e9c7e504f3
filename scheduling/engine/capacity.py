"""How many pods of a newcomer fit, while victims come and go (section 7)."""

from __future__ import annotations

from collections.abc import Sequence

from scheduling.engine.ask import Ask
from scheduling.engine.fleet import Domain
from scheduling.engine.ledger import Ledger
from scheduling.engine.space import Room, pods_in
from scheduling.engine.standing import Unit


class Capacity:
    """How many of the newcomer's pods each domain holds, while victims come and go on a copy of the rooms."""

    def __init__(self, ledger: Ledger, ask: Ask, domains: Sequence[Domain], closed: frozenset[int]) -> None:
        self._ledger = ledger
        self._ask = ask
        self._rooms: dict[int, Room] = {}
        self._places: dict[int, list[tuple[int, Sequence[int]]]] = {}
        self._pods: dict[tuple[int, int], int] = {}
        self._totals = [0] * len(domains)
        for number, domain in enumerate(domains):
            for rank, costs in ledger.fleet.ranks(domain):
                if rank not in closed:
                    self._places.setdefault(rank, []).append((number, costs))
                    self._count(rank)

    def holds(self, pods: int) -> bool:
        """Whether one of the domains has room for that many."""
        return any(total >= pods for total in self._totals)

    def concerns(self, unit: Unit) -> bool:
        """Whether the unit holds something the newcomer could use."""
        return any(
            any(costs[at] for at, _ in picks)
            for rank, picks in unit.spots
            for _, costs in self._places.get(rank, ())
        )

    def change(self, unit: Unit, sign: int) -> None:
        """Let a unit go (1) or come back (-1)."""
        workload = unit.standing.workload
        for rank, picks in unit.spots:
            if rank in self._places:
                room = self._rooms.get(rank)
                if room is None:
                    room = self._rooms[rank] = self._ledger.later.rooms[rank].copy()
                room.change(picks, workload.cpu_milli, workload.memory_mib, sign)
                self._count(rank)

    def _count(self, rank: int) -> None:
        room = self._rooms.get(rank) or self._ledger.later.rooms[rank]
        for number, costs in self._places[rank]:
            pods = pods_in(room, costs, self._ask)
            self._totals[number] += pods - self._pods.get((rank, number), 0)
            self._pods[rank, number] = pods
