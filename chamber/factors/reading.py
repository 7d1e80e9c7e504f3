"""Reading second factors: which somebody has, and who has one."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.db.models import Exists, OuterRef, QuerySet

from chamber import encryption
from chamber.errors import no_such
from chamber.factors.passkeys import ALONE
from chamber.models import User
from chamber.oidc.reading import strong


class FactorKind(StrEnum):
    """What a factor is; as the API and the trail name it."""

    APP = "app"
    PASSKEY = "passkey"
    RECOVERY_CODES = "recovery-codes"


KINDS = {
    Authenticator.Type.TOTP: FactorKind.APP,
    Authenticator.Type.WEBAUTHN: FactorKind.PASSKEY,
    Authenticator.Type.RECOVERY_CODES: FactorKind.RECOVERY_CODES,
}
NAMES = {
    FactorKind.APP: "Authenticator app",
    FactorKind.PASSKEY: "Passkey",
    FactorKind.RECOVERY_CODES: "Recovery codes",
}


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor as it is shown. `alone`: it does without the password. `left`: how many codes were not used yet; None
    where that cannot be read, or is no matter of codes.
    """

    id: int
    kind: FactorKind
    name: str
    added_at: datetime
    last_used_at: datetime | None
    alone: bool = False
    left: int | None = None

    @classmethod
    def of(cls, row: Authenticator) -> "Factor":
        """Return a stored one."""
        kind = KINDS[row.type]
        name = row.data.get("name", "") if kind is FactorKind.PASSKEY else NAMES[kind]
        left = _left(row) if kind is FactorKind.RECOVERY_CODES else None
        alone = bool(row.data.get(ALONE))
        return cls(row.pk, kind, name, row.created_at, row.last_used_at, alone=alone, left=left)


def factors_of(user: User) -> list[Factor]:
    """Return somebody's factors, the oldest first, recovery codes last."""
    rows = Authenticator.objects.filter(user=user.pk).order_by("pk")
    return sorted(map(Factor.of, rows), key=lambda each: each.kind is FactorKind.RECOVERY_CODES)


def factor_of(user: User, factor_id: int, kind: FactorKind | None = None) -> Authenticator:
    """Return one of somebody's apps and passkeys; raise `NotVisible` where they have none of this id, or kind."""
    rows = real().filter(user=user.pk, pk=factor_id) if factor_id < 2**63 else real().none()
    found: Authenticator | None = next(
        (row for row in rows if kind is None or KINDS[Authenticator.Type(row.type)] is kind), None
    )
    if found is None:
        raise no_such("second factor", factor_id)
    return found


def real() -> "QuerySet[Authenticator]":
    """Return what is a second factor: recovery codes only stand in for one."""
    rows: QuerySet[Authenticator] = Authenticator.objects.exclude(type=Authenticator.Type.RECOVERY_CODES)
    return rows


def has_factor(user: User) -> bool:
    """Return whether somebody has a second factor."""
    return real().filter(user=user.pk).exists()


def with_factor(ids: Collection[UUID]) -> set[UUID]:
    """Return which of these people have one."""
    return set(real().filter(user__in=ids).values_list("user", flat=True))


def lack_factor(rows: "QuerySet[User]") -> "QuerySet[User]":
    """Return those of these people who have no second factor: neither here, nor at the provider by which alone they can
    sign in, where that asks for one.
    """
    lacking = rows.filter(~own_factor())
    asked_there = strong()
    if asked_there:
        linked = SocialAccount.objects.filter(user=OuterRef("pk"), provider__in=asked_there)
        lacking = lacking.exclude(Exists(linked), password__startswith=UNUSABLE_PASSWORD_PREFIX)
    return lacking


def own_factor() -> Exists:
    """Return the condition that a row of `User` has a second factor."""
    return Exists(real().filter(user=OuterRef("pk")))


def _left(row: Authenticator) -> int | None:
    try:
        return len(row.wrap().get_unused_codes())
    except encryption.UnreadableSecret:
        return None
