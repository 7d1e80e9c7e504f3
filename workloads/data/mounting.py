"""Which data sources a submission mounts: looked up once for all of a request, and a sentence where one cannot be.

`NAME` is that of the workload's team, else of the nearest team above it that has one; `TEAM/NAME` says whose.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self
from uuid import UUID

from chamber.words import nearest
from teams.actors import Actor
from teams.models import Team
from workloads.data import written
from workloads.data.written import Mount
from workloads.models import DataSource, MountedSource, SourceKind, Workload
from workloads.requests import SubmissionRequest

MOST_LISTED = 10


@dataclass(frozen=True, slots=True)
class KnownSources:
    """Those that are named and that the submitter may see, by name."""

    by_name: Mapping[str, list[DataSource]] = field(default_factory=dict)
    by: Actor | None = None
    listed: dict[UUID, list[str]] = field(default_factory=dict)
    """What workloads of a team may mount, by team, once it was told."""

    @classmethod
    def read(cls, by: Actor, mounts: Iterable[Mount]) -> Self:
        """Look up what is named (one query; none where nothing is)."""
        names = {written.read(each.source).name for each in mounts}
        if not names or by.user is None:
            return cls(by=by)
        found: dict[str, list[DataSource]] = {}
        rows = DataSource.objects.visible_to(by.user).filter(name__in=names)
        for row in rows.select_related("team", "credential__team"):
            found.setdefault(row.name, []).append(row)
        return cls(found, by)

    def ids(self) -> list[UUID]:
        """Return those that are looked at."""
        return [row.pk for rows in self.by_name.values() for row in rows]

    def source(self, mount: Mount, team: Team | None) -> DataSource | None:
        """Return what a mount of a workload of this team names; None where there is none that it may."""
        named = written.read(mount.source)
        usable = [
            row
            for row in self.by_name.get(named.name, ())
            if team is not None and team.is_within(row.team) and named.team in {"", row.team.slug}
        ]
        return max(usable, key=lambda row: row.team.depth, default=None)

    def read_by(self, mounts: Iterable[Mount], teams: Iterable[Team]) -> set[str]:
        """Return the credentials by which these are reached."""
        found = [self.source(mount, team) for mount in mounts for team in teams]
        return {row.credential.reference for row in found if row is not None and row.credential is not None}

    def completed(self, request: SubmissionRequest, team: Team | None) -> SubmissionRequest:
        """Return a request whose mounts say whose they are, with the credentials by which they are reached."""
        if not request.mounts:
            return request
        sources = [self.source(mount, team) for mount in request.mounts]
        reads = [
            row.credential.reference for row in sources if row is not None and row.credential is not None
        ]
        credentials = list(dict.fromkeys([*request.credentials, *reads]))
        return request.model_copy(
            update={"mounts": self.named(request.mounts, team), "credentials": credentials}
        )

    def named(self, mounts: Iterable[Mount], team: Team | None) -> list[Mount]:
        """Return mounts that say whose their sources are, each once: what has no path (S3) may be named by a submission
        and, otherwise written, by its environment. What is not there stays as it is.
        """
        found = [(mount, self.source(mount, team)) for mount in mounts]
        named = (
            mount if row is None else mount.model_copy(update={"source": row.reference})
            for mount, row in found
        )
        return list(dict.fromkeys(named))

    def problem(self, mounts: Iterable[Mount], team: Team) -> str:
        """Return what is wrong with what workloads of this team, or its environment, would mount; "" for nothing."""
        for mount in mounts:
            row = self.source(mount, team)
            if row is None:
                return self._unknown(mount, team)
            if problem := _unfit(mount, row):
                return problem
        return ""

    def rows_of(self, workload: Workload, request: SubmissionRequest) -> list[MountedSource]:
        """Return the rows by which a workload mounts what it names, unsaved."""
        return [
            MountedSource(workload=workload, position=position, source=self.source(mount, workload.team))
            for position, mount in enumerate(request.mounts)
        ]

    def _unknown(self, mount: Mount, team: Team) -> str:
        named = written.read(mount.source)
        usable = self._usable(team)
        more = f" and {len(usable) - MOST_LISTED} more" if len(usable) > MOST_LISTED else ""
        listed = f" There are: {', '.join(usable[:MOST_LISTED]) or 'none'}{more}."
        elsewhere = [row for row in self.by_name.get(named.name, ()) if named.team in {"", row.team.slug}]
        if elsewhere:
            row = elsewhere[0]
            return (
                f"{row.reference} is a data source of {row.team.name}. Workloads of {team.name} may mount those of "
                f"{team.name} and of the teams above it.{listed}"
            )
        near = nearest(mount.source, [*usable, *(name.rpartition("/")[2] for name in usable)])
        return f"There is no data source {mount.source!r} that workloads of {team.name} may mount.{near or listed}"

    def _usable(self, team: Team) -> list[str]:
        """Return what could have been written (one query for each team)."""
        if self.by is None or self.by.user is None:
            return []
        if team.pk not in self.listed:
            self.listed[team.pk] = references_in(team)
        return self.listed[team.pk]


def references_in(team: Team) -> list[str]:
    """Return the data sources that workloads of a team may mount, the nearest team's first (1 query)."""
    rows = DataSource.objects.usable_in(team).select_related("team")
    return [row.reference for row in sorted(rows, key=lambda row: (-row.team.depth, row.name))]


def _unfit(mount: Mount, row: DataSource) -> str:
    if row.kind == SourceKind.S3:
        if mount.path:
            return (
                f"{row.reference} is S3, which is not mounted: leave the path {mount.path} out; pods are told its "
                "address by a variable."
            )
    elif not mount.path:
        return f"{row.reference} needs a path: write {mount.source}:/data."
    if not mount.read_only and not row.writable:
        return f"{row.reference} may only be read: mount it with :ro, or ask a lead of {row.team.name}."
    if row.credential_name and row.credential is None:
        return f"The credential {row.credential_name}, by which {row.reference} is reached, was deleted."
    return ""
