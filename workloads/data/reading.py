"""Reading data sources: which somebody may see, and what is shown of each."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Count, QuerySet

from chamber.errors import MOST_COMPARED, NotVisible, no_such
from teams.models import Team
from teams.permissions import Permission, may
from workloads.models import DataSource, MountedSource
from workloads.models.workload import OPEN

if TYPE_CHECKING:
    from chamber.models import User


def sources_for(reader: "User") -> QuerySet[DataSource]:
    """Return those that the reader may see, with their teams, by name."""
    return DataSource.objects.visible_to(reader).select_related("team").order_by("name", "id")


def team_for(reader: "User", slug: str) -> Team:
    """Return the team of this slug as far as the reader sees its data sources: also one above their own."""
    found = Team.objects.filter(slug=slug, data_sources__in=DataSource.objects.visible_to(reader)).first()
    found = found or Team.objects.visible_to(reader).filter(slug=slug).first()
    if found is None:
        raise NotVisible(f"There is no team {slug[:80]!r} whose data sources you may see.")
    return found


def source_for(reader: "User", name: str, slug: str) -> DataSource:
    """Return the team's data source of this name; raise `NotVisible` where the reader sees none."""
    team = team_for(reader, slug)
    rows = sources_for(reader).filter(team=team)
    found = rows.filter(name=name.replace("\x00", "")).first()
    if found is None:
        known = list(rows.values_list("name", flat=True)[:MOST_COMPARED])
        raise no_such(f"data source of {team.name}", name, known=known)
    return found


def may_change(reader: "User", team: Team) -> bool:
    """Return whether somebody makes, changes and deletes the team's."""
    return may(reader, Permission.MANAGE_CATALOGUE, team)


@dataclass(frozen=True, slots=True)
class ShownSource:
    """A data source with how many open workloads mount it, and where clusters have it.

    `locations` are rows of the room above this one: of each `cluster`, `namespace` and `claim`.
    """

    row: DataSource
    open_workloads: int
    locations: tuple[Any, ...]

    @property
    def clusters(self) -> list[str]:
        """The names of the clusters that have it."""
        return list(dict.fromkeys(each.cluster.name for each in self.locations))


def shown(rows: Iterable[DataSource], reader: "User") -> list[ShownSource]:
    """Return data sources with what is told of them, as far as the reader may see it (two queries, however many)."""
    found = list(rows)
    ids = [row.pk for row in found]
    counts = Counter[UUID]()
    mounting = MountedSource.objects.filter(source__in=ids, workload__status__in=OPEN).order_by()
    for pk, number in mounting.values_list("source").annotate(Count("workload", distinct=True)):
        counts[pk] = number
    places: dict[UUID, list[Any]] = defaultdict(list)
    # By the name of the relation: the room that says where sources are lies above this one.
    model: Any = DataSource._meta.get_field("locations").related_model
    seen = model.objects.visible_to(reader).filter(source__in=ids).select_related("cluster")
    for place in seen.order_by("cluster__name", "namespace"):
        places[place.source_id].append(place)
    return [ShownSource(row, counts[row.pk], tuple(places[row.pk])) for row in found]
