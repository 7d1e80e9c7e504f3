"""What becomes of workloads when a plan is carried out at once: pods start and leave in no time.

A victim goes back to the queue with its original submission, or ends where it is not to be requeued.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from operator import attrgetter

from scheduling.engine import AfterPreemption, OpenStatus, Plan, PodPlacement, Snapshot, WorkloadInfo

UNSETTLED = frozenset({OpenStatus.QUEUED, OpenStatus.STARTING, OpenStatus.STOPPING})
"""Statuses that pass by themselves: nobody is in them any more once a plan has been carried out."""


class OutcomeKind(Enum):
    """What happens to a workload."""

    START = "start"
    RESIZE = "resize"
    PREEMPT = "preempt"
    SETTLE = "settle"
    EXPIRE = "expire"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One workload before and after; `after` is None for one that is gone. `lost_gpu_ms`: of a victim."""

    act: OutcomeKind
    before: WorkloadInfo
    after: WorkloadInfo | None
    lost_gpu_ms: int = 0


def carried_out(snapshot: Snapshot, plan: Plan, now: int) -> Snapshot:
    """Return the organisation after a plan was carried out at once: what starts runs, what stopped is gone."""
    workloads = {workload.id: workload for workload in snapshot.workloads}
    for outcome in outcomes(plan, workloads, now):
        _put(workloads, outcome)
    for outcome in settled(workloads, now):
        _put(workloads, outcome)
    return replace(snapshot, workloads=tuple(workloads.values()))


def _put(workloads: dict[str, WorkloadInfo], outcome: Outcome) -> None:
    if outcome.after is None:
        del workloads[outcome.before.id]
    else:
        workloads[outcome.after.id] = outcome.after


def settled(workloads: Mapping[str, WorkloadInfo], at: int) -> Iterator[Outcome]:
    """Yield what was on its way: who was promised devices runs, who was stopping is gone."""
    for workload in list(workloads.values()):
        if workload.status is OpenStatus.STOPPING:
            yield Outcome(OutcomeKind.SETTLE, workload, None)
        elif workload.status in UNSETTLED:
            yield Outcome(
                OutcomeKind.SETTLE, workload, replace(workload, status=OpenStatus.RUNNING, started_at=at)
            )


def outcomes(plan: Plan, workloads: Mapping[str, WorkloadInfo], at: int) -> Iterator[Outcome]:
    """Yield what a plan changes, victims first; `workloads` are those it was made for, and may change on the way."""
    for gone in plan.preemptions:
        before = workloads[gone.workload]
        yield Outcome(OutcomeKind.PREEMPT, before, requeued(before), gone.lost_gpu_ms)
    for shrink in plan.shrinks:
        before = workloads[shrink.workload]
        left = tuple(pod for pod in before.placements if pod.pod_index not in shrink.pods)
        yield Outcome(OutcomeKind.RESIZE, before, replace(before, placements=left))
    for expiry in plan.expiries:
        yield Outcome(OutcomeKind.EXPIRE, workloads[expiry.workload], None)
    for start in plan.starts:
        before = workloads[start.workload]
        yield Outcome(OutcomeKind.START, before, _running(before, start.pool, start.placements, at))
    for grow in plan.grows:
        before = workloads[grow.workload]
        pods = sorted(before.placements + grow.placements, key=attrgetter("pod_index"))
        yield Outcome(OutcomeKind.RESIZE, before, replace(before, placements=tuple(pods)))


def requeued(victim: WorkloadInfo) -> WorkloadInfo | None:
    """Return a victim as it is back in the queue; None for one that ends. It has started by its deadline."""
    if victim.on_preemption is AfterPreemption.STOP:
        return None
    return replace(
        victim,
        status=OpenStatus.PENDING,
        pool=None,
        placements=(),
        started_at=None,
        checkpointed_at=None,
        preemptions_24h=victim.preemptions_24h + 1,
        deadline=None,
    )


def _running(
    newcomer: WorkloadInfo, pool: str, placements: tuple[PodPlacement, ...], at: int
) -> WorkloadInfo:
    return replace(newcomer, status=OpenStatus.RUNNING, pool=pool, placements=placements, started_at=at)


def milli_of(workload: WorkloadInfo) -> int:
    """What a workload holds, in milli-GPUs."""
    return sum(pod.milli for pod in workload.placements)
