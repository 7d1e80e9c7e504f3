"""Job classes: made, changed, retired and deleted by organisation admins, for all the organisation."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import F, Model
from django.utils import timezone

from chamber import live
from chamber.errors import Conflict, Refusal, StaleVersion
from chamber.words import count, nearest
from teams import audit
from teams.actions.class_values import LONGEST_CLASS, ClassValues, slug_problem, typed
from teams.actions.tiers import require_classes
from teams.actors import Actor
from teams.models import JobClass, PriorityTier, Team
from teams.picture import lock_tree


def create_class(*, by: Actor, slug: str, values: Mapping[str, Any]) -> JobClass:
    """Return a new class; `values` are those of `ClassValues`."""
    with transaction.atomic():
        lock_tree()
        require_classes(by)
        return insert_class(by, slug, values)


def insert_class(by: Actor, slug: str, values: Mapping[str, Any]) -> JobClass:
    """Return a new class; the caller has locked the tree and asked whether the actor may."""
    if problem := slug_problem(slug, LONGEST_CLASS, "job class"):
        raise Refusal(problem, field="slug")
    if JobClass.objects.filter(slug=slug).exists():
        raise Conflict(f"There is a job class {slug!r} already.", field="slug")
    wanted = typed(ClassValues, {"name": slug.replace("-", " ").capitalize(), **values})
    tier = _tier(wanted.tier)
    _take_default(by, wanted, None)
    row = JobClass.objects.create(slug=slug, **{**wanted.model_dump(), "tier": tier})
    audit.record(by=by, action="job-class.created", target=row, after=said_of_class(row))
    live.announce("teams")
    return row


def edit_class(*, by: Actor, job_class: JobClass, version: int, changes: Mapping[str, Any]) -> JobClass:
    """Change a class; return it as it is then. It holds for what is submitted from now on."""
    with transaction.atomic():
        lock_tree()
        require_classes(by)
        return change_class(by, _stored(job_class), version, changes)


def change_class(by: Actor, stored: JobClass, version: int, changes: Mapping[str, Any]) -> JobClass:
    """Change a class, given as it is stored; the caller has locked the tree and asked whether the actor may."""
    wanted = review_class(stored, version, changes)
    if wanted.model_dump() == values_of_class(stored):
        return stored
    _take_default(by, wanted, stored)
    return _write(by, stored, "job-class.edited", {**wanted.model_dump(), "tier": _tier(wanted.tier)})


def review_class(stored: JobClass, version: int, changes: Mapping[str, Any]) -> ClassValues:
    """Return a class as it would be; raise what a change would be refused with. Nothing is written."""
    if stored.version != version:
        raise StaleVersion(
            f"Somebody changed the job class {stored.name} since you read it. Look again and repeat your change."
        )
    wanted = typed(ClassValues, {**values_of_class(stored), **changes})
    if wanted.tier != stored.tier.slug:
        _tier(wanted.tier)
    if stored.is_default and not wanted.is_default:
        raise Conflict(
            f"{stored.name} is the class of submissions that name none: make another one that, and this one is no "
            "longer.",
            field="is_default",
        )
    if wanted.is_default and stored.is_retired:
        raise Conflict(f"{stored.name} is retired: restore it before it is the default.", field="is_default")
    return wanted


def retire_class(*, by: Actor, job_class: JobClass, retired: bool) -> JobClass:
    """Have submissions name a class no longer, or again; what is of it stays so."""
    with transaction.atomic():
        lock_tree()
        require_classes(by)
        stored = _stored(job_class)
        if stored.is_retired == retired:
            return stored
        _refuse_default(stored, "retired")
        if not retired and stored.tier.is_retired:
            raise Conflict(f"Its tier {stored.tier.name} is retired; restore that first.")
        act = "job-class.retired" if retired else "job-class.restored"
        return _write(by, stored, act, {"retired_at": timezone.now() if retired else None})


def save_class(*, by: Actor, job_class: JobClass, version: int, changes: Mapping[str, Any]) -> JobClass:
    """Change a class and, by the key `retired`, retire it or take it back; return it as it is then. Both or none."""
    rest = {key: value for key, value in changes.items() if key != "retired"}
    with transaction.atomic():
        job_class = edit_class(by=by, job_class=job_class, version=version, changes=rest)
        if "retired" in changes:
            job_class = retire_class(by=by, job_class=job_class, retired=changes["retired"])
    return job_class


def delete_class(*, by: Actor, job_class: JobClass) -> None:
    """Delete a class of which no workload is or was."""
    with transaction.atomic():
        lock_tree()
        require_classes(by)
        stored = _stored(job_class)
        _refuse_default(stored, "deleted")
        used = _workloads().filter(job_class=stored.slug).order_by().count()
        if used:
            raise Conflict(
                f"{count(used, 'workload')} {'is or was' if used == 1 else 'are or were'} of the class {stored.name}: "
                "retire it instead; no submission names it then."
            )
        audit.record(by=by, action="job-class.deleted", target=stored, before=said_of_class(stored))
        stored.delete()
        live.announce("teams")


def values_of_class(row: JobClass) -> dict[str, Any]:
    """Return a class's values as `ClassValues` has them. Its tier must be loaded."""
    return {name: getattr(row, name) for name in ClassValues.model_fields} | {"tier": row.tier.slug}


def said_of_class(row: JobClass) -> dict[str, Any]:
    """Return what the audit trail has of a class."""
    return {"slug": row.slug, **values_of_class(row), "retired": row.is_retired}


def open_workloads_of(slug: str) -> int:
    """Return how many workloads of a class have not ended (1 query)."""
    return int(_workloads().filter(job_class=slug, finished_at=None).order_by().count())


def _workloads() -> Any:
    """Return all workloads; their app lies above this one."""
    related = Team._meta.get_field("workloads").related_model
    assert isinstance(related, type)  # noqa: S101 - the relation has a model
    assert issubclass(related, Model)  # noqa: S101
    return related._default_manager.all()


def _stored(job_class: JobClass) -> JobClass:
    return JobClass.objects.select_related("tier").get(pk=job_class.pk)


def _tier(slug: str) -> PriorityTier:
    """Return the tier that a class is to have."""
    tiers = {tier.slug: tier for tier in PriorityTier.objects.filter(retired_at=None)}
    if slug not in tiers:
        known = f" There are: {', '.join(tiers)}."
        raise Refusal(f"There is no tier {slug!r}.{nearest(slug, tiers) or known}", field="tier")
    return tiers[slug]


def _take_default(by: Actor, wanted: ClassValues, stored: JobClass | None) -> None:
    """Make room for the one default."""
    if not wanted.is_default or (stored is not None and stored.is_default):
        return
    for other in JobClass.objects.select_related("tier").filter(is_default=True):
        _write(by, other, "job-class.edited", {"is_default": False})


def _refuse_default(stored: JobClass, verb: str) -> None:
    if stored.is_default:
        raise Conflict(
            f"{stored.name} is the class of submissions that name none and cannot be {verb}: make another class the "
            "default first."
        )


def _write(by: Actor, stored: JobClass, act: str, values: dict[str, Any]) -> JobClass:
    before = said_of_class(stored)
    JobClass.objects.filter(pk=stored.pk).update(**values, version=F("version") + 1)
    now = _stored(stored)
    audit.record(by=by, action=act, target=now, before=before, after=said_of_class(now))
    live.announce("teams")
    return now
