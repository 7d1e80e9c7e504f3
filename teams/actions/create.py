"""New teams, and the organisation itself."""

from collections.abc import Container
from typing import Any

from django.db import transaction
from django.utils.text import slugify

from chamber import live
from chamber.errors import Conflict, NotAllowed, Refusal, refusal_of
from chamber.ids import new_id
from chamber.words import as_name, unfit_for_name
from teams import audit
from teams.actors import Actor
from teams.models import Binding, Role, Team
from teams.permissions import Permission, require
from teams.picture import lock_tree
from teams.sight import TOPIC
from teams.usual_classes import make_usual_classes
from teams.values import MAX_DEPTH, MAX_SLUG, TeamChanges, slug_problem, team_problems


def create_organisation(*, by: Actor, name: str) -> Team:
    """Return the new root of the tree, with the usual job classes and priority tiers; a person who makes it becomes its
    organisation admin.

    Only Chamber itself and superusers may: nobody has a role before there is a tree.
    """
    if by.user is not None and not by.user.is_superuser:
        raise NotAllowed("Only a superuser sets up the organisation.")
    with transaction.atomic():
        if root := Team.objects.filter(depth=0).first():
            raise Conflict(f"There is an organisation already: {root.name}.")
        team = _insert(by, None, TeamChanges(name=name))
        make_usual_classes()
        if by.user is not None:
            Binding.objects.create(team=team, user=by.user, role=Role.ORG_ADMIN)
            by.user.__dict__.pop("_chamber_roles", None)
    return team


def create_team(
    *,
    by: Actor,
    parent: Team,
    name: str,
    slug: str = "",
    bursting_priority: int = 1,
    burst_limit_percent: int | None = None,
    maximum_milli: int | None = None,
) -> Team:
    """Return a new team below `parent`; without a slug it gets a free one made of its name."""
    values = TeamChanges(
        name=name,
        bursting_priority=bursting_priority,
        burst_limit_percent=burst_limit_percent,
        maximum_milli=maximum_milli,
    )
    if slug:
        values["slug"] = slug
    with transaction.atomic():
        lock_tree()
        return insert_below(by, Team.objects.get(pk=parent.pk), values)


def insert_below(
    by: Actor, parent: Team, values: TeamChanges, *, taken: Container[str] | None = None
) -> Team:
    """Return a new team below `parent`, as it is stored, with the tree locked by the caller.

    `taken` are those of the slugs asked for that other teams have; without it they are looked up.
    """
    require(by, Permission.MANAGE_TEAM, parent)
    if parent.is_archived:
        raise Conflict(f"{parent.name} is archived and takes no new teams.")
    if parent.depth + 1 >= MAX_DEPTH:
        raise Refusal(
            f"A tree has at most {MAX_DEPTH} levels, and {parent.name} is on the last.", field="parent"
        )
    return _insert(by, parent, values, taken)


def _insert(by: Actor, parent: Team | None, values: TeamChanges, taken: Container[str] | None = None) -> Team:
    values["name"] = as_name(values["name"])
    problems = team_problems(values)
    if unfit := unfit_for_name(values["name"]):
        problems.setdefault("name", unfit)
    slug = values.pop("slug", "")
    if slug and (Team.objects.filter(slug=slug).exists() if taken is None else slug in taken):
        problems.setdefault("slug", f"The short name {slug!r} is taken by another team.")
    if problems:
        raise refusal_of(problems)
    team_id = new_id()
    team = Team.objects.create(
        id=team_id,
        slug=slug or free_slug(values["name"], parent),
        parent=parent,
        path=Team.path_under(parent, team_id),
        depth=parent.depth + 1 if parent else 0,
        **values,
    )
    audit.record(by=by, action="team.created", target=team, after=_described(team))
    live.announce("teams", "pools", TOPIC)
    live.ring()
    return team


def _described(team: Team) -> dict[str, Any]:
    return {
        "name": team.name,
        "slug": team.slug,
        "parent": team.parent.slug if team.parent else None,
        "bursting_priority": team.bursting_priority,
        "burst_limit_percent": team.burst_limit_percent,
        "maximum_milli": team.maximum_milli,
    }


def free_slug(name: str, parent: Team | None) -> str:
    """Return a slug made of the name that no team has: `nlp`, then `research-nlp`, then `nlp-2` and on."""
    stem = slugify(name)[: MAX_SLUG - 5].replace("_", "-").strip("-") or "team"
    stem = "-".join(part for part in stem.split("-") if part) or "team"
    wanted = [stem, f"{parent.slug}-{stem}" if parent else stem]
    wanted += [f"{stem}-{number}" for number in range(2, 200)]
    wanted = [slug for slug in wanted if slug_problem(slug) is None]
    taken = set(Team.objects.filter(slug__in=wanted).values_list("slug", flat=True))
    return next((slug for slug in wanted if slug not in taken), f"{stem}-{new_id().hex[-4:]}")
