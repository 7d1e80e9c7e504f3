"""What a submission has by the environment that it names: looked up once for all of a request.

`NAME` is that of the workload's team, else of the nearest team above it that has one; `TEAM/NAME` says whose. Without
`@NUMBER` it is the newest version. What the submission says itself holds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self
from uuid import UUID

from django.db.models import F, Q

from chamber.words import nearest
from teams.actors import Actor
from teams.models import Team
from workloads import to_run
from workloads.data.written import together
from workloads.environments import written
from workloads.environments.written import Reference
from workloads.models import Environment, EnvironmentVersion
from workloads.requests import SubmissionRequest

MOST_LISTED = 10


@dataclass(frozen=True, slots=True)
class KnownEnvironments:
    """Those that are named, by their names, and their versions by environment and number."""

    by_name: Mapping[str, list[Environment]] = field(default_factory=dict)
    versions: Mapping[tuple[UUID, int], EnvironmentVersion] = field(default_factory=dict)
    by: Actor | None = None
    listed: dict[UUID, list[str]] = field(default_factory=dict)
    """What workloads of a team may name, by team, once it was told."""

    @classmethod
    def read(cls, by: Actor, requests: Iterable[SubmissionRequest]) -> Self:
        """Look up what is named (two queries; none where nothing is named)."""
        named = {written.read(each.runs_in) for each in requests if each.runs_in}
        if not named or by.user is None:
            return cls(by=by)
        rows = Environment.objects.visible_to(by.user).filter(name__in={each.name for each in named})
        by_name: dict[str, list[Environment]] = {}
        for row in rows.select_related("team"):
            by_name.setdefault(row.name, []).append(row)
        numbers = {each.number for each in named if each.number is not None}
        wanted = Q(number=F("environment__newest")) | Q(number__in=numbers)
        found = EnvironmentVersion.objects.filter(
            wanted, environment__in=[row.pk for rows in by_name.values() for row in rows]
        ).select_related("environment__team", "pull_credential__team")
        versions = {(each.environment_id, each.number): each for each in found}
        return cls(by_name, versions, by)

    def ids(self) -> list[UUID]:
        """Return those that are looked at."""
        return [row.pk for rows in self.by_name.values() for row in rows]

    def version(self, request: SubmissionRequest, team: Team | None) -> EnvironmentVersion | None:
        """Return the version that a request to this team names; None where there is none that it may."""
        if not request.runs_in or team is None:
            return None
        named = written.read(request.runs_in)
        row = self._environment(named, team)
        if row is None or row.is_archived:
            return None
        return self.versions.get((row.pk, named.number or row.newest))

    def _environment(self, named: Reference, team: Team) -> Environment | None:
        """Return the nearest; an archived one only where there is no other."""
        usable = [
            row
            for row in self.by_name.get(named.name, ())
            if team.is_within(row.team) and named.team in {"", row.team.slug}
        ]
        return max(usable, key=lambda row: (not row.is_archived, row.team.depth), default=None)

    def pulled_by(self, requests: Iterable[SubmissionRequest], teams: Mapping[str, Team]) -> set[str]:
        """Return the credentials by which the images of the named environments are pulled."""
        found = (self.version(request, teams.get(request.team)) for request in requests)
        return {each.pull_credential.reference for each in found if each and each.pull_credential}

    def completed(self, request: SubmissionRequest, team: Team | None) -> SubmissionRequest:
        """Return a request with what it leaves to its environment; a completed one stays as it is."""
        version = self.version(request, team)
        if version is None:
            return request
        pull = [version.pull_credential.reference] if version.pull_credential else []
        update = {
            "runs_in": version.reference,
            "image": request.image or version.image,
            "command": request.command or version.command,
            "environment": {**version.variables, **request.environment},
            "working_dir": request.working_dir or version.working_dir,
            "shm_mib": request.shm_mib or version.shm_mib,
            "scratch_mib": request.scratch_mib or version.scratch_mib,
            "gpu_types": request.gpu_types or version.gpu_types,
            "node_selector": {**version.node_selector, **request.node_selector},
            "mounts": together(request.mounts, version.mounts),
            "credentials": list(dict.fromkeys([*request.credentials, *pull])),
        }
        return request.model_copy(update=update)

    def problem(self, request: SubmissionRequest, team: Team) -> str:
        """Return why a request, completed or not, cannot run in what it names; "" where it can, or names nothing."""
        if not request.runs_in:
            return ""
        named = written.read(request.runs_in)
        row = self._environment(named, team)
        if row is None:
            return self._unknown(named, team)
        if row.is_archived:
            return f"{row.reference} is archived and takes nothing new.{self._there_are(team)}"
        version = self.version(request, team)
        if version is None:
            return f"{row.reference} has no version {named.number}: its newest is {row.newest}."
        return _unfit(request, version)

    def _unknown(self, named: Reference, team: Team) -> str:
        elsewhere = [row for row in self.by_name.get(named.name, ()) if named.team in {"", row.team.slug}]
        if elsewhere:
            row = elsewhere[0]
            return (
                f"{row.reference} is an environment of {row.team.name}. Workloads of {team.name} may name those of "
                f"{team.name} and of the teams above it.{self._there_are(team)}"
            )
        told = f"{named.team}/{named.name}" if named.team else named.name
        usable = self._usable(team)
        near = nearest(told, [*usable, *(name.rpartition("/")[2] for name in usable)])
        more = near or self._there_are(team)
        return f"There is no environment {told!r} that workloads of {team.name} may name.{more}"

    def _there_are(self, team: Team) -> str:
        usable = self._usable(team)
        more = f" and {len(usable) - MOST_LISTED} more" if len(usable) > MOST_LISTED else ""
        return f" There are: {', '.join(usable[:MOST_LISTED]) or 'none'}{more}."

    def _usable(self, team: Team) -> list[str]:
        """Return what could have been written (one query for each team)."""
        if self.by is None or self.by.user is None:
            return []
        if team.pk not in self.listed:
            self.listed[team.pk] = references_in(team)
        return self.listed[team.pk]


def references_in(team: Team) -> list[str]:
    """Return the environments that workloads of a team may name, the nearest team's first (1 query)."""
    rows = Environment.objects.usable_in(team).select_related("team")
    return [row.reference for row in sorted(rows, key=lambda row: (-row.team.depth, row.name))]


def _unfit(request: SubmissionRequest, version: EnvironmentVersion) -> str:
    """Return what of an environment and of a request, completed or not, does not go together."""
    if version.pull_credential_name and version.pull_credential is None:
        return (
            f"The credential {version.pull_credential_name}, by which the image of {version.reference} is pulled, was "
            "deleted: the environment needs a new version."
        )
    shared = request.shm_mib or version.shm_mib or 0
    if request.memory_mib and shared > request.memory_mib:
        return (
            f"{version.reference} has {shared:,} MiB of shared memory, which is part of a pod's memory: more than its "
            f"{request.memory_mib:,} MiB. Say shm_mib yourself, or ask for more memory."
        )
    return to_run.problem(
        request.command or version.command,
        {**version.variables, **request.environment},
        request.array,
        beside=version.reference,
    )
