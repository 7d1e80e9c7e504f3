"""The scheduling engine: a pure function from a snapshot to a plan.

It reads no clock, no database and no settings, never changes its input, and gives the same plan for the same snapshot
whatever the order of its rows. The rules it keeps are in ``docs/scheduling.md``; each module here is one part of
them. Whatever is not of the engine imports from here; the units of all amounts are told in ``model``.
"""

from __future__ import annotations

from scheduling.engine.decide.decide import decide_plainly
from scheduling.engine.model.peak import PeakHours, WeeklyHours, weekly_hours
from scheduling.engine.model.plan import (
    Allocation,
    Eta,
    Expiry,
    Finding,
    FindingCode,
    Grow,
    Keep,
    Plan,
    PoolFigures,
    Preemption,
    Reason,
    ReasonCode,
    ReasonKind,
    Rule,
    Shrink,
    Start,
    StartReservation,
    TeamFigures,
    Wait,
)
from scheduling.engine.model.snapshot import (
    DAY_MS,
    GPU_MILLI,
    HOUR_MS,
    PLACED,
    RESERVED_PRIORITY,
    AfterDeadline,
    AfterPreemption,
    DependencyState,
    DeviceInfo,
    DeviceShare,
    ElasticPreemption,
    Fairness,
    GpuShare,
    Labels,
    Memory,
    NodeInfo,
    NodeOrder,
    OpenStatus,
    PodPlacement,
    Policy,
    PoolInfo,
    Queueing,
    Request,
    Sharing,
    Slicing,
    Snapshot,
    Taint,
    TeamInfo,
    TeamShare,
    Toleration,
    Topology,
    TypicalRequest,
    WorkloadInfo,
    labels_of,
)
from scheduling.engine.model.state import Changes, Doubt, State

__all__ = [
    "DAY_MS",
    "GPU_MILLI",
    "HOUR_MS",
    "PLACED",
    "RESERVED_PRIORITY",
    "AfterDeadline",
    "AfterPreemption",
    "Allocation",
    "Changes",
    "DependencyState",
    "DeviceInfo",
    "DeviceShare",
    "Doubt",
    "ElasticPreemption",
    "Eta",
    "Expiry",
    "Fairness",
    "Finding",
    "FindingCode",
    "GpuShare",
    "Grow",
    "Keep",
    "Labels",
    "Memory",
    "NodeInfo",
    "NodeOrder",
    "OpenStatus",
    "PeakHours",
    "Plan",
    "PodPlacement",
    "Policy",
    "PoolFigures",
    "PoolInfo",
    "Preemption",
    "Queueing",
    "Reason",
    "ReasonCode",
    "ReasonKind",
    "Request",
    "Rule",
    "Sharing",
    "Shrink",
    "Slicing",
    "Snapshot",
    "Start",
    "StartReservation",
    "State",
    "Taint",
    "TeamFigures",
    "TeamInfo",
    "TeamShare",
    "Toleration",
    "Topology",
    "TypicalRequest",
    "Wait",
    "WeeklyHours",
    "WorkloadInfo",
    "decide",
    "labels_of",
    "schedule",
    "weekly_hours",
]


def decide(state: State, now: int, *, accelerate: bool = True) -> Plan:
    """The plan for this state at ``now`` (milliseconds since the epoch). Changes nothing that can be seen of the
    state.

    ``accelerate`` false: by the rules alone, without indexes and short cuts. The plan is the same.
    """
    if not accelerate:
        return decide_plainly(state, now)
    # Imported late: the rules run without it, and without numpy.
    from scheduling.acceleration.decide import decide as decide_on_kept

    return decide_on_kept(state, now)


def schedule(snapshot: Snapshot, now: int, *, accelerate: bool = True) -> Plan:
    """The plan for a snapshot at ``now``; ``accelerate`` as in :func:`decide`."""
    return decide(State.of(snapshot), now, accelerate=accelerate)
