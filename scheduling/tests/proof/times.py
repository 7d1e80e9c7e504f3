"""Worlds and lives in which time matters: peak hours, starts that are not to come yet, deadlines."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from scheduling.engine import (
    AfterDeadline,
    OpenStatus,
    PeakHours,
    PoolInfo,
    Snapshot,
    WeeklyHours,
    WorkloadInfo,
)
from scheduling.tests.engine.build import MINUTE
from scheduling.tests.proof.faults.times import NOW_MINUTE

ZONES = ("UTC", "Asia/Kolkata")
STEPS = (-30, 0, 1, 5, 20, 90)
"""Minutes from now at which something may be due."""


def with_times(world: Snapshot, chance: Random, now: int) -> Snapshot:
    """The world with times for some of its pools and waiting workloads."""
    return replace(
        world,
        pools=tuple([timed_pool(pool, chance) for pool in world.pools]),
        workloads=tuple([timed(workload, chance, now) for workload in world.workloads]),
    )


def timed_pool(pool: PoolInfo, chance: Random) -> PoolInfo:
    """The pool, as a rule with peak hours that are on or come soon."""
    if chance.random() < 0.3:
        return pool
    starts = [NOW_MINUTE + chance.choice((-90, -20, 5, 30, 120)) for _ in range(chance.randint(1, 2))]
    hours = tuple([WeeklyHours(start, start + chance.choice((25, 60, 300))) for start in starts])
    limit, classes = chance.choice(((0, ()), (1000, ()), (2000, ("training",)), (None, ("training",))))
    return replace(
        pool, policy=replace(pool.policy, peak=PeakHours(hours, chance.choice(ZONES), limit, classes))
    )


def timed(workload: WorkloadInfo, chance: Random, now: int) -> WorkloadInfo:
    """The workload, with times where it waits."""
    fields: dict[str, Any] = {"job_class": chance.choice(("", "training"))}
    if workload.status is OpenStatus.PENDING and chance.random() < 0.3:
        fields["start_after"] = now + chance.choice(STEPS) * MINUTE
    if workload.status is OpenStatus.PENDING and chance.random() < 0.2:
        fields["deadline"] = now + chance.choice(STEPS) * MINUTE
        fields["on_deadline"] = chance.choice(tuple(AfterDeadline))
    return replace(workload, **fields)
