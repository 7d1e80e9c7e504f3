"""What is done with environments: made, given a new version, archived, deleted. A version is never changed."""

import re
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from chamber import live
from chamber.errors import Conflict, Refusal, no_such, refusal_of
from chamber.transactions import keep
from chamber.words import count, nearest
from teams import audit
from teams.actors import Actor
from teams.models import Team
from teams.permissions import Permission, require
from teams.rules import effective_rules
from workloads import images
from workloads.credentials import suspicious
from workloads.data.mounting import KnownSources
from workloads.environments.values import EnvironmentValues, typed
from workloads.models import Credential, CredentialKind, Environment, EnvironmentVersion, Workload

MOST_OF_TEAM = 200
"""Environments of one team, archived ones too."""
MOST_VERSIONS = 1000
_NAME = re.compile(r"[a-z]([a-z0-9.-]{0,38}[a-z0-9])?", re.ASCII)


def create_environment(*, by: Actor, team: Team, name: str, values: Mapping[str, Any]) -> Environment:
    """Make an environment of the team with its first version; `values` are those of `EnvironmentValues`."""
    wanted = typed(values)
    name = _name(name)
    with transaction.atomic():
        team = _kept(by, team)
        wanted = _with_sources_named(by, team, wanted)
        if Environment.objects.filter(team=team).count() >= MOST_OF_TEAM:
            raise Conflict(
                f"{team.name} has {count(MOST_OF_TEAM, 'environment')}, the most that are allowed. Delete one first."
            )
        pull = _checked(by, team, wanted)
        try:
            with transaction.atomic():
                row = Environment.objects.create(team=team, name=name)
        except IntegrityError as error:
            raise Conflict(
                f"{team.name} has an environment {name!r} already. Choose another name, or give that one a new "
                "version.",
                field="name",
            ) from error
        audit.record(by=by, action="environment.created", target=row, team=team, after={"name": name})
        _add(by, row, wanted, pull)
    return row


def add_version(*, by: Actor, environment: Environment, values: Mapping[str, Any]) -> EnvironmentVersion:
    """Give an environment its next version; return the newest where that has the same already.

    Workloads that name the environment without a version have it from then on; those that were submitted keep theirs.
    """
    wanted = typed(values)
    with transaction.atomic():
        row = _locked(by, environment)
        if row.is_archived:
            raise Conflict(f"{row.reference} is archived: restore it before it gets a new version.")
        wanted = _with_sources_named(by, row.team, wanted)
        newest = row.versions.select_related("pull_credential__team").filter(number=row.newest).first()
        if newest is not None and _has_the_same(newest, wanted):
            return newest
        if row.newest >= MOST_VERSIONS:
            raise Conflict(f"{row.reference} has {MOST_VERSIONS:,} versions, the most that are allowed.")
        return _add(by, row, wanted, _checked(by, row.team, wanted))


def archive_environment(*, by: Actor, environment: Environment, archived: bool) -> Environment:
    """Have submissions name an environment no more, or again. What waits or runs in it goes on."""
    with transaction.atomic():
        row = _locked(by, environment)
        if row.is_archived == archived:
            return row
        row.archived_at = timezone.now() if archived else None
        row.version += 1
        row.save(update_fields=["archived_at", "version"])
        act = "environment.archived" if archived else "environment.restored"
        audit.record(by=by, action=act, target=row, team=row.team, after={"name": row.name})
        live.announce("teams")
    return row


def delete_environment(*, by: Actor, environment: Environment) -> None:
    """Delete an environment in which no workload runs or ran that is still kept."""
    with transaction.atomic():
        row = _locked(by, environment, to_delete=True)
        used = Workload.objects.filter(environment_version__environment=row.pk).order_by().count()
        if used:
            raise Conflict(
                f"{count(used, 'workload')} {'names' if used == 1 else 'name'} {row.reference}: archive it instead; no "
                "submission names it then."
            )
        before = {"name": row.name, "versions": row.newest}
        audit.record(by=by, action="environment.deleted", target=row, team=row.team, before=before)
        row.delete()
        live.announce("teams")


def values_of(version: EnvironmentVersion) -> dict[str, Any]:
    """Return what a version has, as `EnvironmentValues` says it."""
    found = {
        name: getattr(version, name) for name in EnvironmentValues.model_fields if name != "pull_credential"
    }
    return found | {"pull_credential": version.pull_credential_name}


