"""Where clusters have data sources: said by operators, read for placing, and told to agents.

What is S3 is reached from everywhere. What is a claim is in a cluster for the pods of one namespace: that of their team
there, or the agent's own.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from uuid import UUID

from django.db import IntegrityError, transaction

from agentlink.actions import require_operator
from agentlink.handing import HandedTo
from agentlink.models import BoundNamespace, Cluster, DataLocation
from agentlink.protocol import AssignedMount
from agentlink.protocol.messages import SINCE_0_2
from agentlink.protocol.releases import numbers
from chamber import live
from chamber.errors import Conflict, Refusal
from chamber.transactions import keep
from teams import audit
from teams.actors import Actor
from workloads.models import DataSource, MountedSource, SourceKind

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User

_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_CLAIM = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)


def locate(
    *, by: Actor, source: DataSource, cluster: Cluster, namespace: str = "", claim: str = ""
) -> DataLocation:
    """Say that a cluster has a source, or of a claim what it is called there now; for operators."""
    require_operator(by)
    namespace, claim = namespace.strip(), claim.strip()
    if wrong := _problems(source, namespace, claim):
        raise Refusal(" ".join(wrong.values()), fields=wrong, code="invalid")
    with transaction.atomic():
        keep(DataSource.objects.filter(pk=source.pk))
        keep(Cluster.objects.filter(pk=cluster.pk))
        try:
            with transaction.atomic():
                row, _ = DataLocation.objects.update_or_create(
                    source=source, cluster=cluster, namespace=namespace, defaults={"claim": claim}
                )
        except IntegrityError as error:
            raise Conflict(f"{source.reference} or {cluster.name} was deleted meanwhile.") from error
        audit.record(by=by, action="data-source.located", target=source, team=source.team, after=_said(row))
        live.announce("teams", "pools")
        live.ring()
    return row


def forget_location(*, by: Actor, location: DataLocation) -> None:
    """Say that a cluster has a source no more. What runs there keeps it; what waits is placed elsewhere."""
    require_operator(by)
    with transaction.atomic():
        row = DataLocation.objects.select_for_update().filter(pk=location.pk).first()
        if row is None:
            return
        audit.record(
            by=by,
            action="data-source.removed",
            target=location.source,
            team=location.source.team,
            before=_said(location),
        )
        row.delete()
        live.announce("teams", "pools")
        live.ring()


def _said(row: DataLocation) -> dict[str, Any]:
    return {"cluster": row.cluster.name, "namespace": row.namespace, "claim": row.claim}


def _problems(source: DataSource, namespace: str, claim: str) -> dict[str, str]:
    if source.kind == SourceKind.S3:
        return {"cluster": f"{source.reference} is S3, which is reached from every cluster."}
    if source.kind != SourceKind.CLAIM:
        given = {"namespace": namespace, "claim": claim}
        told = f"{source.reference} is {source.get_kind_display()}, not a claim: leave it out."
        return {name: told for name, value in given.items() if value}
    wrong = {}
    if namespace and not _NAMESPACE.fullmatch(namespace):
        wrong["namespace"] = f"{namespace[:80]!r} is no name of a namespace."
    if not _CLAIM.fullmatch(claim):
        wrong["claim"] = (
            f"{claim[:80]!r} is no name of a PersistentVolumeClaim." if claim else "claim is missing."
        )
    return wrong


def in_cluster(cluster: Cluster, reader: "User | AnonymousUser") -> list[DataLocation]:
    """Return what a cluster has of the data sources that the reader sees (1 query)."""
    seen = DataSource.objects.visible_to(reader).order_by().values("pk")
    rows = DataLocation.objects.visible_to(reader).filter(cluster=cluster, source__in=seen)
    rows = rows.select_related("source__team")
    return list(rows.order_by("source__name", "source", "namespace"))


class Place(NamedTuple):
    """A cluster that has a source, for the pods of a team."""

    cluster: UUID
    name: str
    claim: str


@dataclass(frozen=True, slots=True)
class Places:
    """Where sources are, read once for many workloads."""

    sources: Mapping[UUID, DataSource] = field(default_factory=dict)
    locations: Mapping[UUID, list[DataLocation]] = field(default_factory=dict)
    namespaces: Mapping[tuple[UUID, UUID], str] = field(default_factory=dict)

    @classmethod
    def read(cls, source_ids: Iterable[UUID], team_ids: Iterable[UUID]) -> Self:
        """Read where these are (3 queries, none for none)."""
        wanted = set(source_ids)
        if not wanted:
            return cls()
        sources = {row.pk: row for row in DataSource.objects.filter(pk__in=wanted).select_related("team")}
        locations: dict[UUID, list[DataLocation]] = defaultdict(list)
        for row in DataLocation.objects.filter(source__in=wanted).select_related("cluster"):
            locations[row.source_id].append(row)
        bound = BoundNamespace.objects.filter(team__in=set(team_ids)).order_by()
        named = {
            (team, cluster): name for team, cluster, name in bound.values_list("team", "cluster", "namespace")
        }
        return cls(sources, locations, named)

    def of(self, source_id: UUID, team_id: UUID) -> list[Place] | None:
        """Return the clusters that have a source for pods of a team; None where it is reached from everywhere."""
        row = self.sources.get(source_id)
        if row is None:
            return []
        if row.kind == SourceKind.S3:
            return None
        found = (
            each
            for each in self.locations.get(source_id, ())
            if row.kind != SourceKind.CLAIM
            or each.namespace == self.namespaces.get((team_id, each.cluster_id), "")
        )
        return sorted(Place(each.cluster_id, each.cluster.name, each.claim) for each in found)


def mounted_by(workload_ids: Collection[UUID]) -> dict[UUID, list[UUID | None]]:
    """Return the sources that workloads mount, in order; None for one that was deleted (1 query, none for none)."""
    found: dict[UUID, list[UUID | None]] = defaultdict(list)
    if workload_ids:
        rows = MountedSource.objects.filter(workload__in=workload_ids).order_by("workload", "position")
        for workload, source in rows.values_list("workload", "source"):
            found[workload].append(source)
    return found


class DataMissing(Exception):  # noqa: N818 - an answer
    """Why pods of an attempt cannot have what their workload mounts: a code, and a sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Mounting:
    """What attempts of a cluster mount, read once for all that are told (4 queries, none where nothing mounts)."""

    def __init__(
        self, rows: Collection[tuple[UUID, UUID]], *, cluster_id: UUID, cluster: str, agent_version: str
    ) -> None:
        self._cluster_id, self._cluster, self._version = cluster_id, cluster, agent_version
        self._mounted = mounted_by({workload for workload, _ in rows})
        ids = (source for sources in self._mounted.values() for source in sources if source is not None)
        self._places = Places.read(ids, {team for _, team in rows})

    def of(
        self, to: HandedTo, mounts: Collection[Mapping[str, Any]], *, later: Sequence[str] = ()
    ) -> tuple[AssignedMount, ...]:
        """Return what an attempt mounts; raise `DataMissing` where the cluster has not all of it any more. One whose
        pods were begun keeps what they were begun with. `later` is in words what agents of before do not know of it.
        """
        try:
            self._require_known(later)
            return self._of(to, mounts)
        except DataMissing:
            if to.is_begun:
                return ()
            raise

    def _require_known(self, later: Sequence[str]) -> None:
        known = numbers(self._version)
        if later and known is not None and known < SINCE_0_2.numbers:
            raise DataMissing(
                "agent-too-old",
                f"It {later[0]}, and the agent of {self._cluster} is {self._version}: agents know that since "
                f"{SINCE_0_2.release}.",
            )

    def _of(self, to: HandedTo, mounts: Collection[Mapping[str, Any]]) -> tuple[AssignedMount, ...]:
        sources = self._mounted.get(to.workload_id, [])
        found = []
        for mount, source_id in zip(mounts, sources, strict=False):
            row = self._places.sources.get(source_id) if source_id is not None else None
            if row is None:
                raise DataMissing(
                    "data-elsewhere", f"The data source {mount['source']}, which it mounts, was deleted."
                )
            found.append(self._mount(row, mount, to.namespace))
        return tuple(found)

    def _mount(self, row: DataSource, mount: Mapping[str, Any], namespace: str) -> AssignedMount:
        if not (mount["read_only"] or row.writable):
            raise DataMissing(
                "data-read-only", f"{row.reference}, which it mounts to write, may only be read by now."
            )
        plain = {"source": row.name, "path": mount["path"], "read_only": mount["read_only"]}
        if row.kind == SourceKind.S3:
            return AssignedMount(**plain, address=row.details["address"])
        here = [
            each for each in self._places.locations.get(row.pk, ()) if each.cluster_id == self._cluster_id
        ]
        if row.kind == SourceKind.CLAIM:
            here = [each for each in here if each.namespace == namespace]
        if not here:
            raise DataMissing(
                "data-elsewhere",
                f"The data set {row.name}, which it mounts, is not on {self._cluster} any more.",
            )
        if row.kind == SourceKind.CLAIM:
            return AssignedMount(**plain, claim=here[0].claim)
        return AssignedMount(**plain, server=row.details["server"], folder=row.details["path"])
