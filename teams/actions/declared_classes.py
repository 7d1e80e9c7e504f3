"""Job classes and tiers as a file declares them: made where they are new, else changed."""

from collections.abc import Mapping
from typing import Any

from chamber.errors import Refusal, StaleVersion, refusal_of
from teams.actions.class_values import (
    LONGEST_CLASS,
    LONGEST_TIER,
    ClassValues,
    TierValues,
    slug_problem,
    typed,
)
from teams.actions.job_classes import create_class, retire_class, save_class
from teams.actions.tiers import create_tier, retire_tier, save_tier
from teams.actors import Actor
from teams.models import JobClass, PriorityTier

TIERS, CLASSES = "tiers", "job_classes"
"""What a file calls them."""
_NEEDED = {TIERS: "priority", CLASSES: "tier"}


def declare_class(*, by: Actor, kind: str, slug: str, version: int, values: Mapping[str, Any]) -> None:
    """Make or change the tier or class of this name; `version` is that which was read, 0 for a new one."""
    retired = bool(values.get("retired"))
    rest = {key: value for key, value in values.items() if key != "retired"}
    tier = PriorityTier.objects.filter(slug=slug).first() if kind == TIERS else None
    row = JobClass.objects.filter(slug=slug).first() if kind == CLASSES else None
    found = tier or row
    if found is not None and version == 0:
        raise StaleVersion(f"Somebody made {slug} since you looked. Look again and repeat your change.")
    if tier is not None:
        save_tier(by=by, tier=tier, version=version, changes=values)
    elif row is not None:
        save_class(by=by, job_class=row, version=version, changes=values)
    elif version:
        raise StaleVersion(f"Somebody deleted {slug} since you read it. Look again and repeat your change.")
    else:
        _make(by, kind, slug, rest, retired=retired)


def _make(by: Actor, kind: str, slug: str, values: Mapping[str, Any], *, retired: bool) -> None:
    if _NEEDED[kind] not in values:
        raise Refusal(f"{_NEEDED[kind]} is missing: {slug} is new.", field=_NEEDED[kind])
    if kind == TIERS:
        tier = create_tier(by=by, slug=slug, values=values)
        if retired:
            retire_tier(by=by, tier=tier, retired=True)
        return
    row = create_class(by=by, slug=slug, values=values)
    if retired:
        retire_class(by=by, job_class=row, retired=True)


def require_class_values(kind: str, slug: str, values: Mapping[str, Any]) -> None:
    """Refuse values that can be in no tier or class, whoever asks."""
    rest = {key: value for key, value in values.items() if key != "retired"}
    longest, noun = (LONGEST_TIER, "tier") if kind == TIERS else (LONGEST_CLASS, "job class")
    if problem := slug_problem(slug, longest, noun):
        raise refusal_of({"slug": problem})
    if kind == TIERS:
        typed(TierValues, {"name": slug, "priority": 0, **rest})
    else:
        typed(ClassValues, {"name": slug, "tier": "", **rest})
