"""Workloads for tests, made directly or led through their lives by the lifecycle itself."""

import itertools
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from chamber.models import User
from teams.actors import Actor
from teams.models import Pool, Team
from workloads import lifecycle
from workloads.models import Attempt, Event, EventKind, Workload, WorkloadArray

SCHEDULER = Actor.system("scheduler")
_numbers = itertools.count(1)
STATES = ("pending", "held", "failed")


def make_workload(team: Team, owner: User, **fields: Any) -> Workload:
    """Return a Pending workload of one pod and one GPU, with its first event, past submission."""
    name = fields.pop("name", "") or f"work-{next(_numbers)}"
    now = fields.pop("submitted_at", None) or timezone.now()
    if "gpu_memory_mib" not in fields:
        fields.setdefault("gpu_milli", 1000)
    fields.setdefault("min_pods", fields.get("pods", 1))
    workload = Workload.objects.create(
        slug=fields.pop("slug", None) or f"{name}-{next(_numbers)}",
        name=name,
        team=team,
        owner=owner,
        image=fields.pop("image", "registry.example/train:1"),
        submitted_at=now,
        status_since=now,
        last_event=1,
        **fields,
    )
    Event.objects.create(
        workload=workload,
        sequence=1,
        at=now,
        kind=EventKind.SUBMITTED,
        user=owner,
        actor=owner.username,
        via="page",
        message="Submitted.",
    )
    return workload


def make_array(team: Team, owner: User, *, slug: str = "", statuses: Sequence[str] = STATES) -> WorkloadArray:
    """Return an array with a member for each of `statuses`; `held` is a Pending one that is held."""
    slug, now = slug or f"sweep-{next(_numbers)}", timezone.now()
    array = WorkloadArray.objects.create(
        slug=slug,
        name="sweep",
        team=team,
        owner=owner,
        size=len(statuses),
        submitted_at=now,
        asked={"range": "0-2"},
    )
    for index, status in enumerate(statuses):
        ended = status not in {"held", "pending"}
        make_workload(
            team,
            owner,
            name="sweep",
            slug=f"{slug}-{index}",
            array=array,
            array_index=index,
            folded=True if index else None,
            submitted_at=now,
            held=status == "held",
            status="pending" if status == "held" else status,
            finished_at=now if ended else None,
            reason_code=status if ended or status == "held" else "",
        )
    return array


def admit(
    workload: Workload,
    pool: Pool,
    *,
    at: datetime | None = None,
    allocation: list[dict[str, Any]] | None = None,
    gpus_milli: int | None = None,
) -> Attempt:
    """Make a Pending workload Queued in `pool`, charged to its own team unless told otherwise; refresh its
    object.
    """
    milli = gpus_milli or workload.pods * (workload.gpu_milli or 1000)
    order = lifecycle.PlannedStart(
        workload_id=workload.pk,
        version=workload.version,
        pool_id=pool.pk,
        allocation=allocation or [{"team": str(workload.team_id), "milli": milli}],
        gpus_milli=milli,
        message=f"Got {milli / 1000:g} GPUs of {pool.name}.",
    )
    with transaction.atomic():
        opened = lifecycle.admit_many([order], by=SCHEDULER, at=at or timezone.now())
    workload.refresh_from_db()
    return Attempt.objects.get(pk=opened[workload.pk].pk)


def start(workload: Workload, pool: Pool, *, at: datetime | None = None, **fields: Any) -> Attempt:
    """Make a Pending workload Running in `pool`; refresh its object."""
    attempt = admit(workload, pool, at=at, **fields)
    with transaction.atomic():
        lifecycle.pods_running(attempt.pk, at or timezone.now())
    workload.refresh_from_db()
    attempt.refresh_from_db()
    return attempt


def finish(attempt: Attempt, *, exit_code: int | None = 0, at: datetime | None = None, **fields: Any) -> bool:
    """Report the end of an attempt."""
    with transaction.atomic():
        return lifecycle.finished(attempt.pk, at=at or timezone.now(), exit_code=exit_code, **fields)


def preempt(
    victim: Workload, *, by_workload: Workload | None = None, rule: str = "reclaim", level: str = ""
) -> set[UUID]:
    """Preempt an admitted workload; refresh its object."""
    order = lifecycle.PreemptionOrder(
        workload_id=victim.pk,
        version=victim.version,
        message="Its GPUs were reclaimed.",
        by_workload_id=by_workload.pk if by_workload else None,
        rule=rule,
        level=level,
    )
    with transaction.atomic():
        done = lifecycle.preempt_many([order], by=SCHEDULER, at=timezone.now())
    victim.refresh_from_db()
    return done
