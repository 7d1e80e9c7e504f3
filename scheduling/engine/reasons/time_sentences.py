"""Why a workload may not start at this hour, or has ended because it is too late (section 10)."""

from __future__ import annotations

from scheduling.engine.model.peak import PeakHours, in_zone
from scheduling.engine.model.plan import Reason, ReasonCode
from scheduling.engine.model.quantities import gpus
from scheduling.engine.model.snapshot import PoolInfo
from scheduling.engine.reasons.sentences import reason


def deadline_passed(deadline: int) -> Reason:
    """It was not Queued by its deadline."""
    return reason(
        ReasonCode.DEADLINE_PASSED,
        f"It had not started by its deadline, {in_zone(deadline, 'UTC')}.",
        "Submit it again with a later deadline, or requeue it: then it has none.",
    )


def peak_hours(pool: PoolInfo, opens_at: int | None, *, deadline: int | None = None) -> Reason:
    """The pool does not admit a workload of this deadline in its peak hours, which end then (``None``: never)."""
    peak = pool.policy.peak
    limit = None if peak is None else peak.max_milli
    what = [] if limit is None else [f"elastic workloads of more than {gpus(limit)}"]
    if peak is not None and peak.classes:
        what.append(
            f"elastic workloads of {'class' if len(peak.classes) == 1 else 'classes'} {', '.join(peak.classes)}"
        )
    until = "at no time" if peak is None or opens_at is None else f"after {in_zone(opens_at, peak.zone)}"
    step = "Nothing to do; it joins the queue then."
    if deadline is not None and opens_at is not None and deadline <= opens_at:
        step = f"Its deadline, {in_zone(deadline, 'UTC')}, comes first: submit it again with a later one."
    return reason(
        ReasonCode.PEAK_HOURS,
        f"In the peak hours of the pool {pool.name}, {' and '.join(what)} are not admitted; it may start {until}.",
        f"{step} {_admitted(peak)} are admitted before.",
        limit=limit,
        level=pool.id,
    )


def _admitted(peak: PeakHours | None) -> str:
    """What the peak hours do not keep out."""
    if peak is None or peak.max_milli == 0:
        return "Reserved workloads"
    size = "Workloads" if peak.max_milli is None else "Smaller workloads"
    return f"{size}{' of other classes' if peak.classes else ''} and reserved ones"
