"""What is done with credentials: made, given other values, deleted. The audit trail has which, never a value."""

import re
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils import timezone

from chamber import live
from chamber.errors import Conflict, NotAllowed, Refusal, no_such
from chamber.transactions import keep
from chamber.words import count
from teams import audit
from teams.actors import Actor
from teams.models import Team
from teams.permissions import Permission, require
from workloads.credentials import keys, kinds
from workloads.models import Credential, CredentialKind

if TYPE_CHECKING:
    from chamber.models import User

MOST_OF_ONE = 100
"""Credentials of one person, and of one team."""
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", re.ASCII)


def create_credential(
    *, by: Actor, name: str, kind: CredentialKind, content: Mapping[str, Any], team: Team | None = None
) -> Credential:
    """Make a credential of the team, or else the actor's own; raise a `Refusal` with a sentence for each wrong part."""
    given = kinds.read(kind, content)
    name = _name(name)
    now = timezone.now()
    with transaction.atomic():
        team = _kept(by, team)
        owner = None if team is not None else _person(by)
        whose = Credential.objects.filter(owner=owner, team=team)
        if whose.count() >= MOST_OF_ONE:
            who = "You have" if team is None else f"{team.name} has"
            raise Conflict(
                f"{who} {count(MOST_OF_ONE, 'credential')}, the most that are allowed. Delete one first."
            )
        row = Credential(
            name=name,
            kind=kind,
            owner=owner,
            team=team,
            details=given.details,
            parts=given.parts,
            made_by=by.user,
            replaced_at=now,
        )
        row.encrypted = keys.sealed(row, given.secrets)
        try:
            with transaction.atomic():
                row.save(force_insert=True)
        except IntegrityError as error:
            who = "You have" if team is None else f"{team.name} has"
            raise Conflict(
                f"{who} a credential {name!r} already. Choose another name, or give that one other values.",
                field="name",
            ) from error
        audit.record(by=by, action="credential.created", target=row, team=team, after=_described(row))
        _announce(row)
    return row


def replace_values(*, by: Actor, credential: Credential, content: Mapping[str, Any]) -> Credential:
    """Give a credential other values: all its secrets anew. What is no secret stays where it is not given.

    What runs keeps those it was started with; what is started later has the new ones.
    """
    kind = CredentialKind(credential.kind)
    given = kinds.read(kind, {**credential.details, **content})
    with transaction.atomic():
        row = _locked(by, credential)
        before = _described(row)
        row.details, row.parts, row.replaced_at = given.details, given.parts, timezone.now()
        row.encrypted = keys.sealed(row, given.secrets)
        row.version += 1
        row.save(update_fields=["details", "parts", "replaced_at", "encrypted", "version"])
        after = {**_described(row), "replaced": row.replaced_at.isoformat(timespec="seconds")}
        audit.record(
            by=by, action="credential.replaced", target=row, team=row.team, before=before, after=after
        )
        _announce(row)
    return row


def delete_credential(*, by: Actor, credential: Credential) -> None:
    """Delete a credential. What runs keeps it until it ends; what names it and waits is told that it cannot start."""
    with transaction.atomic():
        row = _locked(by, credential)
        audit.record(by=by, action="credential.deleted", target=row, team=row.team, before=_described(row))
        _announce(row)
        row.delete()
        live.ring()


def used(ids: Collection[UUID]) -> None:
    """Note that clusters were handed these now, to the minute."""
    now = timezone.now()
    rows = Credential.objects.filter(pk__in=ids)
    rows.filter(last_used_at__isnull=True).update(last_used_at=now)
    rows.filter(last_used_at__lt=now - timedelta(minutes=1)).update(last_used_at=now)


def _name(text: str) -> str:
    name = text.strip()
    if not _NAME.fullmatch(name):
        raise Refusal(
            f"{name[:80]!r} is no name of a credential: use up to 40 small letters, digits and hyphens, beginning with "
            "a letter and not ending with a hyphen.",
            field="name",
        )
    return name


def _person(by: Actor) -> "User":
    if by.user is None:
        raise Refusal("A credential is of a person or of a team.")
    return by.user


def _kept(by: Actor, team: Team | None) -> Team | None:
    """Return the team as it is now, which neither goes nor moves until the transaction ends; refuse whom it is not
    for.
    """
    if team is None:
        return None
    keep(Team.objects.filter(pk=team.pk))
    team = Team.objects.get(pk=team.pk)
    require(by, Permission.MANAGE_CREDENTIALS, team)
    if team.is_archived:
        raise Conflict(f"{team.name} was archived and gets no credential.", field="team")
    return team


def _locked(by: Actor, credential: Credential) -> Credential:
    rows = Credential.objects.select_for_update(no_key=True, of=("self",)).select_related("team")
    row = rows.filter(pk=credential.pk).first()
    if row is None:
        raise no_such("credential", credential.name)
    if row.team is not None:
        require(by, Permission.MANAGE_CREDENTIALS, row.team)
    elif by.user is None or by.user.pk != row.owner_id:
        raise NotAllowed(f"{row.name} is somebody else's credential: only its owner changes it.")
    return row


def _described(row: Credential) -> dict[str, object]:
    """Return what the trail has of a credential: nothing of its values."""
    whose = row.team.slug if row.team is not None else "own"
    return {"name": row.name, "kind": row.kind, "of": whose, "details": row.details, "parts": row.parts}


def _announce(row: Credential) -> None:
    live.announce("teams" if row.owner_id is None else f"user:{row.owner_id}")
