"""Making and revoking API tokens: one way for the page, the API and `chamber login`."""

from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from chamber import live, sign_in_trail
from chamber.errors import NotAllowed, NotVisible, Refusal
from chamber.models import ApiToken, Scope, User
from chamber.words import count
from teams.actors import Via

DEFAULT_DAYS = 90
LONGEST_DAYS = 365


def create_token(
    *, user: User, name: str, scope: Scope, days: int, made_with: ApiToken | None = None, via: Via = Via.PAGE
) -> tuple[ApiToken, str]:
    """Store a new token of `user` and return it with its secret, which nobody can read again.

    One made with another token (`made_with`) expires with that one at the latest: a leaked token cannot
    renew itself.
    """
    if not 1 <= days <= LONGEST_DAYS:
        message = f"{count(days, 'day')}: a token may be valid for 1 to {LONGEST_DAYS} days."
        raise Refusal(message, field="expires_in_days")
    expires_at = timezone.now() + timedelta(days=days)
    if made_with and made_with.expires_at:
        expires_at = min(expires_at, made_with.expires_at)
    secret = ApiToken.new_secret()
    with transaction.atomic():
        token = ApiToken.objects.create(
            user=user,
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
    """Revoke all valid tokens of somebody; return how many."""
    now = timezone.now()
    valid = ApiToken.objects.filter(Q(expires_at=None) | Q(expires_at__gt=now), user=user, revoked_at=None)
    revoked = valid.update(revoked_at=now)
    live.announce(f"user:{user.pk}")
    return revoked
