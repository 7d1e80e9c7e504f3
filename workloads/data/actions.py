"""What is done with data sources: made, changed, deleted."""

import re
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction

from chamber import live
from chamber.errors import Conflict, Refusal, no_such
from chamber.transactions import keep
from chamber.words import count, nearest
from teams import audit
from teams.actors import Actor
from teams.models import Team
from teams.permissions import Permission, require
from workloads.data.values import details_of
from workloads.models import Credential, CredentialKind, DataSource, MountedSource, SourceKind
from workloads.models.workload import OPEN

MOST_OF_TEAM = 200
_NAME = re.compile(r"[a-z]([a-z0-9.-]{0,38}[a-z0-9])?", re.ASCII)


def create_source(
    *,
    by: Actor,
    team: Team,
    name: str,
    kind: SourceKind,
    details: Mapping[str, Any],
    writable: bool = False,
    credential: str = "",
) -> DataSource:
    """Make a data source of the team; where clusters have it is said afterwards."""
    name = _name(name)
    found = details_of(kind, details)
    with transaction.atomic():
        keep(Team.objects.filter(pk=team.pk))
        team = Team.objects.get(pk=team.pk)
        require(by, Permission.MANAGE_CATALOGUE, team)
        if team.is_archived:
            raise Conflict(f"{team.name} was archived and gets no data source.", field="team")
        if DataSource.objects.filter(team=team).count() >= MOST_OF_TEAM:
            raise Conflict(
                f"{team.name} has {count(MOST_OF_TEAM, 'data source')}, the most that are allowed. Delete one first."
            )
        reads = _credential(team, kind, credential)
        try:
            with transaction.atomic():
                row = DataSource.objects.create(
                    team=team,
                    name=name,
                    kind=kind,
                    details=found,
                    writable=writable,
                    credential=reads,
                    credential_name=reads.reference if reads is not None else "",
                )
        except IntegrityError as error:
            raise Conflict(
                f"{team.name} has a data source {name!r} already. Choose another name.", field="name"
            ) from error
        audit.record(by=by, action="data-source.created", target=row, team=team, after=_said(row))
        live.announce("teams")
    return row


def edit_source(*, by: Actor, source: DataSource, changes: Mapping[str, Any]) -> DataSource:
    """Change `details` and `writable`; what runs keeps what it was started with."""
    with transaction.atomic():
        row = _locked(by, source)
        before = _said(row)
        if "details" in changes:
            row.details = details_of(SourceKind(row.kind), {**row.details, **changes["details"]})
        row.writable = changes.get("writable", row.writable)
        if _said(row) == before:
            return row
        row.version += 1
        row.save(update_fields=["details", "writable", "version"])
        audit.record(
            by=by, action="data-source.edited", target=row, team=row.team, before=before, after=_said(row)
        )
        live.announce("teams")
    return row


def delete_source(*, by: Actor, source: DataSource) -> None:
    """Delete a source that no open workload mounts, with where clusters have it."""
    with transaction.atomic():
        row = _locked(by, source, to_delete=True)
        mounting = MountedSource.objects.filter(source=row, workload__status__in=OPEN).order_by()
        used = mounting.values("workload").distinct().count()
        if used:
            raise Conflict(
                f"{count(used, 'open workload')} {'mounts' if used == 1 else 'mount'} {row.reference}: it can be "
                f"deleted once {'that has' if used == 1 else 'they have'} ended."
            )
        audit.record(by=by, action="data-source.deleted", target=row, team=row.team, before=_said(row))
        row.delete()
        live.announce("teams")


def _said(row: DataSource) -> dict[str, Any]:
    return {"name": row.name, "kind": row.kind, "details": row.details, "writable": row.writable}


def _name(text: str) -> str:
    name = text.strip()
    if not _NAME.fullmatch(name):
        raise Refusal(
            f"{name[:80]!r} is no name of a data source: use up to 40 small letters, digits, dots and hyphens, "
            "beginning with a letter and ending with a letter or digit.",
            field="name",
        )
    return name


def _locked(by: Actor, source: DataSource, *, to_delete: bool = False) -> DataSource:
    """Return the row, locked; to delete it, once no submission that names it is under way."""
    rows = DataSource.objects.select_for_update(no_key=not to_delete, of=("self",)).select_related("team")
    row = rows.filter(pk=source.pk).first()
    if row is None:
        raise no_such("data source", source.name)
    require(by, Permission.MANAGE_CATALOGUE, row.team)
    return row


def _credential(team: Team, kind: SourceKind, reference: str) -> Credential | None:
    """Return by which credential of the team, or of one above it, pods reach the data."""
    if not reference:
        return None
    if kind is not SourceKind.S3:
        raise Refusal(
            f"A data source of the kind {kind.value} has no credential; only s3 has.", field="credential"
        )
    rows = Credential.objects.filter(team__in=team.ancestor_ids(), kind=CredentialKind.S3).select_related(
        "team"
    )
    known = {row.reference: row for row in rows}
    if reference not in known:
        listed = f" There are: {', '.join(sorted(known)[:10]) or 'none'}."
        raise Refusal(
            f"There is no credential {reference[:110]!r} of the type s3 of {team.name} or of a team above it."
            f"{nearest(reference, known) or listed}",
            field="credential",
        )
    return known[reference]
