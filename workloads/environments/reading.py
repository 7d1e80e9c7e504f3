"""Reading environments: which somebody may see, and what is shown of each."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import Count, F, QuerySet

from chamber.errors import MOST_COMPARED, NotVisible, no_such
from teams.models import Team
from teams.permissions import Permission, may
from workloads.models import Environment, EnvironmentVersion, Workload
from workloads.models.workload import OPEN

if TYPE_CHECKING:
    from chamber.models import User

MOST_NAMED = 10
"""Workloads that are shown of those that run in an environment."""


def environments_for(reader: "User") -> QuerySet[Environment]:
    """Return those that the reader may see, with their teams, by name."""
    return Environment.objects.visible_to(reader).select_related("team").order_by("name", "id")


def environment_for(reader: "User", name: str, team: Team) -> Environment:
    """Return the team's environment of this name; raise `NotVisible` where the reader sees none."""
    rows = environments_for(reader).filter(team=team)
    found = rows.filter(name=name.replace("\x00", "")).first()
    if found is None:
        known = list(rows.values_list("name", flat=True)[:MOST_COMPARED])
        raise no_such(f"environment of {team.name}", name, known=known)
    return found


def team_for(reader: "User", slug: str) -> Team:
    """Return the team of this slug as far as the reader sees its environments: also one above their own."""
    found = Team.objects.filter(slug=slug, environments__in=Environment.objects.visible_to(reader)).first()
    found = found or Team.objects.visible_to(reader).filter(slug=slug).first()
    if found is None:
        raise NotVisible(f"There is no team {slug[:80]!r} whose environments you may see.")
    return found


def may_change(reader: "User", team: Team) -> bool:
    """Return whether somebody makes, archives and deletes the team's."""
    return may(reader, Permission.MANAGE_CATALOGUE, team)


@dataclass(frozen=True, slots=True)
class ShownEnvironment:
    """An environment with its newest version, and how many open workloads run in it; the newest that a reader sees."""

    row: Environment
    newest: EnvironmentVersion
    open_workloads: int
    named_by: tuple[str, ...] = ()


def shown(rows: Iterable[Environment]) -> list[ShownEnvironment]:
    """Return environments with what is told of them in a list (two queries, however many)."""
    found = list(rows)
    ids = [row.pk for row in found]
    newest = EnvironmentVersion.objects.filter(environment__in=ids, number=F("environment__newest"))
    by_environment = {each.environment_id: each for each in newest.select_related("pull_credential__team")}
    counts = Counter[UUID]()
    running = Workload.objects.filter(environment_version__environment__in=ids, status__in=OPEN).order_by()
    for pk, number in running.values_list("environment_version__environment").annotate(Count("pk")):
        counts[pk] = number
    return [ShownEnvironment(row, by_environment[row.pk], counts[row.pk]) for row in found]


def shown_one(row: Environment, reader: "User") -> ShownEnvironment:
    """Return one environment with what is told of it (three queries)."""
    [found] = shown([row])
    seen = Workload.objects.visible_to(reader).open().filter(environment_version__environment=row.pk)
    names = tuple(seen.order_by("-submitted_at").values_list("slug", flat=True)[:MOST_NAMED])
    return ShownEnvironment(found.row, found.newest, found.open_workloads, names)


def versions_of(row: Environment) -> QuerySet[EnvironmentVersion]:
    """Return all versions, the newest first."""
    return row.versions.select_related("made_by", "pull_credential__team").order_by("-number")
