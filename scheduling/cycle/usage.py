"""How much teams have used: a sample each minute, and the decayed sum that fairness by usage goes by."""

import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Sum

from scheduling.models import UsageSample
from teams import retention
from teams.models import PoolPolicy
from teams.models.job_class import RESERVED_FROM
from workloads.models import Attempt

MINUTE_MS = 60_000
SAMPLES_KEPT = timedelta(days=1)
"""How long each minute has a row of its own."""
ROLLS_UP_FOR_SECONDS = 30.0
BATCH = 5000

HALF_LIVES_READ = 8
"""What is older weighs less than half a percent of what it was."""


def sample(now: datetime) -> int:
    """Record what each team's own workloads hold in this minute; return the number of new rows.

    A minute that was sampled already stays as it is, so two processes that sample do no harm.
    A team that holds nothing gets no row.
    """
    minute = now.replace(second=0, microsecond=0)
    held: dict[tuple[UUID, UUID], dict[str, int]] = defaultdict(
        lambda: {"reserved_milli": 0, "elastic_milli": 0}
    )
    allocated = Attempt.objects.filter(ended_at__isnull=True, released_at__isnull=True).order_by()
    groups = allocated.values_list("pool_id", "workload__team_id", "workload__priority").annotate(
        milli=Sum("gpus_milli")
    )
    for pool_id, team_id, priority, milli in groups:
        reserved = priority >= RESERVED_FROM
        held[pool_id, team_id]["reserved_milli" if reserved else "elastic_milli"] += milli
    rows = [
        UsageSample(minute=minute, pool_id=pool_id, team_id=team_id, **amounts)
        for (pool_id, team_id), amounts in held.items()
    ]
    before = UsageSample.objects.filter(minute=minute).count()
    UsageSample.objects.bulk_create(rows, ignore_conflicts=True)
    return UsageSample.objects.filter(minute=minute).count() - before


def roll_up(now: datetime) -> int:
    """Make one row of each hour's samples that are older than a day, and delete what is older than history is kept;
    return how many hours. In short transactions, for half a minute at most; what is left comes with the next time.
    """
    until = time.monotonic() + ROLLS_UP_FOR_SECONDS
    recent = (now - SAMPLES_KEPT).replace(minute=0, second=0, microsecond=0)
    each = UsageSample.objects.filter(minutes=1, minute__lt=recent).order_by("minute")
    hours = 0
    while time.monotonic() < until and (oldest := each.values_list("minute", flat=True).first()):
        hours += _roll_up_hour(oldest.replace(minute=0))
    old = UsageSample.objects.filter(
        minute__lt=now - retention.kept(retention.RetentionKind.SAMPLES)
    ).order_by("minute")
    while time.monotonic() < until and (found := list(old.values_list("pk", flat=True)[:BATCH])):
        UsageSample.objects.filter(pk__in=found).delete()
    return hours


@transaction.atomic
def _roll_up_hour(hour: datetime) -> bool:
    """Put the mean of an hour's samples in their place; False where another process was quicker."""
    sampled = UsageSample.objects.filter(minutes=1, minute__gte=hour, minute__lt=hour + timedelta(hours=1))
    sums = sampled.order_by().values("pool_id", "team_id")
    groups = list(sums.annotate(n=Count("pk"), reserved=Sum("reserved_milli"), elastic=Sum("elastic_milli")))
    deleted, _ = sampled.delete()
    if deleted != sum(group["n"] for group in groups):
        transaction.set_rollback(True)
        return False
    means = [
        UsageSample(
            minute=hour,
            minutes=60,
            pool_id=group["pool_id"],
            team_id=group["team_id"],
            reserved_milli=round(group["reserved"] / 60),
            elastic_milli=round(group["elastic"] / 60),
        )
        for group in groups
    ]
    # An hour that was rolled up before keeps its mean: what comes late comes from a clock that went back.
    UsageSample.objects.bulk_create(means, ignore_conflicts=True)
    return True


@dataclass(slots=True)
class _Running:
    """A pool's decayed GPU-milliseconds by team as of `at`; minutes up to `at` are in it."""

    half_life: timedelta
    at: datetime
    by_team: dict[UUID, float] = field(default_factory=dict)


_running: dict[UUID, _Running] = {}
_lock = threading.Lock()


def decayed_usage(pools: Mapping[UUID, PoolPolicy], now: datetime) -> dict[tuple[str, str], int]:
    """Return decayed GPU-milliseconds by (team, pool): each minute's use times 0.5 ** (age / half life).

    The sum is kept in the process and brought forward by the minutes that are new: one query for all pools.
    """
    minute = now.replace(second=0, microsecond=0)
    with _lock:
        known = {pool: _start(pool, rules, now).at for pool, rules in pools.items()}
        fresh = UsageSample.objects.filter(pool__in=known, minute__gt=min(known.values()), minute__lte=minute)
        for sampled in fresh.order_by("minute").iterator():
            if sampled.minute > known[sampled.pool_id]:
                _add(sampled)
        return {
            (str(team), str(pool)): round(used * _decay(now - _running[pool].at, _running[pool].half_life))
            for pool in pools
            for team, used in _running[pool].by_team.items()
        }


def forget() -> None:
    """Drop the sums that this process keeps; the next reading starts from the table."""
    with _lock:
        _running.clear()


def _start(pool: UUID, rules: PoolPolicy, now: datetime) -> _Running:
    """Return the pool's running sum, a new one where there is none or the half life was changed."""
    half_life = timedelta(seconds=rules.usage_half_life_seconds)
    kept = _running.get(pool)
    if kept is None or kept.half_life != half_life or kept.at > now:
        kept = _running[pool] = _Running(half_life, now - HALF_LIVES_READ * half_life)
    return kept


def _add(sampled: UsageSample) -> None:
    kept = _running[sampled.pool_id]
    if sampled.minute > kept.at:
        factor = _decay(sampled.minute - kept.at, kept.half_life)
        kept.by_team = {team: used * factor for team, used in kept.by_team.items()}
        kept.at = sampled.minute
    used = (sampled.reserved_milli + sampled.elastic_milli) * sampled.minutes * MINUTE_MS / 1000
    kept.by_team[sampled.team_id] = kept.by_team.get(sampled.team_id, 0.0) + used


def _decay(age: timedelta, half_life: timedelta) -> float:
    return float(0.5 ** (age / half_life))
