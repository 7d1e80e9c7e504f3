"""Entitlement: what a branch should hold while there is contention (section 3).

From the root down each branch's part is divided among its children; the root's is the pool's capacity or its demand,
whichever is less.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from scheduling.engine.model.snapshot import GPU_MILLI
from scheduling.engine.quota.demand import Demand
from scheduling.engine.quota.tree import ROOT, QuotaAccounts


def divide_among_children(
    accounts: QuotaAccounts, wanted: Demand, branch: int, amount: int
) -> dict[int, int]:
    """What each child of a branch gets of the branch's entitlement; a child that is left out gets nothing.

    First what its reserved workloads have, then up to the lower of demand and guarantee, in proportion to the
    guarantees, then the rest by bursting priority up to the demand.
    """
    if amount <= 0:
        return {}
    tree, quotas, usage, demand = accounts.tree, accounts.quotas, accounts.usage, wanted.milli
    got = {child: 0 for child in tree.children[branch] if demand[child] > 0}

    def claim(child: int, weight: int, most: int) -> BranchClaim:
        key = wanted.next_key[child]
        return BranchClaim(
            weight=weight,
            most=most,
            unit=GPU_MILLI if wanted.whole[child] else 1,
            surplus_over=usage.used[child] - got[child],
            tie=(key is None, key or (0, 0, ""), tree.team_id(child) or "", tree.own[child]),
        )

    reserved = {child: min(usage.reserved[child], demand[child]) for child in got}
    guarantee = {child: quotas.guarantee[child] for child in got}
    guaranteed = {child: min(guarantee[child], demand[child]) for child in got}
    wished = {child: demand[child] for child in got}
    weight = {child: quotas.weight[child] for child in got}
    for goal, by in ((reserved, reserved), (guaranteed, guarantee), (wished, weight)):
        most = {child: max(0, goal[child] - has) if by[child] else 0 for child, has in got.items()}
        left = amount - sum(got.values())
        if sum(most.values()) > left > 0:
            parts = divide(left, [claim(child, by[child], most[child]) for child in got])
            most = dict(zip(got, parts, strict=True))
        if left > 0:
            got = {child: has + most[child] for child, has in got.items()}
    return got


def divide_all(accounts: QuotaAccounts, wanted: Demand, capacity: int) -> list[int]:
    """The entitlement E of every branch: ``capacity`` divided top down, at each branch among its children."""
    tree = accounts.tree
    entitled = [0] * len(tree)
    entitled[ROOT] = min(capacity, wanted.milli[ROOT])
    for branch in range(len(tree)):
        for child, milli in divide_among_children(accounts, wanted, branch, entitled[branch]).items():
            entitled[child] = milli
    return entitled


@dataclass(frozen=True, slots=True)
class BranchClaim:
    """What one branch may claim in a division: its weight, how much it can take, in which unit, and its rank in ties.

    ``tie`` orders branches with equal remainders that hold as much (see :func:`divide`); it must be total.
    """

    weight: int
    most: int
    unit: int
    surplus_over: int
    """What it holds beyond what it has got before this division (may be negative)."""
    tie: tuple[Hashable, ...]


def divide(amount: int, claims: Sequence[BranchClaim]) -> list[int]:
    """Divide ``amount`` in proportion to the weights, none above its most.

    A claim that reaches its most drops out, and what it leaves is divided again. The parts are rounded down to the
    unit of each, and what the rounding left is handed out by largest remainder, at most one unit more each; of equal
    remainders first to the one that holds most above its rounded-down part, then by ``tie``. What is too small for
    any unit is not given.
    """
    parts = [0] * len(claims)
    active = [i for i, claim in enumerate(claims) if claim.weight > 0 and claim.most > 0]
    left = amount
    while active:
        total = sum(claims[i].weight for i in active)
        full = [i for i in active if left * claims[i].weight >= claims[i].most * total]
        if not full:
            break
        for i in full:
            parts[i] = claims[i].most
        left -= sum(claims[i].most for i in full)
        active = [i for i in active if i not in set(full)]
    if active and left > 0:
        _round(left, claims, active, parts)
    return parts


def _round(left: int, claims: Sequence[BranchClaim], active: list[int], parts: list[int]) -> None:
    """Write the rounded parts of ``left`` among the active claims, none of which reaches its most."""
    total = sum(claims[i].weight for i in active)
    remainders: dict[int, Fraction] = {}
    for i in active:
        exact = Fraction(left * claims[i].weight, total * claims[i].unit)
        units = exact.numerator // exact.denominator
        parts[i] = units * claims[i].unit
        remainders[i] = exact - units
    spare = left - sum(parts[i] for i in active)
    order = sorted(
        (i for i in active if remainders[i] > 0),
        key=lambda i: (-remainders[i], -max(0, claims[i].surplus_over - parts[i]), claims[i].tie),
    )
    for i in order:
        if claims[i].unit <= spare and parts[i] + claims[i].unit <= claims[i].most:
            parts[i] += claims[i].unit
            spare -= claims[i].unit
