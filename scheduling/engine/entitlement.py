"""What every branch should hold while there is contention (section 3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scheduling.engine.quantities import Claim, divide
from scheduling.engine.tree import ROOT, Accounts, Tree
from scheduling.engine.types import GPU_MILLI

NextKey = tuple[int, int, str]
"""A waiting workload's rank by (2), (4), (5) of the queue's order: -priority, submission, id."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A waiting workload that counts in a demand: with all the pods that could start in an empty pool.

    ``pods`` of ``pod_milli`` each; for a running gang those it has not grown, with ``min_pods`` 1.
    """

    leaf: int
    reserved: bool
    pods: int
    min_pods: int
    pod_milli: int
    key: NextKey


@dataclass(slots=True)
class Demand:
    """What each branch wants: ``milli`` D, capped by its ceiling; and what rounding has to know about it."""

    milli: list[int]
    whole: list[bool]
    """Whether all workloads of the branch ask for whole GPUs."""
    next_key: list[NextKey | None]
    """The rank of the branch's next waiting workload."""


def demand_of(
    accounts: Accounts, left: list[int], allocated_parts: Iterable[int], waiting: Iterable[Waiting]
) -> Demand:
    """The demand of every branch: allocated and waiting, each branch capped by its ceiling, never below its
    allocation.

    ``left`` is what the placed reserved workloads leave of every own part. ``allocated_parts`` names the leaves where
    somebody placed shares a device. Waiting reserved workloads are charged one after the other, by priority,
    submission, id; beyond what is left they do not count. What is charged above a branch does not count against its
    burst limit, as in an admission.
    """
    tree = accounts.tree
    size = len(tree)
    own = [0] * size
    above = list(accounts.usage.above)
    left = list(left)
    whole = [True] * size
    next_key: list[NextKey | None] = [None] * size
    for leaf in allocated_parts:
        whole[leaf] = False
    for entry in sorted(waiting, key=lambda entry: entry.key):
        milli = _charged(tree, left, above, entry) if entry.reserved else entry.pods * entry.pod_milli
        if milli == 0:
            continue
        own[entry.leaf] += milli
        if entry.pod_milli % GPU_MILLI:
            whole[entry.leaf] = False
        if next_key[entry.leaf] is None:
            next_key[entry.leaf] = entry.key
    demand = Demand(own, whole, next_key)
    for branch in range(size - 1, -1, -1):
        _cap(accounts, above, demand, branch)
    return demand


def _charged(tree: Tree, left: list[int], above: list[int], entry: Waiting) -> int:
    """Charge as many pods of a waiting reserved workload as its guarantees have left; 0 if not even its minimum."""
    chain = tree.chains[entry.leaf]
    pods = min(entry.pods, sum(left[branch] for branch in chain) // entry.pod_milli)
    if pods < entry.min_pods:
        return 0
    rest = milli = pods * entry.pod_milli
    for branch in chain:
        part = min(rest, left[branch])
        left[branch] -= part
        rest -= part
        for lower in tree.paths[entry.leaf]:
            if len(tree.paths[lower]) > len(tree.paths[branch]):
                above[lower] += part
    return milli


def _cap(accounts: Accounts, above: list[int], demand: Demand, branch: int) -> None:
    """Sum up a branch whose children are done, and cap it."""
    quotas, used = accounts.quotas, accounts.usage.used
    children = accounts.tree.children[branch]
    if children:
        demand.milli[branch] = sum(demand.milli[child] for child in children)
        demand.whole[branch] = all(demand.whole[child] for child in children)
        keys = [key for child in children if (key := demand.next_key[child]) is not None]
        demand.next_key[branch] = min(keys, default=None)
    else:
        demand.milli[branch] += used[branch]
    ceiling = min(quotas.maximum[branch], quotas.burst[branch] + above[branch])
    demand.milli[branch] = max(used[branch], min(demand.milli[branch], ceiling))


def entitlements(accounts: Accounts, demand: Demand, capacity: int) -> list[int]:
    """E of every branch: ``capacity`` divided top down, at each branch among its children."""
    tree = accounts.tree
    entitled = [0] * len(tree)
    entitled[ROOT] = min(capacity, demand.milli[ROOT])
    for branch in range(len(tree)):
        if tree.children[branch] and entitled[branch] > 0:
            division = _Division(accounts, demand, tree.children[branch], entitled[branch])
            for child, milli in division.run().items():
                entitled[child] = milli
    return entitled


class _Division:
    """What one branch got, divided among its children."""

    def __init__(self, accounts: Accounts, demand: Demand, children: Iterable[int], amount: int) -> None:
        self._accounts = accounts
        self._demand = demand
        self._amount = amount
        self._got = {child: 0 for child in children if demand.milli[child] > 0}

    def run(self) -> dict[int, int]:
        """First what their reserved workloads have, then up to min(D, G), then the rest by weight up to D."""
        quotas, usage = self._accounts.quotas, self._accounts.usage
        wanted = {child: self._demand.milli[child] for child in self._got}
        reserved = {child: min(usage.reserved[child], wanted[child]) for child in self._got}
        guarantee = {child: quotas.guarantee[child] for child in self._got}
        guaranteed = {child: min(guarantee[child], wanted[child]) for child in self._got}
        self._raise_to(reserved, by=reserved)
        self._raise_to(guaranteed, by=guarantee)
        self._raise_to(wanted, by={child: quotas.weight[child] for child in self._got})
        return self._got

    def _raise_to(self, goal: dict[int, int], *, by: dict[int, int]) -> None:
        """Raise all to their goals, or as far as what is left goes, in proportion to ``by``; nobody whose part is
        0."""
        left = self._amount - sum(self._got.values())
        if left <= 0:
            return
        room = {child: max(0, goal[child] - got) if by[child] else 0 for child, got in self._got.items()}
        if sum(room.values()) <= left:
            parts = list(room.values())
        else:
            parts = divide(left, [self._claim(child, by[child], room[child]) for child in room])
        for child, part in zip(room, parts, strict=True):
            self._got[child] += part

    def _claim(self, child: int, weight: int, room: int) -> Claim:
        """A child's claim in one division."""
        tree, key = self._accounts.tree, self._demand.next_key[child]
        return Claim(
            weight=weight,
            room=room,
            unit=GPU_MILLI if self._demand.whole[child] else 1,
            surplus_over=self._accounts.usage.used[child] - self._got[child],
            tie=(key is None, key or (0, 0, ""), tree.team_id(child) or "", tree.own[child]),
        )
