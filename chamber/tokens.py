"""Making and revoking API tokens: one way for the page, the API and `chamber login`."""

from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from chamber import live, sessions, sign_in_trail
from chamber.errors import Conflict, NotAllowed, NotVisible, Refusal
from chamber.models import ApiToken, Scope, User
from chamber.words import count
from teams.actors import Via

DEFAULT_DAYS = 90
LONGEST_DAYS = 365
MOST_TOKENS = 100
"""Valid ones of one person."""


def create_token(
    *, user: User, name: str, scope: Scope, days: int, made_with: ApiToken | None = None, via: Via = Via.PAGE
) -> tuple[ApiToken, str]:
    """Store a new token of `user` and return it with its secret, which nobody can read again.

    One made with another token (`made_with`) expires with that one at the latest: a leaked token cannot
    renew itself. `user` is as they were authenticated: whoever was signed out since gets none.
    """
    if not 1 <= days <= LONGEST_DAYS:
        message = f"{count(days, 'day')}: a token may be valid for 1 to {LONGEST_DAYS} days."
        raise Refusal(message, field="expires_in_days")
    expires_at = timezone.now() + timedelta(days=days)
    if made_with and made_with.expires_at:
        expires_at = min(expires_at, made_with.expires_at)
    secret = ApiToken.new_secret()
    with transaction.atomic():
        owner = sessions.lock_signed_in(user)  # as do those who revoke all
        valid = _valid(owner)
        if made_with and not valid.filter(pk=made_with.pk).exists():
            raise Conflict(
                "The token was revoked meanwhile, or has expired: sign in again.", code="signed-out"
            )
        if valid.count() >= MOST_TOKENS:
            raise Conflict(
                f"You have {MOST_TOKENS} valid tokens, the most that are allowed: revoke one first."
            )
        token = ApiToken.objects.create(
            user=owner,
            name=name,
            token_hash=ApiToken.hash_of(secret),
            prefix=secret[:12],
            scope=scope,
            expires_at=expires_at,
        )
        sign_in_trail.token_made(token, via)
    return token, secret


def revoke_token(
    *, user: User, token_id: UUID, revoked_with: ApiToken | None = None, via: Via = Via.PAGE
) -> ApiToken:
    """Revoke one of the user's own tokens; revoking it again changes nothing.

    A token that may not manage can revoke only itself, which is how the command line signs out.
    """
    token = ApiToken.objects.select_related("user").filter(user=user, pk=token_id).first()
    if token is None:
        raise NotVisible(f"You have no token {str(token_id)!r}.")
    if revoked_with and revoked_with.pk != token.pk and revoked_with.scope != Scope.MANAGE:
        raise NotAllowed(f"A token of scope {revoked_with.scope!r} can revoke only itself.")
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


def _valid(user: User) -> QuerySet[ApiToken]:
    unexpired = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    return ApiToken.objects.filter(unexpired, user=user, revoked_at=None)
