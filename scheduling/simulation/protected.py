"""Waiting workloads that would start if others were not protected: the engine decides again without protection."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from scheduling.engine import PLACED, Plan, Policy, ReasonCode, Snapshot, WorkloadInfo, schedule
from scheduling.engine.model.quantities import counted
from scheduling.engine.preemption.victims import protected, protects
from scheduling.scenario.table import Section

FOR_A_PLACE = frozenset({ReasonCode.WAITING_FOR_GPUS, ReasonCode.FRAGMENTED, ReasonCode.WAITING_FOR_TOPOLOGY})
HEADS = ("WAITS", "NOT PREEMPTED", "WHY")
SHOWN = 3
"""So many are named for each that waits, in the table."""
UNITS = ((3_600_000, "h"), (60_000, "min"), (1000, "s"))


@dataclass(frozen=True, slots=True)
class Protected:
    """A placed workload that may not be preempted, and why."""

    workload: str
    why: str


ByWaiting = Mapping[str, tuple[Protected, ...]]


def protected_from(snapshot: Snapshot, plan: Plan, now: int, *, accelerate: bool = True) -> ByWaiting:
    """Return, by waiting workload, the workloads that it would preempt if they were not protected.

    Only workloads that wait for a place, and would start then, are named: without minimum runtime and limit of
    preemptions, or else with running reserved work as elastic work of the lowest priority. `accelerate` as in
    `engine.decide`.
    """
    waiting = {wait.workload for wait in plan.waits if wait.reason.code in FOR_A_PLACE}
    found: dict[str, tuple[Protected, ...]] = {}
    if not waiting:
        return found
    open_to_all = _without_limits(snapshot)
    for asked in (open_to_all, _without_reserved(open_to_all)):
        if asked is not snapshot and waiting - found.keys():
            again = schedule(asked, now, accelerate=accelerate)
            found |= _whom(snapshot, again, now, waiting - found.keys())
    return found


def _whom(snapshot: Snapshot, again: Plan, now: int, waiting: Set[str]) -> dict[str, tuple[Protected, ...]]:
    """Return the victims that each of these has in the plan made ``again``, as far as the snapshot protects them."""
    workloads = {workload.id: workload for workload in snapshot.workloads}
    policies = {pool.id: pool.policy for pool in snapshot.pools}
    starts = {start.workload: start for start in again.starts}
    found = {}
    for id_ in sorted(waiting & starts.keys()):
        policy = policies[starts[id_].pool]
        whys = ((victim, _why(workloads[victim], policy, now)) for victim in sorted(starts[id_].victims))
        spared = tuple(Protected(victim, why) for victim, why in whys if why)
        if spared:
            found[id_] = spared
    return found


def _why(workload: WorkloadInfo, policy: Policy, now: int) -> str:
    """Return what protects a workload, in words; nothing, if nothing does."""
    if workload.reserved:
        return "reserved"
    if not protected(workload, policy, now):
        return ""
    most = policy.max_preemptions
    if most is not None and workload.preemptions_24h >= most:
        return f"preempted {counted(workload.preemptions_24h, 'time')} in 24 h, max_preemptions is {most}"
    ran = now - (workload.started_at or now)
    return f"runs for {_length(ran)}, min_runtime is {_length(policy.min_runtime_ms)}"


def _length(ms: int) -> str:
    """Return a duration in the largest unit that it is at least one of."""
    unit, name = next(((unit, name) for unit, name in UNITS if ms >= unit), UNITS[-1])
    return f"{ms / unit:.1f}".removesuffix(".0") + f" {name}"


def _without_limits(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with nothing that protects elastic work from elastic work."""
    if not any(protects(pool.policy) for pool in snapshot.pools):
        return snapshot
    pools = (
        replace(pool, policy=replace(pool.policy, min_runtime_ms=0, max_preemptions=None))
        for pool in snapshot.pools
    )
    return replace(snapshot, pools=tuple(pools))


def _without_reserved(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with the reserved work that is placed as elastic work of the lowest priority."""
    rows = (
        replace(row, priority=0) if row.reserved and row.status in PLACED else row
        for row in snapshot.workloads
    )
    changed = replace(snapshot, workloads=tuple(rows))
    return snapshot if changed == snapshot else changed


def section(found: ByWaiting) -> Section:
    """Return them as rows of the table."""
    rows: list[tuple[str, ...]] = []
    for waiting, spared in sorted(found.items()):
        rows += [(waiting, each.workload, each.why) for each in spared[:SHOWN]]
        if len(spared) > SHOWN:
            rows.append((waiting, f"and {len(spared) - SHOWN:,} more", ""))
    return HEADS, rows
