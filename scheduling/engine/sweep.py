"""Choosing victims for a newcomer who may take any elastic workload: a reserved one under its ceilings (section 7).

What :class:`~scheduling.engine.preempt.Search` does step by step is done here a tier at a time: a tier that does not
make room goes as a whole, whatever the order in it; only in the last one the teams take turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from math import inf

from scheduling.engine.capacity import Tally
from scheduling.engine.court import Court, Plea
from scheduling.engine.fleet import Domain
from scheduling.engine.rights import Party, Rights
from scheduling.engine.room import Picks, Room, pods_in
from scheduling.engine.standing import Standing, Tier, Unit, UnitKey
from scheduling.engine.tree import ROOT
from scheduling.engine.types import GPU_MILLI

NOBODY: Tier = (False, 0, 0)


@dataclass(slots=True, eq=False)
class Local:
    """What can be taken at once, with what it holds in the place."""

    unit: Unit
    rows: Sequence[tuple[int, Picks]]


@dataclass(slots=True, eq=False)
class Swept:
    """A tier that went as a whole; ``leaving`` is what had gone before it, by branch."""

    all: list[Local]
    leaving: dict[int, int]
    ordered: bool = False
    those: list[Local] = field(init=False)
    """Who of all is not spared."""

    def __post_init__(self) -> None:
        self.those = self.all


class Turns:
    """Those of one tier in the order of victims: always of the team most above its entitlement, in it the one who
    loses least. What goes of each branch, ``leaving``, is counted as they go.

    A heap entry is (minus U/E, the first key of the branch, the branch).
    """

    def __init__(
        self, rights: Rights, newcomer: Party, leaving: dict[int, int], those: Iterable[Local]
    ) -> None:
        self._leaving = leaving
        self._tree = tree = rights.accounts.tree
        self._used = rights.accounts.usage.used
        self._entitled = rights.entitled
        self._more = dict.fromkeys(tree.paths[newcomer.leaf], newcomer.milli)
        self._leaves: dict[int, list[Local]] = {}
        for each in those:
            self._leaves.setdefault(each.unit.standing.leaf, []).append(each)
        self._lowest: dict[int, UnitKey] = {}
        self._heaps: dict[int, list[tuple[float, UnitKey, int]]] = {ROOT: []}
        for leaf, members in self._leaves.items():
            members.sort(key=_key, reverse=True)
            self._lowest[leaf] = members[-1].unit.key
        for branch in sorted({branch for leaf in self._leaves for branch in tree.paths[leaf]}, reverse=True):
            if branch not in self._leaves:
                heapify(self._heaps[branch])
                self._lowest[branch] = min([entry[1] for entry in self._heaps[branch]])
            entry = (self._minus_above(branch), self._lowest[branch], branch)
            self._heaps.setdefault(tree.parents[branch], []).append(entry)
        heapify(self._heaps[ROOT])

    def _minus_above(self, branch: int) -> float:
        """Minus :meth:`~scheduling.engine.rights.Rights.above`."""
        used = self._used[branch] + self._more.get(branch, 0) - self._leaving.get(branch, 0)
        entitled = self._entitled[branch]
        return -used / entitled if entitled else -inf if used > 0 else 0.0

    def __iter__(self) -> Iterator[Local]:
        while self._heaps[ROOT]:
            branch = ROOT
            while branch not in self._leaves:
                branch = self._heaps[branch][0][-1]
            local = self._leaves[branch].pop()
            self._leave(local, branch)
            yield local

    def _leave(self, local: Local, leaf: int) -> None:
        """Count what leaves with somebody, and put his branches where they stand by now."""
        members, leaving, lowest = self._leaves[leaf], self._leaving, self._lowest
        milli, gone = local.unit.milli, local.unit.key
        first = members[-1].unit.key if members else None
        for branch in reversed(self._tree.paths[leaf]):
            leaving[branch] = leaving.get(branch, 0) + milli
            parent = self._tree.parents[branch]
            heap = self._heaps[parent]
            if first is None:
                heappop(heap)
            else:
                lowest[branch] = first
                heapreplace(heap, (self._minus_above(branch), first, branch))
            first = None
            if heap:
                first = (
                    min([entry[1] for entry in heap]) if lowest.get(parent) == gone else lowest.get(parent)
                )


def _key(local: Local) -> UnitKey:
    return local.unit.key


class Sweep:
    """The victims inside one domain, for several pods that need one."""

    def __init__(self, court: Court, plea: Plea, widest: Tally, number: int) -> None:
        self.number = number
        self.place: Domain = widest.domains[number]
        self._court = court
        self._plea = plea
        self._tree = court.rights.accounts.tree
        self._costs = {
            rank: costs for rank, costs in court.ledger.fleet.ranks(self.place) if rank not in plea.closed
        }
        self._uniform = all(usable.uniform for usable in self.place.usable)
        self._pods = {rank: widest.pods[rank] for rank in self._costs}
        self._total = sum(self._pods.values())
        self._rooms: dict[int, Room] = {}
        self._leaving: dict[int, int] = {}
        self._swept: list[Swept] = []
        self._tiers = self._by_tier()
        self.last = self._sweep()
        """The tier that makes room, if any does; none, if there is nobody."""

    @property
    def bound(self) -> tuple[Tier, tuple[str, ...]]:
        """What the dearest victim is at least, and the place."""
        return (self.last or NOBODY, self.place.key)

    def _by_tier(self) -> dict[Tier, list[Local]]:
        """What could be taken here, by tier in order."""
        roster, ledger = self._court.roster, self._court.ledger
        tiers: dict[Tier, list[Local]] = {}
        several: dict[str, Standing] = {}
        for rank in self._costs:
            for pods in roster.on(rank):
                standing, _, picks = pods[0]
                if self._uniform and len(standing.pods) == 1:
                    unit = standing.units(ledger)[-1]
                    tiers.setdefault(unit.tier, []).append(Local(unit, ((rank, picks),)))
                else:
                    several[standing.workload.id] = standing
        for standing in several.values():
            for local in self._locals(standing):
                tiers.setdefault(local.unit.tier, []).append(local)
        return dict(sorted(tiers.items()))

    def _locals(self, standing: Standing) -> Iterator[Local]:
        """What could be taken of a workload: its pods here above the minimum one by one, and what is left whole."""
        rows = {index: row for index, row in self._court.roster.rows(standing).items() if self._serves(row)}
        if not rows:
            return
        *spare, whole = standing.units(self._court.ledger)
        gone = {unit.pods[0].pod_index: unit for unit in spare if unit.pods[0].pod_index in rows}
        for index, unit in gone.items():
            yield Local(unit, (rows[index],))
        rest = tuple(row for index, row in rows.items() if index not in gone)
        yield Local(whole.without(frozenset(gone)) if gone else whole, rest)

    def _serves(self, row: tuple[int, Picks]) -> bool:
        """Whether a pod holds a device of this place that the newcomer could use."""
        costs = self._costs.get(row[0])
        return costs is not None and any(costs[at] for at, _ in row[1])

    # --- Coming and going -----------------------------------------------------------------------------------

    def _sweep(self) -> Tier | None:
        """Let tier after tier go until one makes room, or is the last; that one stays for the time being."""
        last = next(reversed(self._tiers), None)
        for tier, those in self._tiers.items():
            if tier == last:
                return tier
            self._let_go(those, 1)
            if self._enough:
                self._let_go(those, -1)
                return tier
            self._swept.append(Swept(those, dict(self._leaving)))
            self._count_leaving(self._leaving, those)
        return last

    @property
    def _enough(self) -> bool:
        return self._total >= self._plea.pods

    def _let_go(self, those: Iterable[Local], sign: int) -> None:
        """Let some go (1) or come back (-1)."""
        touched, rooms, later = set(), self._rooms, self._court.ledger.later.rooms
        for each in those:
            workload = each.unit.standing.workload
            for rank, picks in each.rows:
                if rank not in rooms:
                    rooms[rank] = later[rank].copy()
                rooms[rank].change(picks, workload.cpu_milli, workload.memory_mib, sign)
                touched.add(rank)
        for rank in touched:
            pods = pods_in(self._rooms[rank], self._costs[rank], self._plea.ask)
            self._total += pods - self._pods[rank]
            self._pods[rank] = pods

    def _count_leaving(self, leaving: dict[int, int], those: Iterable[Local]) -> None:
        """Count by branch what these take with them."""
        by_leaf: dict[int, int] = {}
        for each in those:
            leaf = each.unit.standing.leaf
            by_leaf[leaf] = by_leaf.get(leaf, 0) + each.unit.milli
        for leaf, milli in by_leaf.items():
            for branch in self._tree.paths[leaf]:
                leaving[branch] = leaving.get(branch, 0) + milli

    def _in_turn(self, those: Iterable[Local], leaving: dict[int, int]) -> Iterable[Local]:
        """Those of a tier, one after the other, as each of them leaves."""
        return Turns(self._court.rights, self._plea.party, leaving, those)

    # --- The victims ----------------------------------------------------------------------------------------

    def victims(self) -> tuple[Unit, ...] | None:
        """Those who must go, in the order in which they were chosen; ``None`` if all together do not make room."""
        chosen = []
        for local in self._in_turn(self._tiers[self.last] if self.last else (), self._leaving):
            self._let_go([local], 1)
            chosen.append(local)
            if self._enough:
                break
        if not self._enough:
            return None
        going = [*self._swept, Swept(chosen, {}, ordered=True)]
        self._whole = {
            each.unit.standing.workload.id for tier in going for each in tier.those if each.unit.whole
        }
        for tier in reversed(going):
            tier.those = [each for each in tier.those if not self._idles(each)]
        for tier in reversed(going):
            self._spare(tier)
        return tuple(each.unit for tier in going for each in sorted(tier.those, key=_key))

    def _spare(self, tier: Swept) -> None:
        """Spare those of a tier without whom there is room, last chosen first."""
        if not tier.ordered:
            if not any(self._is_spared(each, for_good=False) for each in tier.those):
                return
            left = set(tier.those)
            tier.those = [each for each in self._in_turn(tier.all, tier.leaving) if each in left]
        tier.those = [each for each in reversed(tier.those) if not self._is_spared(each)][::-1]

    def _idles(self, local: Local) -> bool:
        """Whether it leaves only nodes where no pod fits all the same; it is spared then, whoever else is."""
        if self._must_go(local) or any(self._pods[rank] for rank, _ in local.rows):
            return False
        # There it can stay away: no pod fits even without it.
        if local.unit.whole:
            self._whole.discard(local.unit.standing.workload.id)
        return True

    def _is_spared(self, local: Local, *, for_good: bool = True) -> bool:
        """Whether there is room without it; ``for_good``: let it come back then."""
        if self._must_go(local) or self._is_needed(local):
            return False
        self._let_go([local], -1)
        enough = self._enough
        if not (enough and for_good):
            self._let_go([local], 1)
        elif local.unit.whole:
            self._whole.discard(local.unit.standing.workload.id)
        return enough

    def _is_needed(self, local: Local) -> bool:
        """Whether it is plain at a glance that there is no room without it."""
        whole = self._plea.ask.whole
        if not whole or self._total > self._plea.pods or not self._uniform:
            return False
        for rank, picks in local.rows:
            gpu = self._rooms[rank].gpu
            taken = sum([gpu[at] == GPU_MILLI for at, _ in picks])
            if (gpu.count(GPU_MILLI) - taken) // whole < self._pods[rank]:
                return True
        return False

    def _must_go(self, local: Local) -> bool:
        """Whether it is a pod of a workload that goes as a whole."""
        return not local.unit.whole and local.unit.standing.workload.id in self._whole
