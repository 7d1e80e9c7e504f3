"""Whether anything has changed that a cycle would look at; asked each second, so a few sums instead of the rows."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Case, Count, Max, Q, Sum, Value, When

from agentlink.models import Device, Node
from chamber import live
from scheduling import engine
from teams.models import Pool, Share, Team
from workloads.models import Attempt, Workload
from workloads.models.workload import OPEN

LOOKED_AT_LEAST_EVERY = timedelta(seconds=15)
"""Labels and taints of nodes change without a trace in the sums; in this process their announcement tells."""

ROWS = (Count("pk"), Sum("version"))


def fingerprint() -> tuple[Any, ...]:
    """Return figures that differ when what a snapshot shows has changed (7 queries, however many rows)."""
    some = Case(When(held=True, then=1), default=Value(0))
    nodes = Node.objects.filter(gone_at__isnull=True)
    return (
        *_sums(Workload.objects.filter(status__in=OPEN), *ROWS, Sum(some), Max("backoff_until")),
        *_sums(
            Attempt.objects.filter(released_at__isnull=True),
            Count("pk"),
            Count("ended_at"),
            Count("running_at"),
            Sum("gpus_milli"),
            Max("checkpointed_at"),
        ),
        *(figure for model in (Team, Share, Pool) for figure in _sums(model.objects.all(), *ROWS)),
        *_sums(
            nodes,
            Count("pk"),
            Count("pool"),
            _number(ready=True),
            _number(cordoned=True),
            _number(drained=True),
            _number(cluster__connected=True),
        ),
        *_sums(
            Device.objects.all(),
            Count("pk"),
            _number(foreign=True),
            Sum("occupied_milli"),
            Sum("share_milli"),
        ),
        live.version("pools"),
    )


def due(snapshot: engine.Snapshot, taken_at: datetime, now: int) -> datetime:
    """Return when the next cycle is due though nothing changes: a backoff or a protected time ends, a workload may
    start or is past its deadline, peak hours begin or end.
    """
    protected = {pool.id: pool.policy.min_runtime_ms for pool in snapshot.pools}
    latest = now + round(LOOKED_AT_LEAST_EVERY.total_seconds() * 1000)
    times = [each.backing_off_until for each in snapshot.workloads if each.backing_off_until is not None]
    times += [
        each.started_at + protected.get(each.pool, 0)
        for each in snapshot.workloads
        if each.started_at is not None and each.pool is not None
    ]
    pending = [each for each in snapshot.workloads if each.status is engine.OpenStatus.PENDING]
    times += [each.start_after for each in pending if each.start_after is not None]
    times += [each.deadline for each in pending if each.deadline is not None]
    peaks = [pool.policy.peak for pool in snapshot.pools if pool.policy.peak is not None]
    times += [at for peak in peaks if (at := peak.changes_at(now)) is not None]
    next_at = min((at for at in times if at > now), default=latest)
    return taken_at + timedelta(milliseconds=min(latest, next_at) - now)


def _number(**condition: bool) -> Count:
    return Count("pk", filter=Q(**condition))


def _sums(rows: Any, *figures: Any) -> tuple[Any, ...]:
    """Return the aggregates of the rows, in order."""
    found = rows.order_by().aggregate(**{f"f{n}": figure for n, figure in enumerate(figures)})
    return tuple(found.values())
