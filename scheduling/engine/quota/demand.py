"""Demand: what a branch has and what waits in it, capped by its ceiling (section 3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from scheduling.engine.model.snapshot import GPU_MILLI
from scheduling.engine.quota.entitlement import Rank
from scheduling.engine.quota.tree import Accounts, Tree


class Needed(Protocol):
    """What a waiting workload needs of one pool, in milli-GPUs and pods."""

    @property
    def pod_milli(self) -> int:
        """What one pod takes there at most."""

    @property
    def next_milli(self) -> int:
        """What it must have to start: its minimum of pods, or one more pod for a running gang."""

    @property
    def wanted_pods(self) -> int:
        """How many pods count in the demand: those that could start in an empty pool."""


@dataclass(frozen=True, slots=True)
class Want:
    """What is wanted in a leaf beyond what it has: milli-GPUs, whether all in whole GPUs, the rank of the next
    workload."""

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


def reserved_demand(
    tree: Tree, left: Iterable[int], waiting: Iterable[tuple[Rank, int, Needed]]
) -> ReservedDemand:
    """What waiting reserved workloads count, given as rank, leaf and need.

    They are charged one after the other, by rank, to what the placed ones ``left`` of every own part. One counts as
    many pods as its guarantees have left, and none if that is less than it must have to start.
    """
    left = list(left)
    found = ReservedDemand({}, {})
    for key, leaf, needed in sorted(waiting, key=lambda each: each[0]):
        milli = _charged(tree, left, found.above, leaf, needed)
        if milli:
            want = Want(milli, not needed.pod_milli % GPU_MILLI, key)
            found.wants[leaf] = found.wants.get(leaf, NOTHING) + want
    return found


def _charged(tree: Tree, left: list[int], above: dict[int, int], leaf: int, needed: Needed) -> int:
    """Charge as many pods of a waiting reserved workload as its guarantees have left; 0 if not even its minimum."""
    if not needed.pod_milli:
        return 0
    chain = tree.chains[leaf]
    pods = min(needed.wanted_pods, sum(left[branch] for branch in chain) // needed.pod_milli)
    if pods * needed.pod_milli < needed.next_milli:
        return 0
    rest = milli = pods * needed.pod_milli
    for branch in chain:
        part = min(rest, left[branch])
        left[branch] -= part
        rest -= part
        for lower in tree.paths[leaf]:
            if part and len(tree.paths[lower]) > len(tree.paths[branch]):
                above[lower] = above.get(lower, 0) + part
    return milli


def capped(accounts: Accounts, branch: int, milli: int, above: int) -> int:
    """The demand of a branch: what it has and wants, up to its ceiling, never less than what it has.

    ``above``: what waiting reserved workloads would have charged above it. As in an admission, what is charged above a
    branch does not count against its burst limit.
    """
    quotas, usage = accounts.quotas, accounts.usage
    ceiling = min(quotas.maximum[branch], quotas.burst[branch] + usage.above[branch] + above)
    return max(usage.used[branch], min(milli, ceiling))
