"""Guarantees, ceilings, entitlements and figures."""

from __future__ import annotations

from dataclasses import replace

from scheduling.checker import BrokenRule
from scheduling.engine import Allocation, OpenStatus
from scheduling.tests.engine.build import node, placed, team, waiting
from scheduling.tests.proof.faults.worlds import (
    BEYOND,
    BURST,
    FAMILY,
    GROWS,
    GUARANTEES,
    MAXIMUM,
    SHARES,
    STOPPING,
    UNDER_TOP,
    WANTED,
    Fault,
    each,
    off_by_one,
    without,
    world,
)
from scheduling.tests.proof.plants import blind, field, of, wrong

QUOTAS = (
    Fault(
        "a sibling's guarantee is used",
        BrokenRule.SIBLINGS_GUARANTEE,
        world(
            node("n", 8),
            waiting("w", "a", 3, priority=100),
            teams=(team("a", reserved=1), team("b", reserved=3)),
        ),
        blind(workloads=field(team="b")),
    ),
    Fault(
        "reserved work goes beyond the guarantee",
        BrokenRule.BEYOND_GUARANTEE,
        BEYOND,
        blind(teams=of("a", shares=team("a", reserved=3).shares)),
    ),
    Fault(
        "reserved work bursts",
        BrokenRule.BEYOND_GUARANTEE,
        GUARANTEES,
        each("starts", lambda row: replace(row, allocation=(Allocation(None, 2000),))),
    ),
    Fault(
        "the parent is charged first",
        BrokenRule.ALLOCATION,
        world(node("n", 8), waiting("w", "a", 1, priority=100), teams=FAMILY),
        each("starts", lambda row: replace(row, allocation=(Allocation("top", 1000),))),
    ),
    Fault(
        "a part is not charged",
        BrokenRule.ALLOCATION,
        GUARANTEES,
        each("starts", lambda row: replace(row, allocation=row.allocation[:1])),
    ),
    Fault("a maximum is ignored", BrokenRule.CEILING, MAXIMUM, blind(teams=field(maximum_milli=None))),
    Fault(
        "a maximum is off by one",
        BrokenRule.CEILING,
        world(node("n", 4), placed("r", "a", on="n:0"), waiting("w", "a"), teams=(team("a", maximum=1),)),
        blind(teams=of("a", maximum_milli=2000)),
    ),
    Fault(
        "a burst limit is ignored",
        BrokenRule.CEILING,
        BURST,
        blind(teams=field(burst_limit_percent=None)),
    ),
    Fault(
        "an ancestor's ceiling is ignored",
        BrokenRule.CEILING,
        UNDER_TOP,
        blind(teams=of("top", maximum_milli=None)),
    ),
    Fault("an entitlement is off by one", BrokenRule.ENTITLEMENT, SHARES, each("teams", off_by_one)),
    Fault("weights are ignored", BrokenRule.ENTITLEMENT, SHARES, blind(teams=field(weight=1))),
    Fault(
        "a remainder goes to the wrong one",
        BrokenRule.ENTITLEMENT,
        world(node("n", 5), *WANTED),
        blind(workloads=of("wb0", priority=99)),
    ),
    Fault(
        "demand leaves out pods above the minimum",
        BrokenRule.DEMAND,
        GROWS,
        blind(workloads=field(pods=1)),
    ),
    Fault(
        "figures leave out who is Queued",
        BrokenRule.FIGURES,
        world(node("n", 2), placed("q", "a", on="n:0", status=OpenStatus.QUEUED)),
        each("pools", lambda row: replace(row, in_use_milli=0)),
    ),
    Fault(
        "emptying devices count as free",
        BrokenRule.FIGURES,
        STOPPING,
        each("pools", lambda row: replace(row, free_milli=1000)),
    ),
    Fault(
        "too many guarantees are not found",
        BrokenRule.FINDINGS,
        world(node("n", 1), teams=(team("a", reserved=2),)),
        without("findings"),
    ),
    Fault(
        "a division hands a GPU to the wrong one",
        BrokenRule.ENTITLEMENT,
        SHARES,
        wrong("quota.entitlement.divide", lambda amount, claims: [amount, *(0 for _ in claims[1:])]),
    ),
    Fault(
        "everybody's guarantee is anybody's",
        BrokenRule.BEYOND_GUARANTEE,
        world(
            node("n", 8),
            placed("r", "a", 2, on="n:0,1", priority=100),
            waiting("w", "a", priority=100),
            teams=FAMILY,
        ),
        wrong("quota.charging.Charges.available", lambda charges, _: sum(charges.left)),
    ),
    Fault(
        "no ceiling is looked at",
        BrokenRule.CEILING,
        MAXIMUM,
        wrong("quota.charging.Charges.ceiling_passed", lambda *_, **__: None),
    ),
)
