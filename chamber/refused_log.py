"""A line of the log for each request that is refused: who asked from where, for what, and with which status."""

import logging
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import quote

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse

logger = logging.getLogger(__name__)

TOO_MANY = 429
"""Not told one by one, for then a flood would fill the log: `chamber_requests_total` counts them."""
SECRET = frozenset(
    {
        "chamber:link",
        "account_reset_password_from_key",
        "account_confirm_email",
        "openid_connect_callback",
    }
)
"""URLs whose address holds what lets its reader in: their pattern is told in its place."""
LONGEST = 200


class RefusedLogMiddleware:
    """Logs what is refused; where the address of the client is known, outside of all that refuses."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on; log it where it is refused."""
        response = self.get_response(request)
        if 400 <= response.status_code < 500 and response.status_code != TOO_MANY:
            address = request.META.get("REMOTE_ADDR") or "no address"
            logger.info(
                "Refused with %d: %s %s by %s from %s",
                response.status_code,
                quote(str(request.method)[:20]),
                told_address(request),
                _who(request) or "nobody known",
                address,
            )
        return response


def told_address(request: HttpRequest) -> str:
    """Return what a request asked for, without query and secrets, in characters that a line of a log may have."""
    match = request.resolver_match
    if match is None:  # whatever it was meant to be: of a link that was cut, a secret
        first = request.path_info.lstrip("/").partition("/")
        return quote(f"/{first[0]}{'/...' if first[2] else ''}"[:LONGEST])
    if match.view_name in SECRET:
        return f"/{match.route}"
    return quote(request.path_info[:LONGEST])


def _who(request: HttpRequest) -> str:
    with suppress(DatabaseError):
        return str(getattr(getattr(request, "user", None), "username", ""))
    return ""
