"""When guarantees and ceilings admit more again, as far as time limits tell (sections 2, 3 and 9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto

from scheduling.engine.model.quantities import UNLIMITED
from scheduling.engine.pool.pool_cycle import PoolCycle
from scheduling.engine.preemption.victims import PlacedWorkload
from scheduling.engine.queue.candidate import Candidate
from scheduling.engine.reasons.timeline import Stock


class _Of(Enum):
    """What a stock counts: what is left under the maximum, under the maximum without elastic work, under the burst
    limit, of the own part."""

    MAXIMUM = auto()
    RESERVED = auto()
    BURST = auto()
    OWN_PART = auto()


class Allowance:
    """What the teams of one pool may start in addition, and when: stocks that are counted when they are asked for."""

    def __init__(self, cycle: PoolCycle, ends: Mapping[str, int | None]) -> None:
        self._cycle = cycle
        self._ends = ends
        self._stocks: dict[tuple[int, _Of], Stock] = {}
        self._below: dict[int, list[PlacedWorkload]] | None = None

    def when(self, candidate: Candidate) -> int | None:
        """The earliest time at which guarantees and ceilings admit the candidate; ``None`` if that is not known."""
        times = [self._stock(*key).when(candidate.next_milli) for key in self._ceilings(candidate)]
        if candidate.reserved:
            parts = [self._stock(branch, _Of.OWN_PART) for branch in self._chain(candidate)]
            times.append(Stock.merged(self._cycle.now, parts).when(candidate.next_milli))
        known = [at for at in times if at is not None]
        return max(known, default=self._cycle.now) if len(known) == len(times) else None

    def take(self, candidate: Candidate, at: int, until: int | None) -> None:
        """Count the candidate from then until then."""
        for key in self._ceilings(candidate):
            self._stock(*key).take(candidate.next_milli, at, until)
        if candidate.reserved:
            rest = candidate.next_milli
            for branch in self._chain(candidate):
                stock = self._stock(branch, _Of.OWN_PART)
                part = max(0, min(rest, stock.by(at)))
                stock.take(part, at, until)
                rest -= part

    def _chain(self, candidate: Candidate) -> tuple[int, ...]:
        return self._cycle.tree.chains[candidate.leaf]

    def _ceilings(self, candidate: Candidate) -> Iterator[tuple[int, _Of]]:
        """What may stop it; inside its guarantees no burst limit does."""
        quotas = self._cycle.accounts.quotas
        for branch in self._chain(candidate):
            if quotas.maximum[branch] != UNLIMITED:
                yield branch, _Of.RESERVED if candidate.reserved else _Of.MAXIMUM
            if quotas.burst[branch] != UNLIMITED and not candidate.reserved:
                yield branch, _Of.BURST

    def _stock(self, branch: int, of: _Of) -> Stock:
        found = self._stocks.get((branch, of))
        if found is None:
            found = self._stocks[branch, of] = Stock(self._cycle.now, self._left(branch, of))
            for placed in self._in(branch):
                at = self._ends[placed.workload.id]
                if at is not None:
                    found.comes(at, self._counts(placed, branch, of))
        return found

    def _left(self, branch: int, of: _Of) -> int:
        """What is left now; below zero where an edit left an excess."""
        quotas, usage = self._cycle.accounts.quotas, self._cycle.accounts.usage
        if of is _Of.MAXIMUM:
            return quotas.maximum[branch] - usage.used[branch]
        if of is _Of.RESERVED:
            return quotas.maximum[branch] - usage.reserved[branch]
        if of is _Of.BURST:
            return quotas.burst[branch] - usage.used[branch] + usage.above[branch]
        return self._cycle.charges.left[branch]

    def _counts(self, placed: PlacedWorkload, branch: int, of: _Of) -> int:
        """How much of a workload comes free in such a stock when it ends."""
        if of is _Of.MAXIMUM:
            return placed.milli
        if not placed.workload.reserved:
            return placed.milli if of is _Of.BURST else 0
        if of is _Of.RESERVED:
            return placed.milli
        tree = self._cycle.tree
        parts = self._cycle.allocations.get(placed.workload.id, ())
        if of is _Of.OWN_PART:
            return sum(part.milli for part in parts if part.team == tree.team_id(branch))
        above = {tree.team_id(each) for each in tree.paths[branch][:-1]}
        return placed.milli - sum(part.milli for part in parts if part.team in above)

    def _in(self, branch: int) -> Iterable[PlacedWorkload]:
        if self._below is None:
            self._below = {}
            for placed in self._cycle.placed_workloads.values():
                for each in self._cycle.tree.chains[placed.leaf]:
                    self._below.setdefault(each, []).append(placed)
        return self._below.get(branch, ())
