"""Adding and removing second factors: one's own, and as an organisation admin anybody's.

Each locks the row of its person: what ends sessions meanwhile has it refused, and of two at once one waits.
"""

from dataclasses import dataclass, field
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP
from allauth.mfa.webauthn.internal.auth import WebAuthn
from django.db import transaction

from chamber import live, sessions
from chamber.errors import Conflict, Refusal
from chamber.factors.codes import USED, period_of
from chamber.factors.passkeys import ALONE
from chamber.factors.reading import KINDS, NAMES, has_factor, real
from chamber.models import User
from chamber.people.actions import end_sessions, require_people
from chamber.words import as_name, count, unfit_for_name
from teams import audit
from teams.actors import Actor
from teams.sign_in import required_from

MOST_PASSKEYS = 20
"""Of one person."""
LONGEST_NAME = 60
LAST = "The organisation requires a second factor: add another one before you remove your last."
NO_FACTOR = "Recovery codes stand in for a second factor: add one first."


@dataclass(frozen=True, slots=True)
class Added:
    """A new factor; `codes` are recovery codes that came with the first one, and can be read here only."""

    factor: Authenticator
    codes: list[str] = field(default_factory=list)


def add_app(*, by: Actor, secret: str, code: str) -> Added:
    """Add an authenticator app that has this secret, as a code of it shows, which is used up by that."""
    period = period_of(secret, code)
    if period is None:
        raise Refusal(
            "This is not the code that the app shows for this key now. Look whether the telephone's clock is right, "
            "and try again.",
            field="code",
        )
    with transaction.atomic():
        user = _owner(by)
        if real().filter(user=user.pk, type=Authenticator.Type.TOTP).exists():
            raise Conflict("You have an authenticator app already: remove that one first.")
        factor = TOTP.activate(user, secret).instance
        factor.data[USED] = period
        factor.save(update_fields=["data"])
        return _added(by, user, factor)


def add_passkey(*, by: Actor, name: str, credential: dict[str, Any], alone: bool) -> Added:
    """Add a passkey that a browser made; `alone` if it signs in without the password."""
    name = _name(name)
    with transaction.atomic():
        user = _owner(by)
        if real().filter(user=user.pk, type=Authenticator.Type.WEBAUTHN).count() >= MOST_PASSKEYS:
            raise Conflict(f"You have {MOST_PASSKEYS} passkeys, the most that are allowed: remove one first.")
        factor = WebAuthn.add(user, name, credential).instance
        factor.data[ALONE] = alone
        factor.save(update_fields=["data"])
        return _added(by, user, factor)


def rename_passkey(*, by: Actor, factor: Authenticator, name: str) -> None:
    """Give a passkey of one's own another name."""
    name = _name(name)
    with transaction.atomic():
        user = _owner(by)
        row = _stored(user, factor)
        before, row.data["name"] = {"name": row.data.get("name", "")}, name
        row.save(update_fields=["data"])
        audit.record(by=by, action="person.factor-renamed", target=user, before=before, after={"name": name})


def remove(*, by: Actor, factor: Authenticator) -> None:
    """Remove an app or a passkey of one's own; with the last one go the recovery codes."""
    with transaction.atomic():
        user = _owner(by)
        row = _stored(user, factor)
        before = {"factor": _told(row)}
        row.delete()
        if not has_factor(user):
            if required_from() is not None:
                raise Conflict(LAST)
            Authenticator.objects.filter(user=user.pk).delete()
        audit.record(by=by, action="person.factor-removed", target=user, before=before)
        _tell(user)


def new_codes(*, by: Actor) -> list[str]:
    """Make recovery codes in place of those of before, and return them: they can be read here only."""
    with transaction.atomic():
        user = _owner(by)
        if not has_factor(user):
            raise Conflict(NO_FACTOR)
        codes = _make_codes(user)
        audit.record(by=by, action="person.recovery-codes-made", target=user, after={"codes": len(codes)})
    return codes


def reset(*, by: Actor, user: User) -> int:
    """Remove all second factors of somebody who lost theirs, and end their sessions; return how many there were.

    Not one's own, which the page Settings removes: a token alone would do it here.
    """
    with transaction.atomic():
        require_people(by)
        if by.user == user:
            raise Conflict("Your own second factors are removed on the page Settings.")
        found = real().filter(user=user.pk)
        told = sorted(_told(row) for row in found)
        if not told:
            raise Conflict(f"{user.username} has no second factor.")
        ended = end_sessions(by=by, user=user)
        Authenticator.objects.filter(user=user.pk).delete()
        audit.record(
            by=by,
            action="person.factors-reset",
            target=user,
            before={"factors": told},
            after={"factors": [], **ended},
        )
        _tell(user)
    return len(told)


def told_of_reset(removed: int, who: str = "An organisation admin") -> tuple[str, str]:
    """Return what is said of factors that somebody else removed: a subject, and a sentence."""
    what = f"{who} removed {count(removed, 'second factor')} of yours, and ended your sessions."
    return "The second factors of your account were removed", what


def _owner(by: Actor) -> User:
    """Return the actor's row, locked."""
    if by.user is None:
        raise Refusal("A part of Chamber has no second factors.")
    return sessions.lock_signed_in(by.user)


def _added(by: Actor, user: User, factor: Authenticator) -> Added:
    first = not Authenticator.objects.filter(user=user.pk, type=Authenticator.Type.RECOVERY_CODES).exists()
    codes = _make_codes(user) if first else []
    audit.record(by=by, action="person.factor-added", target=user, after={"factor": _told(factor)})
    _tell(user)
    return Added(factor, codes)


def _make_codes(user: User) -> list[str]:
    Authenticator.objects.filter(user=user.pk, type=Authenticator.Type.RECOVERY_CODES).delete()
    codes: list[str] = RecoveryCodes.activate(user).generate_codes()
    return codes


def _stored(user: User, factor: Authenticator) -> Authenticator:
    row: Authenticator | None = real().select_for_update().filter(user=user.pk, pk=factor.pk).first()
    if row is None:
        raise Conflict("This second factor was removed meanwhile.")
    return row


def _told(factor: Authenticator) -> str:
    kind = KINDS[factor.type]
    name = factor.data.get("name", "")
    return NAMES[kind].lower() + (f" {name}" if name else "")


def _tell(user: User) -> None:
    """After commit, have what is open of this person looked at again."""
    live.announce("teams", f"user:{user.pk}")


def _name(text: str) -> str:
    name = as_name(text)
    if not 1 <= len(name) <= LONGEST_NAME:
        raise Refusal(f"The name is {name[:80]!r}; 1 to {LONGEST_NAME} characters are allowed.", field="name")
    if problem := unfit_for_name(name):
        raise Refusal(problem, field="name")
    return name
