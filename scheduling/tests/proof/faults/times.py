"""When workloads may start, and by when they must."""

from __future__ import annotations

from dataclasses import replace

from scheduling.checker import BrokenRule
from scheduling.engine import AfterDeadline, PeakHours, WeeklyHours
from scheduling.tests.engine.build import MINUTE, NOW, node, placed, pool, waiting
from scheduling.tests.proof.faults.worlds import Fault, each, world
from scheduling.tests.proof.plants import blind, field, policy

WEEK_MINUTES = 7 * 24 * 60
NOW_MINUTE = (NOW // MINUTE - 4 * 24 * 60) % WEEK_MINUTES
"""Minutes since Monday; the epoch began on a Thursday."""
PEAK = PeakHours((WeeklyHours(NOW_MINUTE - 60, NOW_MINUTE + 60),), "UTC", 1000)
SOON = PeakHours((WeeklyHours(NOW_MINUTE + 15, NOW_MINUTE + 60),), "UTC", 1000)

TIMES = (
    Fault(
        "one starts before its time",
        BrokenRule.NOT_ELIGIBLE,
        world(node("n", 1), waiting("w", "a", start_after=NOW + MINUTE)),
        blind(workloads=field(start_after=None)),
    ),
    Fault(
        "a large one starts in the peak",
        BrokenRule.NOT_ELIGIBLE,
        world(node("n", 2), waiting("w", "a", 2), pools=(pool(peak=PEAK),)),
        blind(pools=policy(peak=None)),
    ),
    Fault(
        "one is promised a start in the peak",
        BrokenRule.PEAK_HOURS,
        world(
            node("n", 2),
            placed("r", "a", on="n:0", limit=60, priority=90),
            waiting("w", "a", 2),
            pools=(pool(peak=SOON),),
        ),
        blind(pools=policy(peak=None)),
    ),
    Fault(
        "one outlives its deadline",
        BrokenRule.DEADLINE,
        world(node("n", 1), waiting("w", "a", deadline=NOW)),
        blind(workloads=field(deadline=None)),
    ),
    Fault(
        "one ends otherwise than it asked",
        BrokenRule.DEADLINE,
        world(node("n", 1), waiting("w", "a", deadline=NOW, on_deadline=AfterDeadline.CANCEL)),
        each("expiries", lambda row: replace(row, ends_as=AfterDeadline.FAIL)),
    ),
)
