"""Sessions that nobody uses end: each use by a person, not by an open page, moves their end, up to the longest that a
session may last.

The end is the session's own, as Django keeps and looks at it everywhere: also for sockets, streams and kept fragments.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.signals import user_logged_in
from django.http import HttpRequest, HttpResponse

USED = "used_at"
"""The key of a session under which it says when its end was moved last, in seconds since 1970."""
BEGAN = "began_at"
"""The key under which it says when somebody signed in, likewise."""
STEPS = 96
"""Into so many parts its life is cut: its end is moved once in each, every 5 minutes of 8 hours."""


class IdleMiddleware:
    """Moves the end of a session that is used; after the middleware that knows whose it is."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on; the session is saved by the middleware around, which sends its cookie again too."""
        response = self.get_response(request)
        # An open page fetches its parts by itself; a request without the cookie has no session to look at.
        by_itself = request.headers.get("X-Chamber-Fragment") == "1"
        if (
            settings.SESSION_COOKIE_NAME in request.COOKIES
            and not by_itself
            and request.user.is_authenticated
        ):
            before = request.session.get(USED, 0)
            if not 0 <= time.time() - before < settings.SESSION_COOKIE_AGE / STEPS:
                _note(request)
        return response


def _note(request: HttpRequest) -> None:
    session, now = request.session, int(time.time())
    session[USED] = now
    # One from before this was noted begins now.
    last = session.setdefault(BEGAN, now) + settings.SESSION_LONGEST_SECONDS
    end = min(now + settings.SESSION_COOKIE_AGE, last)
    session.set_expiry(datetime.fromtimestamp(end, tz=UTC))


def register() -> None:
    """Have sessions noted as used when they begin: they are saved then anyway."""
    user_logged_in.connect(_begun, dispatch_uid="chamber.idle")


def _begun(sender: Any, request: HttpRequest, **_: Any) -> None:  # noqa: ARG001 - Django's signature
    request.session.pop(BEGAN, None)
    _note(request)