def _has_the_same(version: EnvironmentVersion, wanted: EnvironmentValues) -> bool:
    """Return whether a version has these values, but for its note. One whose credential was deleted never has: another
    by the same name is pulled by only in a new version.
    """
    has_its_credential = version.pull_credential is not None or not version.pull_credential_name
    return has_its_credential and values_of(version) == {**wanted.model_dump(), "note": version.note}


def _with_sources_named(by: Actor, team: Team, wanted: EnvironmentValues) -> EnvironmentValues:
    """Return the values with whose each data source is: a team below may have another by the same name."""
    mounts = KnownSources.read(by, wanted.mounts).named(wanted.mounts, team)
    return wanted.model_copy(update={"mounts": mounts})


def _add(
    by: Actor, row: Environment, wanted: EnvironmentValues, pull: Credential | None
) -> EnvironmentVersion:
    values = wanted.model_dump(exclude={"pull_credential"})
    row.newest += 1
    row.version += 1
    row.save(update_fields=["newest", "version"])
    made = EnvironmentVersion.objects.create(
        environment=row,
        number=row.newest,
        made_by=by.user,
        pull_credential=pull,
        pull_credential_name=pull.reference if pull is not None else "",
        **values,
    )
    # Values of variables are for those who run workloads in it: the trail has their names.
    said = {**wanted.model_dump(exclude_defaults=True), "variables": list(wanted.variables)}
    audit.record(
        by=by,
        action="environment.versioned",
        target=row,
        team=row.team,
        after={"number": made.number, **{name: value for name, value in said.items() if value}},
    )
    live.announce("teams")
    return made


def _name(text: str) -> str:
    name = text.strip()
    if not _NAME.fullmatch(name):
        raise Refusal(
            f"{name[:80]!r} is no name of an environment: use up to 40 small letters, digits, dots and hyphens, "
            "beginning with a letter and ending with a letter or digit.",
            field="name",
        )
    return name


def _kept(by: Actor, team: Team) -> Team:
    """Return the team as it is now, which neither goes nor moves until the transaction ends."""
    keep(Team.objects.filter(pk=team.pk))
    team = Team.objects.get(pk=team.pk)
    require(by, Permission.MANAGE_CATALOGUE, team)
    if team.is_archived:
        raise Conflict(f"{team.name} was archived and gets no environment.", field="team")
    return team


def _locked(by: Actor, environment: Environment, *, to_delete: bool = False) -> Environment:
    """Return the row, locked; to delete it, once no submission that names it is under way."""
    rows = Environment.objects.select_for_update(no_key=not to_delete, of=("self",)).select_related("team")
    row = rows.filter(pk=environment.pk).first()
    if row is None:
        raise no_such("environment", environment.name)
    require(by, Permission.MANAGE_CATALOGUE, row.team)
    return row


def _checked(by: Actor, team: Team, wanted: EnvironmentValues) -> Credential | None:
    """Return the credential by which the image is pulled; refuse what cannot be, with a sentence for each value."""
    rules = effective_rules(team)
    pull, unfit = _pull_credential(team, wanted.pull_credential)
    wrong = {
        "image": images.problem(wanted.image, rules, team.name),
        "variables": suspicious.problem(wanted.variables, rules.plain_variables, team.name),
        "pull_credential": unfit,
        "mounts": KnownSources.read(by, wanted.mounts).problem(wanted.mounts, team),
    }
    if any(wrong.values()):
        raise refusal_of({name: told for name, told in wrong.items() if told}, code="invalid")
    return pull


def _pull_credential(team: Team, reference: str) -> tuple[Credential | None, str]:
    """Return the credential of this team, or of one above it, and why it cannot be the one."""
    if not reference:
        return None, ""
    rows = Credential.objects.filter(team__in=team.ancestor_ids()).select_related("team")
    known = {row.reference: row for row in rows if _pulls(row)}
    if reference in known:
        return known[reference], ""
    listed = f" There are: {', '.join(sorted(known)[:10]) or 'none'}."
    return None, (
        f"There is no credential {reference!r} of the type registry of {team.name} or of a team above it."
        f"{nearest(reference, known) or listed}"
    )


def _pulls(row: Credential) -> bool:
    """Return whether images can be pulled by a credential."""
    is_login = row.kind == CredentialKind.REGISTRY
    return is_login or (row.kind == CredentialKind.SECRET and row.details.get("use") == "registry")
