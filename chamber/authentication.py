"""Who asks: bearer tokens of the API, what their scope lets through, and how fast a password may be tried."""

import hashlib
import logging
import math
import threading
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.contrib.auth import authenticate
from django.db.models import Q
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.permissions import SAFE_METHODS, BasePermission

from chamber import limits, logs, origin, sign_in_trail
from chamber.bounds import bind
from chamber.counts import cached, window
from chamber.counts import count as counted
from chamber.errors import Refusal
from chamber.limits import Exceeded, whereabouts
from chamber.metrics import sign_ins
from chamber.metrics.sign_ins import RefusedBy
from chamber.models import ApiToken, BearerToken, Scope, ServiceToken, User
from chamber.names import users_named
from chamber.tokens import includes
from chamber.transactions import if_free
from chamber.words import count
from teams.actors import Via

if TYPE_CHECKING:
    from django.http import HttpRequest
    from drf_spectacular.openapi import AutoSchema
    from rest_framework.request import Request
    from rest_framework.views import APIView

logger = logging.getLogger(__name__)

KINDS: tuple[type[BearerToken], ...] = (ApiToken, ServiceToken)
OF_AGENTS = "cha_"
WRONG_DOOR = (
    "This is the token of a cluster's agent, which opens the agents' link and nothing else. The API takes a person's "
    "token (chb_…, of the page Access tokens or `chamber login`) or a service account's (chs_…)."
)
LAST_USED_EVERY = timedelta(minutes=1)
SIGN_IN_WINDOW_SECONDS = 300
TRIES_PER_NAME = 10
TRIES_PER_ADDRESS = 100
TRIES_PER_NAME_FROM_EVERYWHERE = 200
ADDRESS_KNOWN_SECONDS = 30 * 24 * 3600
COMPARISONS_AT_ONCE = 3
"""Of passwords, in one process: fewer than it has threads."""


