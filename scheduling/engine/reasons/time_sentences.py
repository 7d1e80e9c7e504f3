"""Why a workload may not start at this hour, or has ended because it is too late (section 10)."""

from __future__ import annotations

from scheduling.engine.model.peak import in_zone
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


def peak_hours(pool: PoolInfo, opens_at: int | None) -> Reason:
    """The pool does not admit it in its peak hours, which end then (``None``: never)."""
    peak = pool.policy.peak
    limit = None if peak is None else peak.max_milli
    what = [] if limit is None else [f"elastic workloads of more than {gpus(limit)}"]
    if peak is not None and peak.classes:
        what.append(
            f"elastic workloads of {'class' if len(peak.classes) == 1 else 'classes'} {', '.join(peak.classes)}"
        )
    until = "at no time" if peak is None or opens_at is None else f"after {in_zone(opens_at, peak.zone)}"
    return reason(
        ReasonCode.PEAK_HOURS,
        f"In the peak hours of the pool {pool.name}, {' and '.join(what)} are not admitted; it may start {until}.",
        "Nothing to do; it joins the queue then. Smaller workloads and reserved ones are admitted before.",
        limit=limit,
        level=pool.id,
    )
