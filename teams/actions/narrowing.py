"""What a team narrows of a job class, for itself and those below."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import F

from chamber import live
from chamber.errors import Conflict, Refusal, StaleVersion, no_such
from chamber.words import count, nearest, plural
from teams import audit
from teams.actions.class_values import NarrowingValues, typed
from teams.actors import Actor
from teams.durations import duration_text
from teams.job_classes import ClassDefaults, OrganisationClasses
from teams.models import ClassNarrowing, DeviceSharing, JobClass, PriorityTier, Team
from teams.permissions import Permission, require
from teams.picture import lock_tree


def narrow_class(
    *, by: Actor, team: Team, slug: str, version: int, values: Mapping[str, Any]
) -> ClassNarrowing | None:
    """Replace what a team says of a class, by `NarrowingValues`; return it, None where it says nothing any more.

    `version` is that of what it said, 0 where that was nothing. Refused where a value is wider than what the team has
    from above. It holds for what is submitted from now on.
    """
    with transaction.atomic():
        lock_tree()
        team = Team.objects.select_related("parent").get(pk=team.pk)
        require(by, Permission.NARROW_CLASSES, team)
        if team.parent_id is None:
            raise Refusal(
                f"{team.name} is the organisation: its own defaults are set on the page Job classes, by organisation "
                "admins."
            )
        if team.is_archived:
            raise Conflict(f"{team.name} is archived. Restore it before you change it.")
        known = OrganisationClasses.read([team])
        above = known.above(team, slug)
        if above is None:
            raise no_such("job class", slug, known=known.classes)
        wanted = typed(NarrowingValues, values)
        tier = _tier(known, wanted.tier)
        _refuse_wider(team, above, wanted, tier)
        return _replace(
            by, team, slug, version, {**wanted.model_dump(), "tier": tier, "sharing": wanted.sharing or ""}
        )


def _tier(known: OrganisationClasses, slug: str | None) -> PriorityTier | None:
    if slug is None:
        return None
    if slug not in known.named:
        there = f" There are: {', '.join(known.named)}."
        raise Refusal(f"There is no tier {slug!r}.{nearest(slug, known.named) or there}", field="tier")
    return known.named[slug]


def _refuse_wider(
    team: Team, above: ClassDefaults, wanted: NarrowingValues, tier: PriorityTier | None
) -> None:
    """Refuse each value that is wider than what holds above."""
    has = f"which {team.name} has from above for {above.name}"
    problems = {}
    if tier is not None and tier.priority > above.tier.priority:
        problems["tier"] = (
            f"{tier.name} ({tier.priority:,}) is higher than {above.tier.name} ({above.tier.priority:,}), {has}."
        )
    limit, longest = wanted.time_limit_seconds, above.time_limit_seconds
    if limit is not None and longest is not None and limit > longest:
        problems["time_limit_seconds"] = (
            f"{duration_text(limit)} is longer than {duration_text(longest)}, {has}."
        )
    if wanted.max_retries is not None and wanted.max_retries > above.max_retries:
        problems["max_retries"] = (
            f"{count(wanted.max_retries, 'retry', 'retries')} {plural(wanted.max_retries, 'is')} more than "
            f"{above.max_retries}, {has}."
        )
    if wanted.sharing is not None and wanted.sharing.strictness < above.sharing.strictness:
        problems["sharing"] = (
            f"{DeviceSharing(wanted.sharing).label!r} lets more share a GPU than {above.sharing.label!r}, {has}."
        )
    if problems:
        raise Refusal(" ".join(problems.values()), fields=problems, code="wider-than-allowed")


def _replace(by: Actor, team: Team, slug: str, version: int, values: dict[str, Any]) -> ClassNarrowing | None:
    rows = ClassNarrowing.objects.filter(team=team, job_class__slug=slug)
    stored = rows.select_related("tier", "job_class", "team").first()
    if version != (stored.version if stored else 0):
        raise StaleVersion(
            f"Somebody changed what {team.name} says of the class {slug} since you read it. "
            "Look again and repeat your change."
        )
    before = stored.said() if stored else {}
    about = stored or ClassNarrowing(team=team, job_class=JobClass.objects.get(slug=slug))
    if not any(value not in (None, "") for value in values.values()):
        now = None
        rows.delete()
    elif stored is None:
        about = now = ClassNarrowing.objects.create(team=team, job_class=about.job_class, **values)
    else:
        rows.update(**values, version=F("version") + 1)
        about = now = rows.select_related("tier", "job_class", "team").get()
    after = now.said() if now else {}
    if before != after:
        audit.record(by=by, action="team.class-narrowed", target=about, team=team, before=before, after=after)
        live.announce("teams")
    return now
