"""Demand: what a branch has and what waits in it, capped by its ceiling (section 3)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scheduling.engine.model.snapshot import GPU_MILLI
from scheduling.engine.quota.tree import QuotaAccounts, Tree

Rank = tuple[int, int, str]
"""The rank of a waiting workload: minus its priority, its submission, its id."""


class ReservedWant(NamedTuple):
    """A waiting reserved workload: a pod's size, the least it starts with, and how many pods count in the demand."""

    key: Rank
    leaf: int
    pod_milli: int
    next_milli: int
    wanted_pods: int


@dataclass(frozen=True, slots=True)
class Want:
    """What a leaf wants beyond what it has: milli-GPUs, whether in whole GPUs only, the rank of the next workload."""

    milli: int = 0
    whole: bool = True
    next_key: Rank | None = None

    def __add__(self, other: Want) -> Want:
        """Both together."""
        keys = [key for key in (self.next_key, other.next_key) if key is not None]
        return Want(self.milli + other.milli, self.whole and other.whole, min(keys, default=None))


NOTHING = Want()


class ReservedDemand(NamedTuple):
    """What the waiting reserved workloads of each leaf may count, and what of it is charged above each branch."""

    wants: dict[int, Want]
    above: dict[int, int]


def reserved_demand(tree: Tree, left: Iterable[int], waiting: Iterable[ReservedWant]) -> ReservedDemand:
    """What waiting reserved workloads count.

    They are charged one after the other, by rank, to what the placed ones ``left`` of every own part. One counts as
    many pods as its guarantees have left, and none if that is less than it must have to start.
    """
    left = list(left)
    found = ReservedDemand({}, {})
    for each in sorted(waiting):
        milli = _charged(tree, left, found.above, each)
        if milli:
            want = Want(milli, not each.pod_milli % GPU_MILLI, each.key)
            found.wants[each.leaf] = found.wants.get(each.leaf, NOTHING) + want
    return found


def _charged(tree: Tree, left: list[int], above: dict[int, int], needed: ReservedWant) -> int:
    """Charge as many pods of a waiting reserved workload as its guarantees have left; 0 if not even its minimum."""
    if not needed.pod_milli:
        return 0
    chain, path = tree.chains[needed.leaf], tree.paths[needed.leaf]
    pods = min(needed.wanted_pods, sum(left[branch] for branch in chain) // needed.pod_milli)
    if pods * needed.pod_milli < needed.next_milli:
        return 0
    rest = milli = pods * needed.pod_milli
    for branch in chain:
        part = min(rest, left[branch])
        left[branch] -= part
        rest -= part
        for lower in path:
            if part and len(tree.paths[lower]) > len(tree.paths[branch]):
                above[lower] = above.get(lower, 0) + part
    return milli


def capped(accounts: QuotaAccounts, branch: int, milli: int, above: int) -> int:
    """The demand of a branch: what it has and wants, up to its ceiling, never less than what it has.

    ``above``: what waiting reserved workloads would have charged above it. As in an admission, what is charged above a
    branch does not count against its burst limit.
    """
    quotas, usage = accounts.quotas, accounts.usage
    ceiling = min(quotas.maximum[branch], quotas.burst[branch] + usage.above[branch] + above)
    return max(usage.used[branch], min(milli, ceiling))


class LeafWants(NamedTuple):
    """What waits in the leaves of a pool; ``sharing`` are those of which a placed workload takes a part of a device."""

    elastic: Mapping[int, Want]
    reserved: Sequence[ReservedWant]
    sharing: Collection[int]


class Demand:
    """The demand D of every branch of one pool.

    ``whole`` tells whether all workloads of the branch ask for whole GPUs, ``next_key`` the rank of the branch's next
    waiting one.
    """

    def __init__(self, accounts: QuotaAccounts) -> None:
        size = len(accounts.tree)
        self._accounts = accounts
        self.milli = [0] * size
        self.whole = [True] * size
        self.next_key: list[Rank | None] = [None] * size

    def sum_up(self, branch: int, want: Want, *, sharing: bool, above: int) -> None:
        """Sum up a branch whose children are summed up, and cap it; ``want`` and ``sharing`` (whether a placed workload
        takes a part of a device) are those of a leaf, ``above`` as in :func:`capped`."""
        children = self._accounts.tree.children[branch]
        if children:
            milli = sum([self.milli[child] for child in children])
            self.whole[branch] = all(self.whole[child] for child in children)
            keys = [key for child in children if (key := self.next_key[child]) is not None]
            self.next_key[branch] = min(keys, default=None)
        else:
            milli = self._accounts.usage.used[branch] + want.milli
            self.whole[branch] = want.whole and not sharing
            self.next_key[branch] = want.next_key
        self.milli[branch] = capped(self._accounts, branch, milli, above)


def demand_of(accounts: QuotaAccounts, left: Iterable[int], wants: LeafWants) -> Demand:
    """The demand of every branch, from what its leaves have and want and what placed reserved workloads ``left``."""
    found, reserved = Demand(accounts), reserved_demand(accounts.tree, left, wants.reserved)
    for branch in range(len(accounts.tree) - 1, -1, -1):
        want = wants.elastic.get(branch, NOTHING) + reserved.wants.get(branch, NOTHING)
        above = reserved.above.get(branch, 0)
        found.sum_up(branch, want, sharing=branch in wants.sharing, above=above)
    return found
