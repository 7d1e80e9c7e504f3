"""Which guarantee a workload is charged to, and which ceiling stops it (sections 2 and 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from scheduling.engine.model.plan import Allocation
from scheduling.engine.model.quantities import UNLIMITED
from scheduling.engine.model.snapshot import WorkloadInfo
from scheduling.engine.quota.tree import QuotaAccounts

NOTHING_LEAVES: Mapping[int, int] = {}


class ReservedHolding(NamedTuple):
    """What a placed reserved workload holds, and in which leaf."""

    workload: WorkloadInfo
    leaf: int
    milli: int


def admission_order(workload: WorkloadInfo) -> tuple[bool, int, int, str]:
    """The order in which placed workloads were admitted, as far as a snapshot tells."""
    started = workload.started_at
    return (started is None, started or 0, workload.submitted_at, workload.id)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A ceiling that an admission would pass: of which branch, how much is left under it, by how much it is passed.

    ``by_maximum`` tells the maximum from the burst limit.
    """

    branch: int
    limit: int
    available: int
    excess: int
    by_maximum: bool


class Charges:
    """What is left of every team's own part in one pool, while reserved workloads are charged one after the other."""

    def __init__(self, accounts: QuotaAccounts) -> None:
        self._tree = accounts.tree
        self._quotas = accounts.quotas
        self._usage = accounts.usage
        self.left = list(accounts.quotas.own)
        self._limited: dict[int, tuple[int, ...]] = {}

    def available(self, leaf: int) -> int:
        """What the guarantees of the leaf's team and of its ancestors still have, siblings' parts excluded."""
        return sum(self.left[branch] for branch in self._tree.chains[leaf])

    def limit(self, leaf: int) -> int:
        """What they would have if nothing ran: the largest reserved workload the team can ever start."""
        return sum(self._quotas.own[branch] for branch in self._tree.chains[leaf])

    def split(self, leaf: int, milli: int) -> list[tuple[int, int]]:
        """How ``milli`` would be charged: (branch, part) from the own team upwards, as far as there is something
        left."""
        parts = []
        for branch in self._tree.chains[leaf]:
            part = min(milli, self.left[branch])
            if part > 0:
                parts.append((branch, part))
                milli -= part
        return parts

    def charge(self, leaf: int, milli: int) -> tuple[Allocation, ...]:
        """Charge a reserved workload: own part first, then each ancestor's.

        What finds nothing left (after an edit of the guarantees) is charged to no team; it is allocated to ``None``.
        """
        allocation = []
        for branch, part in self.split(leaf, milli):
            self.left[branch] -= part
            self._count_above(leaf, branch, part)
            allocation.append(Allocation(self._tree.team_id(branch), part))
            milli -= part
        if milli > 0:
            allocation.append(Allocation(None, milli))
        return tuple(allocation)

    def charge_all(self, held: Iterable[ReservedHolding]) -> dict[str, list[Allocation]]:
        """Charge placed reserved workloads one after the other, in the order of their admission; by id."""
        ordered = sorted(held, key=lambda each: admission_order(each.workload))
        return {each.workload.id: list(self.charge(each.leaf, each.milli)) for each in ordered}

    def _count_above(self, leaf: int, charged: int, milli: int) -> None:
        """Note in the branches between the leaf and the charged one that this part does not burst there."""
        for branch in self._tree.paths[leaf]:
            if len(self._tree.paths[branch]) > len(self._tree.paths[charged]):
                self._usage.above[branch] += milli

    def ceiling_passed(
        self, leaf: int, milli: int, *, reserved: bool, leaving: Mapping[int, int] = NOTHING_LEAVES
    ) -> Ceiling | None:
        """The first ceiling, from the own team upwards, that ``milli`` more would pass; ``leaving`` (by branch) goes
        first."""
        limited = self.with_limit(leaf)
        charged = self.split(leaf, milli) if reserved and limited else []
        for branch in limited:
            depth = len(self._tree.paths[branch])
            bursting = milli - sum(part for at, part in charged if len(self._tree.paths[at]) < depth)
            used = self._usage.used[branch] - leaving.get(branch, 0)
            found = self._passed(branch, used, milli, bursting)
            if found is not None:
                return found
        return None

    def with_limit(self, leaf: int) -> tuple[int, ...]:
        """Those of its teams, upwards, that have a ceiling."""
        found = self._limited.get(leaf)
        if found is None:
            chain = self._tree.chains[leaf]
            found = tuple(branch for branch in chain if self._quotas.ceiling(branch) < UNLIMITED)
            self._limited[leaf] = found
        return found

    def _passed(self, branch: int, used: int, milli: int, bursting: int) -> Ceiling | None:
        """The branch's ceiling if ``milli`` (of which ``bursting`` count against the burst limit) would pass it."""
        maximum, burst = self._quotas.maximum[branch], self._quotas.burst[branch]
        room_maximum = maximum - used
        room_burst = burst - (used - self._usage.above[branch])
        over_maximum, over_burst = milli - room_maximum, bursting - room_burst
        if burst != UNLIMITED and bursting > 0 and over_burst > 0 and over_burst >= over_maximum:
            return Ceiling(branch, burst, max(0, room_burst), over_burst, by_maximum=False)
        if maximum != UNLIMITED and over_maximum > 0:
            return Ceiling(branch, maximum, max(0, room_maximum), over_maximum, by_maximum=True)
        return None

    def most_ever(self, leaf: int, *, reserved: bool) -> int:
        """The largest workload of a class that guarantees and ceilings could ever admit in a leaf."""
        maxima = [self._quotas.maximum[branch] for branch in self.with_limit(leaf)]
        if reserved:
            return min([self.limit(leaf), *maxima])
        return min(
            [self._quotas.burst[branch] for branch in self.with_limit(leaf)] + maxima, default=UNLIMITED
        )

    def ceilings_forever(self, leaf: int, milli: int, *, reserved: bool) -> list[Ceiling]:
        """The ceilings, from the own team upwards, that a workload of this size would pass even in an empty pool.

        A reserved one inside its guarantees passes no burst limit: what its team's own part does not cover is charged
        above.
        """
        found = []
        for branch in self.with_limit(leaf):
            maximum, burst = self._quotas.maximum[branch], self._quotas.burst[branch]
            if not reserved and milli > burst:
                found.append(Ceiling(branch, burst, burst, milli - burst, by_maximum=False))
            if milli > maximum:
                found.append(Ceiling(branch, maximum, maximum, milli - maximum, by_maximum=True))
        return found
