"""Where the data is that workloads mount, as the engine takes it."""

from collections import defaultdict
from collections.abc import Iterable
from uuid import UUID

from agentlink.data import Places
from scheduling import engine
from workloads.models import DataSource, MountedSource, Workload
from workloads.models.workload import OPEN

DELETED = engine.DataSet("that was deleted", ())
"""Stands for a source that is not there any more: no cluster has it."""


def of_open() -> dict[str, tuple[engine.DataSet, ...]]:
    """Return what open workloads mount, by id; of those that mount nothing nothing (1 query, 4 where any does)."""
    rows = MountedSource.objects.filter(workload__status__in=OPEN).order_by("workload", "position")
    mounted: dict[UUID, list[UUID | None]] = defaultdict(list)
    teams: dict[UUID, UUID] = {}
    for workload, team, source in rows.values_list("workload", "workload__team", "source"):
        mounted[workload].append(source)
        teams[workload] = team
    ids = {source for sources in mounted.values() for source in sources if source is not None}
    places = Places.read(ids, teams.values())
    return {
        str(workload): found
        for workload, sources in mounted.items()
        if (found := _sets(places, sources, teams[workload]))
    }


def of_new(workloads: Iterable[Workload]) -> dict[UUID, tuple[engine.DataSet, ...]]:
    """Return what workloads mount that are not stored, or were a moment ago, by what they name (4 queries, none where
    nothing is mounted).
    """
    rows = [row for row in workloads if row.mounts]
    if not rows:
        return {}
    names = {str(mount["source"]).partition("/")[2] for row in rows for mount in row.mounts or []}
    sources = DataSource.objects.filter(name__in=names).order_by().values_list("team__slug", "name", "pk")
    known = {f"{team}/{name}": pk for team, name, pk in sources}
    places = Places.read(known.values(), {row.team_id for row in rows})
    return {
        row.pk: _sets(places, [known.get(mount["source"]) for mount in row.mounts or []], row.team_id)
        for row in rows
    }


def _sets(places: Places, sources: Iterable[UUID | None], team_id: UUID) -> tuple[engine.DataSet, ...]:
    found: dict[engine.DataSet, None] = {}
    for source in sources:
        if source is None:
            found[DELETED] = None
            continue
        there = places.of(source, team_id)
        if there is not None:
            name = places.sources[source].name if source in places.sources else DELETED.name
            clusters = tuple(str(each.cluster) for each in there)
            found[engine.DataSet(name, clusters, tuple(each.name for each in there))] = None
    return tuple(found)
