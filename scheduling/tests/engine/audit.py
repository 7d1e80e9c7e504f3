"""What an organisation looks like after a plan, when the next cycle looks at it."""

from __future__ import annotations

from dataclasses import replace

from scheduling.engine import OpenStatus, Plan, Snapshot, WorkloadInfo


def applied(snapshot: Snapshot, plan: Plan, *, stopped: bool = True) -> Snapshot:
    """The next cycle's snapshot, everything carried out. Who was stopping is gone, or (``stopped`` false) not."""
    rows = {
        workload.id: workload
        for workload in snapshot.workloads
        if workload.status is not OpenStatus.STOPPING or not stopped
    }
    for gone in plan.preemptions:
        rows[gone.workload] = _waiting(rows[gone.workload])
    for shrink in plan.shrinks:
        row = rows[shrink.workload]
        rest = tuple(pod for pod in row.placements if pod.pod_index not in shrink.pods)
        rows[row.id] = replace(row, placements=rest)
    for grow in plan.grows:
        row = rows[grow.workload]
        rows[row.id] = replace(row, placements=(*row.placements, *grow.placements))
    for expiry in plan.expiries:
        del rows[expiry.workload]
    for start in plan.starts:
        row = rows[start.workload]
        rows[row.id] = replace(row, status=OpenStatus.QUEUED, pool=start.pool, placements=start.placements)
    return replace(snapshot, workloads=tuple(rows.values()))


def _waiting(workload: WorkloadInfo) -> WorkloadInfo:
    return replace(
        workload, status=OpenStatus.PENDING, placements=(), pool=None, started_at=None, deadline=None
    )
