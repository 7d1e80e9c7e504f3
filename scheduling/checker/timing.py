"""What time decides of who waits: deadlines and the peak hours of pools (section 10)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

from scheduling.checker.picture import Action, Picture
from scheduling.checker.violation import BrokenRule, Violation, broken
from scheduling.engine.model.plan import ReasonCode
from scheduling.engine.model.snapshot import OpenStatus, PoolInfo, WorkloadInfo

MINUTES_OF_A_WEEK = 7 * 24 * 60


def broken_deadlines(picture: Picture) -> Iterator[Violation]:
    """Who ends before its deadline, outlives it, or ends otherwise than it asked."""
    ends = {expiry.workload: expiry for expiry in picture.plan.expiries}
    for id_, fate in sorted(picture.fates.items()):
        workload = fate.workload
        if is_over(workload, picture.now) != (fate.action is Action.END):
            text = f"{id_} has the deadline {workload.deadline}, and at {picture.now} the plan has it {fate.action}."
            yield broken(BrokenRule.DEADLINE, text, workload=id_)
        expiry = ends.get(id_)
        if expiry is not None and (
            expiry.ends_as is not workload.on_deadline or expiry.reason.code is not ReasonCode.DEADLINE_PASSED
        ):
            text = f"{id_} ends as {expiry.ends_as} with {expiry.reason.code}, but asked to {workload.on_deadline}."
            yield broken(BrokenRule.DEADLINE, text, workload=id_)


def is_over(workload: WorkloadInfo, now: int) -> bool:
    """Whether it waits still at its deadline."""
    pending = workload.status is OpenStatus.PENDING
    return pending and workload.deadline is not None and workload.deadline <= now


def is_shut_out(pool: PoolInfo, workload: WorkloadInfo, milli: int, at: int) -> bool:
    """Whether a pool does not admit a workload of so many milli-GPUs, all pods counted, at that time."""
    peak = pool.policy.peak
    if peak is None or workload.reserved:
        return False
    large = peak.max_milli is not None and milli > peak.max_milli
    if not large and workload.job_class not in peak.classes:
        return False
    clock = datetime.fromtimestamp(at // 1000, ZoneInfo(peak.zone))
    minute = (clock.weekday() * 24 + clock.hour) * 60 + clock.minute
    return any((minute - each.start) % MINUTES_OF_A_WEEK < each.end - each.start for each in peak.hours)
