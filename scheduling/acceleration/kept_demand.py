"""What every branch wants, and what it is entitled to, kept up to date as workloads come and go (section 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import islice

from scheduling.acceleration.leaf_candidates import LeafCandidates
from scheduling.engine.model.snapshot import GPU_MILLI
from scheduling.engine.queue.candidate import Candidate, OwnKey, PoolRequest
from scheduling.engine.quota.demand import NOTHING, Demand, ReservedDemand, Want, reserved_demand
from scheduling.engine.quota.entitlement import divide_among_children
from scheduling.engine.quota.tree import ROOT, QuotaAccounts


class KeptDemand(Demand):
    """The demand D of every branch of one pool: allocated and waiting, each branch capped by its ceiling, never below
    its allocation.

    A waiting workload counts with all the pods that could start in an empty pool, a running gang with those it has not
    grown. ``in_line`` gives the waiting ones of a leaf, in rows by level, the first first.

    It is kept up to date: :meth:`recount` tells that others wait in a leaf, :meth:`add` and :meth:`remove` which grow,
    :meth:`touch` that something is allocated or charged otherwise, :meth:`work_out` sums up what that has changed.
    ``whole`` tells whether all workloads of the branch ask for whole GPUs, ``next_key`` the rank of the branch's next
    waiting one.
    """

    def __init__(
        self, accounts: QuotaAccounts, in_line: Callable[[int], Iterable[LeafCandidates]] = lambda _: ()
    ) -> None:
        super().__init__(accounts)
        size = len(accounts.tree)
        self._in_line = in_line
        self._growing: dict[int, dict[str, Candidate]] = {}
        self._sharing = [0] * size
        self._elastic: dict[int, Want] = {}
        self._least_reserved: dict[int, int] = {}
        self._reserved: dict[int, Want] = {}
        self._above: dict[int, int] = {}
        self._recount: set[int] = set()
        self._touched: set[int] = set()
        self._stale: set[int] = set(range(size))

    def recount(self, leaves: Iterable[int]) -> None:
        """Note that others wait in these leaves."""
        self._recount.update(leaves)

    def add(self, entry: Candidate) -> None:
        """Count one that grows."""
        self._growing.setdefault(entry.leaf, {})[entry.id] = entry
        self._recount.add(entry.leaf)

    def remove(self, entry: Candidate) -> None:
        """Do not count it any more; nothing, if it was not counted."""
        if self._growing.get(entry.leaf, {}).pop(entry.id, None) is not None:
            self._recount.add(entry.leaf)

    def _rows(self, leaf: int) -> Iterator[LeafCandidates]:
        """Those that wait in a leaf, in rows by level, and those that grow, one by one."""
        yield from self._in_line(leaf)
        for entry in self._growing.get(leaf, {}).values():
            row = LeafCandidates(leaf, reserved=entry.reserved)
            row.add(entry)
            yield row

    def share(self, leaf: int, change: int) -> None:
        """Note that so many more (or fewer) that are placed share a device."""
        self._sharing[leaf] += change
        self._touched.add(leaf)

    def touch(self, leaf: int) -> None:
        """Note that what a leaf and the branches above it have is another."""
        self._touched.add(leaf)

    def work_out(self, left: list[int]) -> set[int]:
        """Bring it up to date; returns the branches that were summed up again.

        ``left`` is what the placed reserved workloads leave of every own part.
        """
        tree = self._accounts.tree
        for leaf in self._recount:
            self._count(leaf)
        for leaf in self._recount | self._touched:
            self._stale.update(tree.paths[leaf])
        self._recount.clear()
        self._touched.clear()
        reserved, above = self._charge_waiting(left)
        for leaf in reserved.keys() | self._reserved.keys():
            if reserved.get(leaf) != self._reserved.get(leaf):
                self._stale.update(tree.paths[leaf])
        for branch in above.keys() | self._above.keys():
            if above.get(branch) != self._above.get(branch):
                self._stale.update(tree.paths[branch])
        self._reserved, self._above = reserved, above
        stale, self._stale = self._stale | {ROOT}, set()
        for branch in sorted(stale, reverse=True):
            self._sum_up(branch)
        return stale

    def _count(self, leaf: int) -> None:
        """What the elastic ones of a leaf want, and the least a reserved one could start with."""
        milli = 0
        wanted: set[PoolRequest] = set()
        self._least_reserved.pop(leaf, None)
        for row in self._rows(leaf):
            takes = {each: count for each, count in row.takes.items() if each.counts}
            if not takes:
                continue
            if row.reserved:
                least = min([each.next_milli for each in takes])
                self._least_reserved[leaf] = min(least, self._least_reserved.get(leaf, least))
            else:
                milli += sum([count * each.wanted_milli for each, count in takes.items()])
                wanted.update(takes)
        whole = not any(each.pod_milli % GPU_MILLI for each in wanted)
        self._elastic[leaf] = Want(milli, whole, self._next_key(leaf) if wanted else None)

    def _next_key(self, leaf: int) -> OwnKey | None:
        """The rank of the next elastic one of a leaf. Levels after the first with one that counts are not looked
        at."""
        rows = (row for row in self._in_line(leaf) if not row.reserved)
        keys = (each.key for row in rows for each in row.candidates() if each.pool_request.counts)
        growing = [each.key for each in self._growing.get(leaf, {}).values() if not each.reserved]
        return min([*islice(keys, 1), *growing], default=None)

    def _charge_waiting(self, left: list[int]) -> ReservedDemand:
        """What the waiting reserved ones count: of leaves whose guarantees have enough for one of them."""
        tree = self._accounts.tree
        some = [
            leaf
            for leaf, least in self._least_reserved.items()
            if least <= sum([left[branch] for branch in tree.chains[leaf]])
        ]
        if not some:
            return ReservedDemand({}, {})
        rows = [row for leaf in some for row in self._rows(leaf) if row.reserved]
        entries = [entry for row in rows for entry in row.candidates() if entry.pool_request.counts]
        return reserved_demand(tree, left, [entry.reserved_want() for entry in entries])

    def _sum_up(self, branch: int) -> None:
        """Sum up a branch whose children are done, and cap it."""
        want = self._elastic.get(branch, NOTHING)
        if branch in self._reserved:
            want += self._reserved[branch]
        self.sum_up(branch, want, sharing=bool(self._sharing[branch]), above=self._above.get(branch, 0))


def divide_again(
    accounts: QuotaAccounts, demand: KeptDemand, capacity: int, entitled: list[int], stale: Iterable[int]
) -> None:
    """Bring E of every branch up to date: ``capacity`` divided top down, at each branch among its children.

    ``stale`` are the branches whose own figures are others than when ``entitled`` was worked out.
    """
    tree = accounts.tree
    total = min(capacity, demand.milli[ROOT])
    parents = {tree.parents[branch] for branch in stale if branch}
    if total != entitled[ROOT]:
        entitled[ROOT] = total
        parents.add(ROOT)
    waiting = list(parents)
    heapify(waiting)
    while waiting:
        branch = heappop(waiting)
        for child, milli in _divided(accounts, demand, branch, entitled[branch]):
            if entitled[child] != milli:
                entitled[child] = milli
                if tree.children[child] and child not in parents:
                    parents.add(child)
                    heappush(waiting, child)


def _divided(
    accounts: QuotaAccounts, demand: KeptDemand, branch: int, amount: int
) -> Iterator[tuple[int, int]]:
    """What each child gets of a branch's entitlement."""
    got = divide_among_children(accounts, demand, branch, amount)
    return ((child, got.get(child, 0)) for child in accounts.tree.children[branch])
