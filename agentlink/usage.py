"""Taking in what workloads make of their GPUs, and keeping it: each minute for a day, each hour for as long as history.

Figures may come twice, late or never: a minute that has its sample keeps it, and only a later figure than the last
says which GPUs stand idle. Those are GPUs that an attempt holds and that were hardly used (`CHAMBER_IDLE_PERCENT`) in
every figure of the last while (`CHAMBER_IDLE_MINUTES`); where figures are missing for too long, it begins anew.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Avg, Count, QuerySet

from agentlink.models import Assignment, Cluster, GpuUse, GpuUseSample
from agentlink.models.node import WHOLE_DEVICE_MILLI
from agentlink.protocol import Error, ErrorCode, UsageFigure, UsageReport
from chamber import live
from teams import retention
from workloads.querysets import FIGURES_HOLD

SAMPLES_KEPT = timedelta(days=1)
"""How long each minute has a row of its own; what comes later than that is not taken."""
ROLLS_UP_FOR_SECONDS = 30.0
ATTEMPTS_AT_ONCE = 500
"""Whose hour is rolled up in one transaction."""
BATCH = 5000

_MEASURED = ("gpus", "busy_percent", "tensor_percent", "memory_mib", "power_watts")


@dataclass(frozen=True, slots=True)
class _Holder:
    """The attempt of a workload that is open in the cluster."""

    attempt_id: UUID
    workload_id: UUID
    gpus_milli: int
    queued_at: datetime


def take(cluster: Cluster, message: UsageReport, *, now: datetime) -> list[Error]:
    """Take in figures of a cluster; return what was wrong with them (5 queries, however many there are).

    A workload that this cluster never had is refused. One that is over is not: its last figure may come after it.
    """
    known, holders = _holders(cluster, {figure.workload for figure in message.figures})
    taken: list[tuple[_Holder, datetime, UsageFigure]] = []
    for figure in message.figures:
        holder, at = holders.get(figure.workload), min(figure.at, now)
        if holder is not None and at >= max(holder.queued_at, now - SAMPLES_KEPT):
            taken.append((holder, at, figure))
    taken.sort(key=lambda entry: (entry[0].attempt_id, entry[1]))
    if taken:
        _store(taken)
    foreign = sorted({str(figure.workload) for figure in message.figures} - {str(key) for key in known})
    return [_not_ours(foreign)] if foreign else []


def _holders(cluster: Cluster, workloads: set[UUID]) -> tuple[set[UUID], dict[UUID, _Holder]]:
    """Return which of the workloads this cluster ever had, and the open attempts of those that have one here."""
    rows = Assignment.objects.filter(cluster=cluster.pk, attempt__workload__in=workloads).values_list(
        "attempt",
        "attempt__workload",
        "attempt__gpus_milli",
        "attempt__queued_at",
        "attempt__ended_at",
    )
    known: set[UUID] = set()
    holders: dict[UUID, _Holder] = {}
    for attempt, workload, gpus_milli, queued_at, ended_at in rows:
        known.add(workload)
        if ended_at is None:
            holders[workload] = _Holder(attempt, workload, gpus_milli, queued_at)
    return known, holders


def _not_ours(workloads: list[str]) -> Error:
    others = f" and {len(workloads) - 1} more" if len(workloads) > 1 else ""
    return Error(
        code=ErrorCode.UNKNOWN_ATTEMPT,
        message=f"Figures of workloads that were never assigned here: {workloads[0]}{others}.",
        about="usage",
    )


@transaction.atomic
def _store(taken: list[tuple[_Holder, datetime, UsageFigure]]) -> None:
    """Add the samples that are new, and bring up to date how it is now; figures in the order of attempt and time."""
    samples = [
        GpuUseSample(
            attempt_id=holder.attempt_id, minute=at.replace(second=0, microsecond=0), **_measured(figure)
        )
        for holder, at, figure in taken
    ]
    GpuUseSample.objects.bulk_create(samples, ignore_conflicts=True)
    before = GpuUse.objects.in_bulk({holder.attempt_id for holder, _, _ in taken})
    after: dict[UUID, GpuUse] = {}
    topics: set[str] = set()
    for holder, at, figure in taken:
        last = after.get(holder.attempt_id) or before.get(holder.attempt_id)
        if last is not None and last.at >= at:
            continue
        after[holder.attempt_id] = use = _now(holder, at, figure, last)
        if use.idle_milli != (last.idle_milli if last else 0):
            topics |= {"overview", "workloads", f"workload:{holder.workload_id}"}
    GpuUse.objects.bulk_create(
        after.values(),
        update_conflicts=True,
        unique_fields=["attempt"],
        update_fields=["at", *_MEASURED, "quiet", "idle_milli", "idle_since"],
    )
    if topics:
        live.announce(*topics)


def _measured(figure: UsageFigure) -> dict[str, int | None]:
    return {
        "gpus": len(figure.devices),
        "busy_percent": figure.utilisation_percent,
        "tensor_percent": figure.tensor_percent,
        "memory_mib": figure.memory_mib,
        "power_watts": figure.power_watts,
    }


def _now(holder: _Holder, at: datetime, figure: UsageFigure, last: GpuUse | None) -> GpuUse:
    """Return how it is by this figure, which is later than the last."""
    known = last.quiet if last is not None and at - last.at <= FIGURES_HOLD else {}
    quiet = _quiet(known, at, figure.devices)
    long_ago = at.timestamp() - 60 * settings.CHAMBER_IDLE_MINUTES
    idle = [since for since in quiet.values() if since <= long_ago]
    # Devices that are shared count with what the attempt has of them; where some were not measured, as whole ones.
    each_milli = min(WHOLE_DEVICE_MILLI, holder.gpus_milli // max(1, len(figure.devices)))
    idle_milli = min(len(idle) * each_milli, holder.gpus_milli)
    return GpuUse(
        attempt_id=holder.attempt_id,
        at=at,
        **_measured(figure),
        quiet=quiet,
        idle_milli=idle_milli,
        idle_since=datetime.fromtimestamp(min(idle), UTC) if idle_milli else None,
    )


def _quiet(known: Mapping[str, int], at: datetime, devices: Mapping[str, int]) -> dict[str, int]:
    """Return the devices that are hardly used, each with the second from which on."""
    return {
        device: known.get(device, int(at.timestamp()))
        for device, percent in devices.items()
        if percent < settings.CHAMBER_IDLE_PERCENT
    }


def roll_up(now: datetime) -> int:
    """Make one row of each attempt's samples of an hour that are older than a day, and delete what is older than
    history is kept, and what says nothing of now; return how many rows were made. In short transactions, for half a
    minute at most; what is left comes with the next time.
    """
    until = time.monotonic() + ROLLS_UP_FOR_SECONDS
    recent = (now - SAMPLES_KEPT).replace(minute=0, second=0, microsecond=0)
    each = GpuUseSample.objects.filter(minutes=1, minute__lt=recent).order_by("minute")
    made = 0
    while time.monotonic() < until and (oldest := each.values_list("minute", flat=True).first()):
        made += _roll_up_hour(oldest.replace(minute=0))
    kept_from = now - retention.kept(retention.RetentionKind.SAMPLES)
    _delete(GpuUseSample.objects.filter(minute__lt=kept_from), until)
    _delete(GpuUse.objects.filter(at__lt=now - SAMPLES_KEPT), until)
    return made


def _delete(old: QuerySet[Any], until: float) -> None:
    """Delete rows in batches, until that time of the monotonic clock."""
    while time.monotonic() < until and (
        found := list(old.order_by("pk").values_list("pk", flat=True)[:BATCH])
    ):
        old.filter(pk__in=found).delete()


@transaction.atomic
def _roll_up_hour(hour: datetime) -> int:
    """Put the means of an hour in the place of its samples, for some of the attempts; return for how many, 0 where
    somebody else was quicker.
    """
    sampled = GpuUseSample.objects.filter(minutes=1, minute__gte=hour, minute__lt=hour + timedelta(hours=1))
    some = sampled.order_by("attempt").values_list("attempt", flat=True).distinct()[:ATTEMPTS_AT_ONCE]
    sampled = sampled.filter(attempt__in=list(some))
    averages = {name: Avg(name) for name in _MEASURED}
    grouped: Iterable[Any] = sampled.order_by().values("attempt").annotate(n=Count("pk"), **averages)
    groups = list(grouped)
    deleted, _ = sampled.delete()
    if deleted != sum(group["n"] for group in groups):
        transaction.set_rollback(True)
        return 0
    means = [
        GpuUseSample(
            attempt_id=group["attempt"],
            minute=hour,
            minutes=60,
            **_whole(group),
        )
        for group in groups
    ]
    # An hour that was rolled up before keeps its mean: what comes late comes from a clock that went back.
    GpuUseSample.objects.bulk_create(means, ignore_conflicts=True)
    return len(means)


def _whole(means: Mapping[str, float | None]) -> dict[str, int | None]:
    return {name: None if (mean := means[name]) is None else int(mean) for name in _MEASURED}
