"""Priority tiers: made, changed, retired and deleted by organisation admins, for all the organisation."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from chamber import live
from chamber.errors import Conflict, NotAllowed, Refusal, StaleVersion
from teams import audit
from teams.actions.class_values import LONGEST_TIER, TierValues, slug_problem, typed
from teams.actors import Actor
from teams.models import PriorityTier
from teams.permissions import Permission, may_anywhere
from teams.picture import lock_tree


def require_classes(by: Actor) -> None:
    """Refuse who may not change the organisation's job classes and tiers."""
    if by.user is not None and not may_anywhere(by.user, Permission.MANAGE_CLASSES):
        raise NotAllowed("Job classes and priority tiers are changed by organisation admins.")


def create_tier(*, by: Actor, slug: str, values: Mapping[str, Any]) -> PriorityTier:
    """Return a new tier; `values` are those of `TierValues`."""
    with transaction.atomic():
        lock_tree()
        require_classes(by)
        return insert_tier(by, slug, values)


def insert_tier(by: Actor, slug: str, values: Mapping[str, Any]) -> PriorityTier:
    """Return a new tier; the caller has locked the tree and asked whether the actor may."""
    if problem := slug_problem(slug, LONGEST_TIER, "tier"):
        raise Refusal(problem, field="slug")
    if PriorityTier.objects.filter(slug=slug).exists():
        raise Conflict(f"There is a tier {slug!r} already.", field="slug")
    wanted = typed(TierValues, {"name": slug.replace("-", " ").capitalize(), **values})
    _refuse_twice(wanted, None)
    tier = PriorityTier.objects.create(slug=slug, **wanted.model_dump())
    audit.record(by=by, action="tier.created", target=tier, after=said_of_tier(tier))
    live.announce("teams")
    return tier


def edit_tier(*, by: Actor, tier: PriorityTier, version: int, changes: Mapping[str, Any]) -> PriorityTier:
    """Change a tier; return it as it is then. What was submitted before keeps its priority."""
    with transaction.atomic():
        lock_tree()
        require_classes(by)
        return change_tier(by, PriorityTier.objects.get(pk=tier.pk), version, changes)


def change_tier(by: Actor, stored: PriorityTier, version: int, changes: Mapping[str, Any]) -> PriorityTier:
    """Change a tier, given as it is stored; the caller has locked the tree and asked whether the actor may."""
    wanted = review_tier(stored, version, changes)
    if wanted.model_dump() == values_of_tier(stored):
        return stored
    return _write(by, stored, "tier.edited", wanted.model_dump())


def review_tier(stored: PriorityTier, version: int, changes: Mapping[str, Any]) -> TierValues:
    """Return a tier as it would be; raise what a change would be refused with. Nothing is written."""
    if stored.version != version:
        raise StaleVersion(
            f"Somebody changed the tier {stored.name} since you read it. Look again and repeat your change."
        )
    wanted = typed(TierValues, {**values_of_tier(stored), **changes})
    _refuse_twice(wanted, stored)
    return wanted


def retire_tier(*, by: Actor, tier: PriorityTier, retired: bool) -> PriorityTier:
    """Have submissions name a tier no longer, or again. One that a class has cannot be retired."""
    with transaction.atomic():
        lock_tree()
        require_classes(by)
        stored = PriorityTier.objects.get(pk=tier.pk)
        if stored.is_retired == retired:
            return stored
        using = stored.job_classes.filter(retired_at=None).first() if retired else None
        if using is not None:
            raise Conflict(
                f"{stored.name} is the tier of the job class {using.name}; give that another one first."
            )
        act = "tier.retired" if retired else "tier.restored"
        return _write(by, stored, act, {"retired_at": timezone.now() if retired else None})


def save_tier(*, by: Actor, tier: PriorityTier, version: int, changes: Mapping[str, Any]) -> PriorityTier:
    """Change a tier and, by the key `retired`, retire it or take it back; return it as it is then. Both or none."""
    rest = {key: value for key, value in changes.items() if key != "retired"}
    with transaction.atomic():
        tier = edit_tier(by=by, tier=tier, version=version, changes=rest)
        if "retired" in changes:
            tier = retire_tier(by=by, tier=tier, retired=changes["retired"])
    return tier


def delete_tier(*, by: Actor, tier: PriorityTier) -> None:
    """Delete a tier that no class and no team names."""
    with transaction.atomic():
        lock_tree()
        require_classes(by)
        stored = PriorityTier.objects.get(pk=tier.pk)
        using = stored.job_classes.first() or stored.narrowings.select_related("job_class", "team").first()
        if using is not None:
            raise Conflict(f"{stored.name} is the tier of {using}; change that first, or retire the tier.")
        audit.record(by=by, action="tier.deleted", target=stored, before=said_of_tier(stored))
        stored.delete()
        live.announce("teams")


def values_of_tier(tier: PriorityTier) -> dict[str, Any]:
    """Return a tier's values as `TierValues` has them."""
    return {name: getattr(tier, name) for name in TierValues.model_fields}


def said_of_tier(tier: PriorityTier) -> dict[str, Any]:
    """Return what the audit trail has of a tier."""
    return {"slug": tier.slug, **values_of_tier(tier), "retired": tier.is_retired}


def _write(by: Actor, stored: PriorityTier, act: str, values: dict[str, Any]) -> PriorityTier:
    before = said_of_tier(stored)
    PriorityTier.objects.filter(pk=stored.pk).update(**values, version=F("version") + 1)
    now = PriorityTier.objects.get(pk=stored.pk)
    audit.record(by=by, action=act, target=now, before=before, after=said_of_tier(now))
    live.announce("teams")
    return now


def _refuse_twice(wanted: TierValues, stored: PriorityTier | None) -> None:
    """Refuse a number or a PriorityClass that another tier has."""
    problems = {}
    for other in PriorityTier.objects.all():
        if stored is not None and other.pk == stored.pk:
            continue
        if other.priority == wanted.priority:
            problems["priority"] = f"{other.name} has the priority {wanted.priority:,} already."
        for name in wanted.priority_classes:
            if name in other.priority_classes:
                problems["priority_classes"] = f"{other.name} has the PriorityClass {name} already."
    twice = [name for name in wanted.priority_classes if wanted.priority_classes.count(name) > 1]
    if twice:
        problems["priority_classes"] = f"The PriorityClass {twice[0]} comes twice; name it once."
    if problems:
        raise Refusal(" ".join(problems.values()), fields=problems, code="invalid")
