"""What a change of a job class or a tier would do, in sentences, before it is saved."""

from typing import Any

from chamber.words import count, plural
from teams.actions.class_values import ClassValues, TierValues
from teams.actions.job_classes import open_workloads_of, values_of_class
from teams.actions.tiers import values_of_tier
from teams.durations import duration_text
from teams.job_classes import OrganisationClasses
from teams.models import ClassNarrowing, DeviceSharing, JobClass, OnPreemption, PriorityTier, Role

MOST_TEAMS = 10
LABELS = {
    "name": "Name",
    "tier": "Priority tier",
    "time_limit_seconds": "Time limit",
    "max_retries": "Retries after a failure",
    "on_preemption": "When preempted",
    "sharing": "Parts of a GPU shared by",
    "order": "Place in lists",
    "is_default": "Default",
    "priority": "Priority",
    "least_role": "Least role",
    "priority_classes": "PriorityClasses",
}


def of_class(row: JobClass, wanted: ClassValues) -> list[str]:
    """Return what would be other: the values, whose workloads keep theirs, what teams say of it (4 queries)."""
    before, after = values_of_class(row), wanted.model_dump()
    changed = [key for key in after if before[key] != after[key]]
    if not changed:
        return ["Nothing would change."]
    told = [_change(key, before[key], after[key]) for key in changed]
    open_now = open_workloads_of(row.slug)
    if open_now:
        they = plural(open_now, "keeps what it has", "keep what they have")
        whose = f"{count(open_now, 'open workload')} of the class {they}"
        told.append(f"{whose}; submissions from now on get the new values.")
    else:
        told.append("No workload of the class is open; submissions from now on get the new values.")
    tiers = {tier.slug: tier for tier in PriorityTier.objects.all()}
    if tiers[before["tier"]].is_reserved != tiers[after["tier"]].is_reserved:
        told.append(
            "They are reserved then: each needs its team's guarantee and is never preempted."
            if tiers[after["tier"]].is_reserved
            else "They are elastic then: they may use any idle GPU and can be preempted."
        )
    return told + _of_teams(row, wanted)


def _of_teams(row: JobClass, wanted: ClassValues) -> list[str]:
    """Return whose own values stay, or count no more than the new ones."""
    narrowings = ClassNarrowing.objects.filter(job_class=row).select_related("team").order_by("team__path")
    found = list(narrowings[: MOST_TEAMS + 1])
    told = []
    for each in found[:MOST_TEAMS]:
        limit, own = wanted.time_limit_seconds, each.time_limit_seconds
        if own is not None and limit is not None and own > limit:
            told.append(
                f"{each.team.name} says a time limit of {duration_text(own)} itself; "
                f"it has {duration_text(limit)} then."
            )
        else:
            told.append(f"{each.team.name} keeps what it narrows of the class itself.")
    return told + (["More teams narrow the class."] if len(found) > MOST_TEAMS else [])


def of_tier(tier: PriorityTier, wanted: TierValues) -> list[str]:
    """Return what would be other: the values, the classes that have the tier, who may use it (3 queries)."""
    before, after = values_of_tier(tier), wanted.model_dump()
    changed = [key for key in after if before[key] != after[key]]
    if not changed:
        return ["Nothing would change."]
    told = [_change(key, before[key], after[key]) for key in changed]
    classes = [row.name for row in JobClass.objects.filter(tier=tier, retired_at=None)]
    if "priority" in changed and classes:
        told.append(
            f"Submissions of {', '.join(classes)} that say no priority have {wanted.priority:,}; "
            "workloads that were submitted keep theirs."
        )
    if "least_role" in changed:
        known = OrganisationClasses.read()
        told.append(
            f"Priorities {known.range_of(tier)} take the role {Role(wanted.least_role).label} or more on the team; "
            "workloads that were submitted keep theirs."
        )
    return told


def _change(key: str, before: Any, after: Any) -> str:
    return f"{LABELS[key]}: {_said(key, before)} \u2192 {_said(key, after)}."


def _said(key: str, value: Any) -> str:
    if key == "time_limit_seconds":
        return duration_text(value) or "none"
    if key == "sharing":
        return str(DeviceSharing(value).label)
    if key == "on_preemption":
        return str(OnPreemption(value).label)
    if key == "least_role":
        return str(Role(value).label)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) or "none" if isinstance(value, list) else str(value)
