"""Making and revoking API tokens: one way for the page, the API and `chamber login`."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from chamber import limits, live, sessions, sign_in_trail
from chamber.errors import Conflict, NotAllowed, NotVisible, Refusal
from chamber.models import ApiToken, BearerToken, Scope, User
from chamber.words import as_name, count, unfit_for_name
from teams.actors import Via
from teams.models import Team

DEFAULT_DAYS = 90
LONGEST_DAYS = 365
_RANK = {scope: rank for rank, scope in enumerate(Scope)}


def includes(scope: str, wanted: str) -> bool:
    """Return whether a token of `scope` may do what needs `wanted`."""
    return _RANK[Scope(scope)] >= _RANK[Scope(wanted)]


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """What a token to be made is called and may do: for so many days, everywhere or in a team and below it."""

    name: str
    scope: Scope
    days: int = DEFAULT_DAYS
    team: Team | None = None

    def refuse_more_than(self, token: BearerToken | None) -> None:
        """Refuse what is more than the token may do with which this one is to be made."""
        if token is None:
            return
        if not includes(token.scope, self.scope):
            raise NotAllowed(
                f"The token's scope is {str(token.scope)!r}: it makes none of the scope {str(self.scope)!r}."
            )
        if token.team is not None and not (self.team is not None and self.team.is_within(token.team)):
            raise NotAllowed(
                f"The token reaches only {token.team.name} and the teams below it: it makes none that reaches more. "
                f"Name the team {token.team.slug}, or one below it."
            )

    def fill(self, row: BearerToken, *, made_with: BearerToken | None = None) -> str:
        """Make the row such a token, unsaved, and return its secret, which nobody can read again.

        One made with another token expires with that one at the latest: a leaked token cannot renew itself.
        """
        secret = row.new_secret()
        row.name, row.scope, row.team = as_name(self.name), self.scope, self.team
        row.token_hash, row.prefix = row.hash_of(secret), secret[:12]
        row.expires_at = timezone.now() + timedelta(days=self.days)
        if made_with and made_with.expires_at:
            row.expires_at = min(row.expires_at, made_with.expires_at)
        return secret

    def refuse_wrong(self) -> None:
        """Refuse a length of time that no token is valid for, and a team that takes nothing new."""
        if problem := unfit_for_name(as_name(self.name)):
            raise Refusal(problem, field="name")
        if not 1 <= self.days <= LONGEST_DAYS:
            message = f"{count(self.days, 'day')}: a token may be valid for 1 to {LONGEST_DAYS} days."
            raise Refusal(message, field="expires_in_days")
        if self.team is not None and self.team.is_archived:
            raise Conflict(f"{self.team.name} was archived: nothing new is done in it.", field="team")


def create_token(
    *,
    user: User,
    name: str,
    scope: Scope,
    days: int,
    team: Team | None = None,
    made_with: ApiToken | None = None,
    via: Via = Via.PAGE,
) -> tuple[ApiToken, str]:
    """Store a new token of `user` and return it with its secret, which nobody can read again.

    `user` is as they were authenticated: whoever was signed out since gets none. A team is one that they see.
    """
    wanted = TokenRequest(name, scope, days, team)
    wanted.refuse_wrong()
    wanted.refuse_more_than(made_with)
    token = ApiToken()
    secret = wanted.fill(token, made_with=made_with)
    with transaction.atomic():
        owner = sessions.lock_signed_in(user)  # as do those who revoke all
        valid = _valid(owner)
        if made_with and not valid.filter(pk=made_with.pk).exists():
            raise Conflict(
                "The token was revoked meanwhile, or has expired: sign in again.", code="signed-out"
            )
        refuse_too_many(valid, limits.most_open("tokens", "", owner), "You have")
        token.user = owner
        token.save(force_insert=True)
        sign_in_trail.token_made(token, via)
    return token, secret


def refuse_too_many(valid: QuerySet[Any], most: int, who: str) -> None:
    """Refuse another token where somebody has so many valid ones; say when the first of them ends."""
    if valid.count() < most:
        return
    ends = valid.exclude(expires_at=None).order_by("expires_at").values_list("expires_at", flat=True).first()
    again = round((ends - timezone.now()).total_seconds()) + 1 if ends else limits.OPEN_AGAIN_SECONDS
    sentence = f"{who} {count(most, 'valid token')}, the most that are allowed: revoke one first."
    raise limits.exceeded("tokens", most, sentence, again=again)


def revoke_token(
    *, user: User, token_id: UUID, revoked_with: ApiToken | None = None, via: Via = Via.PAGE
) -> ApiToken:
    """Revoke one of the user's own tokens; revoking it again changes nothing.

    A token that may not do everything can revoke only itself, which is how the command line signs out.
    """
    token = ApiToken.objects.select_related("user").filter(user=user, pk=token_id).first()
    if token is None:
        raise NotVisible(f"You have no token {str(token_id)!r}.")
    if revoked_with and revoked_with.pk != token.pk:
        _require_whole(revoked_with)
    now = timezone.now()
    with transaction.atomic():
        if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
            sign_in_trail.token_revoked(token, via)
    return token


def revoke_all(user: User) -> int:
    """Revoke all valid tokens of somebody, whose row is locked; return how many."""
    revoked = _valid(user).update(revoked_at=timezone.now())
    live.announce(f"user:{user.pk}")
    return revoked


def _require_whole(token: ApiToken) -> None:
    """Refuse to revoke others with a token that may not do everything, or not everywhere."""
    if token.scope != Scope.ADMIN:
        raise NotAllowed(f"A token of scope {token.scope!r} can revoke only itself.")
    if token.team is not None:
        raise NotAllowed(f"A token that reaches only {token.team.name} can revoke only itself.")


def _valid(user: User) -> QuerySet[ApiToken]:
    unexpired = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    return ApiToken.objects.filter(unexpired, user=user, revoked_at=None)