class _OverLimit(exceptions.APIException):
    """The framework's form of what is over a limit: of others it asks again who it is."""

    status_code = Exceeded.status
    default_code = Exceeded.code

    def __init__(self, error: Exceeded) -> None:
        super().__init__(error.message)
        self.wait = error.retry_seconds


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer chb_…` of people, `chs_…` of service accounts, found by its hash in one query.

    It becomes `request.auth`. Whoever comes with one that is for a team alone has no roles elsewhere, for this request.
    """

    def authenticate(self, request: "Request") -> tuple[User, BearerToken] | None:
        """Return the token's user and the token; None without a bearer token: then a session may answer."""
        try:
            return self._authenticate(request)
        except Exceeded as error:
            raise _OverLimit(error) from error

    @staticmethod
    def _authenticate(request: "Request") -> tuple[User, BearerToken] | None:
        kind, _, secret = get_authorization_header(request).decode("latin-1").partition(" ")
        if kind.lower() != "bearer":
            return None
        secret = secret.strip()
        if secret.startswith(OF_AGENTS):
            limits.count(limits.ANONYMOUS, whereabouts(str(request.META.get("REMOTE_ADDR", ""))))
            raise exceptions.AuthenticationFailed(WRONG_DOOR)
        kinds = (kind for kind in KINDS if secret.startswith(kind.PREFIX))
        token = next((kind.read().filter(token_hash=kind.hash_of(secret)).first() for kind in kinds), None)
        now = timezone.now()
        if token is None or not token.lets_in(now):
            address = str(request.META.get("REMOTE_ADDR", ""))
            limits.count(limits.ANONYMOUS, whereabouts(address))
            raise exceptions.AuthenticationFailed(_why_not(token, now))
        if token.last_used_at is None or now - token.last_used_at >= LAST_USED_EVERY:
            if_free(lambda: _note_use(token, now))
        limits.count(limits.PERSON, token.holder.pk, user=token.holder)
        limits.count(limits.TOKEN, token.pk, user=token.holder)
        bind(token.holder, token.bounds)
        return token.holder, token

    def authenticate_header(self, request: "Request") -> str:  # noqa: ARG002 - DRF's signature
        """Return the challenge that makes a missing or bad token a 401."""
        return "Bearer"


def _why_not(token: BearerToken | None, now: datetime) -> str:
    """Return why a token lets nobody in: of one that is valid, what became of its holder."""
    if isinstance(token, ServiceToken) and token.is_valid(now):
        account = token.account
        what = (
            "is disabled"
            if not account.user.is_active
            else f"belongs to {account.team.name}, which is archived"
        )
        return f"The service account {account.name} {what}: its tokens let nobody in."
    return "The token is unknown, expired or revoked: sign in again."


def _note_use(token: BearerToken, now: datetime) -> None:
    """Note when the token was used and from where, unless another request did, or is just doing it."""
    due = Q(last_used_at=None) | Q(last_used_at__lte=now - LAST_USED_EVERY)
    every = type(token)._default_manager
    rows = every.select_for_update(skip_locked=True, no_key=True).filter(due, pk=token.pk)
    if free := list(rows.values_list("pk", flat=True)):
        every.filter(pk__in=free).update(last_used_at=now, last_address=origin.now().address)


class TokenScope(BasePermission):
    """What a token's scope lets through; a session (no token) is limited by its person's roles only.

    A view names in `token_scope` the scope that writing to it takes: `admin`, unless it says otherwise. What it then
    does is bounded once more, by the permissions of the token's scope. One about the whole account, `of_account`, takes
    no token that is for a team alone.
    """

    def has_permission(self, request: "Request", view: "APIView") -> bool:
        """Return whether the token reaches this view with this method."""
        token = request.auth
        if not isinstance(token, BearerToken):
            return True
        if token.team is not None and getattr(view, "of_account", False):
            reach = f"{token.team.name} and the teams below it"
            self.message = f"The token reaches only {reach}; this is about the whole account."
            return False
        if request.method in SAFE_METHODS:
            return True
        wanted = getattr(view, "token_scope", Scope.ADMIN)
        self.message = f"The token's scope is {token.scope!r}; this needs {str(wanted)!r}."
        if isinstance(request.user, User) and (wanted != Scope.READ or includes(token.scope, Scope.MANAGE)):
            bind(request.user, replace(token.bounds, scope=token.scope))
        return includes(token.scope, wanted)


class TooManyTries(exceptions.Throttled):
    """Refuses another try to sign in for so many seconds."""

    extra_detail_singular = "Try again in {wait} second."
    extra_detail_plural = "Try again in {wait} seconds."


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI document describes the token."""

    target_class = "chamber.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: "AutoSchema") -> dict[str, Any]:  # noqa: ARG002
        """Return the security scheme."""
        return {"type": "http", "scheme": "bearer", "bearerFormat": "chb_… or chs_…"}


def sign_in(request: "HttpRequest", username: str, password: str, *, via: Via) -> User | None:
    """Return the user whose password this is, else None, which the trail notes; raise `Throttled` after too many tries.

    `username` may be an e-mail address.

    Counted by name and address together, by address alone, and by name alone. The last is for tries from everywhere,
    and spares addresses from which this name signed in before: nobody can lock somebody else out. Every try counts
    before its password is looked at; a right one empties the name's count at its address.
    """
    address = whereabouts(str(request.META.get("REMOTE_ADDR", "")))
    name = username.strip().replace("\x00", "").casefold()
    number, elapsed = window(SIGN_IN_WINDOW_SECONDS)
    here, known = _key("here", number, address, name), _key("known", address, name)
    tries = [(here, TRIES_PER_NAME), (_key("address", number, address), TRIES_PER_ADDRESS)]
    if not cached(lambda cache: cache.get(known)):
        tries.append((_key("name", number, name), TRIES_PER_NAME_FROM_EVERYWHERE))
    if any(counted(key, SIGN_IN_WINDOW_SECONDS) > most for key, most in tries):
        sign_ins.refused(RefusedBy.TOO_MANY)
        if _told.due():
            logger.warning("Tries to sign in from %s are refused: there are too many.", address)
        raise TooManyTries(wait=SIGN_IN_WINDOW_SECONDS - elapsed, detail="Too many attempts to sign in.")
    user = _authenticate(request, username.strip().replace("\x00", ""), password)
    if user is None:
        sign_in_trail.sign_in_failed(next(iter(users_named(username)), None), via)
    else:
        cached(lambda cache: cache.delete(here))
        cached(lambda cache: cache.set(known, True, ADDRESS_KNOWN_SECONDS))
    return user


def bound_tries(
    request: "HttpRequest",
    kind: str,
    *,
    most: int | None = None,
    of: str = "",
    seconds: int = SIGN_IN_WINDOW_SECONDS,
    counts: bool = True,
) -> None:
    """Count a try of this kind, by address, or by `of` where it is given; raise `Throttled` over `most` in `seconds`.

    Where it does not count, only those before it do: for what is counted once it has failed.
    """
    number, elapsed = window(seconds)
    whose = of.casefold() or whereabouts(str(request.META.get("REMOTE_ADDR", "")))
    key, most = _key(kind, number, whose), TRIES_PER_ADDRESS if most is None else most
    tried = counted(key, seconds) if counts else 1 + cached(lambda cache: cache.get(key, 0))
    if tried > most:
        raise TooManyTries(wait=seconds - elapsed, detail="Too many attempts.")


def too_many(error: exceptions.Throttled) -> Refusal:
    """Return how a page says it."""
    seconds = math.ceil(getattr(error, "wait", None) or 1)
    refusal = Refusal(f"{error.detail} Try again in {count(seconds, 'second')}.")
    refusal.status, refusal.retry_seconds = 429, seconds
    return refusal


def _authenticate(request: "HttpRequest", username: str, password: str) -> User | None:
    """Compare the password; raise `Throttled` where this process compares as many as it may.

    A comparison takes a processor for a good part of a second, on purpose; whoever wants something else goes first.
    """
    if not _comparing.acquire(blocking=False):
        raise TooManyTries(wait=1, detail="Very many sign in at this moment.")
    try:
        user = authenticate(request, username=username, password=password)
    finally:
        _comparing.release()
    return user if isinstance(user, User) else None


_told = logs.Seldom(every_seconds=10)
_comparing = threading.BoundedSemaphore(COMPARISONS_AT_ONCE)


def _key(kind: str, *parts: object) -> str:
    return f"sign-in:{kind}:" + hashlib.sha256(repr(parts).encode()).hexdigest()
