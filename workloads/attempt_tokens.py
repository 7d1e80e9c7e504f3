"""The token of one attempt: its pods say by it what they saved and how far they are, and can do nothing else.

It is signed by the secret key and stored nowhere; it holds until no pod of the attempt is left.
"""

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.core.signing import BadSignature, Signer
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication, get_authorization_header

from chamber import limits
from workloads.models import Attempt

if TYPE_CHECKING:
    from drf_spectacular.openapi import AutoSchema
    from rest_framework.request import Request

PREFIX = "cht_"
LONGEST = 200
NEEDED = "Send Authorization: Bearer with the token that is in CHAMBER_NOTES_TOKEN of the attempt's pods."
UNKNOWN = "The token is none of an attempt: send the one that is in CHAMBER_NOTES_TOKEN of its pods."
OVER = "The token ended with its attempt, of which no pod is left."


def token_of(attempt_id: UUID) -> str:
    """Return the token of an attempt, always the same under one secret key."""
    return f"{PREFIX}{_signer().sign(attempt_id.hex)}"


def attempt_in(token: str) -> UUID | None:
    """Return the attempt whose token this is; None where it is none."""
    if not token.startswith(PREFIX) or len(token) > LONGEST:
        return None
    try:
        return UUID(hex=_signer().unsign(token.removeprefix(PREFIX)))
    except (BadSignature, ValueError):
        return None


def _signer() -> Signer:
    return Signer(sep=".", salt="chamber.attempt-token")


class AttemptAuthentication(BaseAuthentication):
    """`Authorization: Bearer cht_…`: the attempt becomes `request.auth`; nobody is signed in."""

    def authenticate(self, request: "Request") -> tuple[AnonymousUser, Attempt]:
        """Return the attempt of the token (1 query); raise where there is none, or it is over."""
        kind, _, secret = get_authorization_header(request).decode("latin-1").partition(" ")
        attempt_id = attempt_in(secret.strip()) if kind.lower() == "bearer" else None
        if attempt_id is None:
            self._count(request)
            raise exceptions.AuthenticationFailed(UNKNOWN if secret else NEEDED)
        attempt = Attempt.objects.filter(pk=attempt_id, released_at__isnull=True).first()
        if attempt is None:
            self._count(request)
            raise exceptions.AuthenticationFailed(OVER)
        return AnonymousUser(), attempt

    def authenticate_header(self, request: "Request") -> str:  # noqa: ARG002 - DRF's signature
        """Return the challenge that makes a missing or bad token a 401."""
        return "Bearer"

    @staticmethod
    def _count(request: "Request") -> None:
        address = str(request.META.get("REMOTE_ADDR", ""))
        limits.count(limits.ANONYMOUS, limits.whereabouts(address))


class AttemptScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI document describes the token."""

    target_class = "workloads.attempt_tokens.AttemptAuthentication"
    name = "attempt"

    def get_security_definition(self, auto_schema: "AutoSchema") -> dict[str, Any]:  # noqa: ARG002
        """Return the security scheme."""
        return {"type": "http", "scheme": "bearer", "bearerFormat": "cht_…"}
