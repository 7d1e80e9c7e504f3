"""Who asks: bearer tokens of the API, what their scope lets through, and how fast a password may be tried."""

import hashlib
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.contrib.auth import authenticate
from django.core.cache import cache
from django.db.models import Q
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.permissions import SAFE_METHODS, BasePermission

from chamber.models import ApiToken, Scope, User

if TYPE_CHECKING:
    from django.http import HttpRequest
    from drf_spectacular.openapi import AutoSchema
    from rest_framework.request import Request
    from rest_framework.views import APIView

LAST_USED_EVERY = timedelta(minutes=1)
SIGN_IN_WINDOW_SECONDS = 300
TRIES_PER_NAME = 10
TRIES_PER_ADDRESS = 100

_RANK = {Scope.READ: 0, Scope.SUBMIT: 1, Scope.MANAGE: 2}


def includes(scope: str, wanted: str) -> bool:
    """Return whether a token of `scope` may do what needs `wanted`."""
    return _RANK[Scope(scope)] >= _RANK[Scope(wanted)]


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer chb_…`, found by its hash in one query; it becomes `request.auth`."""

    def authenticate(self, request: "Request") -> tuple[User, ApiToken] | None:
        """Return the token's user and the token; None without a bearer token: then a session may answer."""
        kind, _, secret = get_authorization_header(request).decode("latin-1").partition(" ")
        if kind.lower() != "bearer":
            return None
        token = (
            ApiToken.objects.select_related("user")
            .filter(token_hash=ApiToken.hash_of(secret.strip()))
            .first()
        )
        now = timezone.now()
        if token is None or not token.is_valid(now) or not token.user.is_active:
            raise exceptions.AuthenticationFailed("The token is unknown, expired or revoked: sign in again.")
        if token.last_used_at is None or now - token.last_used_at >= LAST_USED_EVERY:
            unused = Q(last_used_at=None) | Q(last_used_at__lte=now - LAST_USED_EVERY)
            ApiToken.objects.filter(unused, pk=token.pk).update(last_used_at=now)
        return token.user, token

    def authenticate_header(self, request: "Request") -> str:  # noqa: ARG002 - DRF's signature
        """Return the challenge that makes a missing or bad token a 401."""
        return "Bearer"


class TokenScope(BasePermission):
    """What a token's scope lets through; a session (no token) is limited by its person's roles only.

    `read`: reading. `submit`: also writes to views that name `token_scope = "submit"`. `manage`: all.
    """

    def has_permission(self, request: "Request", view: "APIView") -> bool:
        """Return whether the token reaches this view with this method."""
        token = request.auth
        if not isinstance(token, ApiToken) or request.method in SAFE_METHODS:
            return True
        wanted = getattr(view, "token_scope", Scope.MANAGE)
        self.message = f"The token's scope is {token.scope!r}; this needs {str(wanted)!r}."
        return includes(token.scope, wanted)


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI document describes the token."""

    target_class = "chamber.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: "AutoSchema") -> dict[str, Any]:  # noqa: ARG002
        """Return the security scheme."""
        return {"type": "http", "scheme": "bearer", "bearerFormat": "chb_…"}


def sign_in(request: "HttpRequest", username: str, password: str) -> User | None:
    """Return the user whose password this is, else None; raise `Throttled` after too many tries.

    Counted by name and address together, so that nobody can lock somebody else out, and by address alone.
    Every try counts before its password is looked at; a right one empties the name's count.
    """
    address = str(request.META.get("REMOTE_ADDR", ""))
    window, elapsed = divmod(time.time(), SIGN_IN_WINDOW_SECONDS)
    by_name = _key(window, address, username.strip().casefold())
    if _count(by_name) > TRIES_PER_NAME or _count(_key(window, address)) > TRIES_PER_ADDRESS:
        raise exceptions.Throttled(
            wait=SIGN_IN_WINDOW_SECONDS - elapsed, detail="Too many attempts to sign in."
        )
    user = authenticate(request, username=username, password=password)
    if user is not None:
        cache.delete(by_name)
    return user if isinstance(user, User) else None


def _key(window: float, *parts: str) -> str:
    return "sign-in:" + hashlib.sha256(repr((window, parts)).encode()).hexdigest()


def _count(key: str) -> int:
    """Add one to a counter of the cache and return it."""
    cache.add(key, 0, SIGN_IN_WINDOW_SECONDS)
    try:
        return cache.incr(key)
    except ValueError:
        # It expired between the two lines: a new window began.
        return 1
