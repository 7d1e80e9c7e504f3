"""Browser sessions: whose one is, which somebody has, when each was last used, and ending them."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib import auth
from django.contrib.sessions.models import Session
from django.core.cache import caches
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.module_loading import import_string

from chamber import live
from chamber.errors import Conflict
from chamber.transactions import if_free

if TYPE_CHECKING:
    from chamber.models import User

HELD_LINK = "account-link"
"""Of a session: the secret of the link for a password that was opened in it."""
VIEWING = "viewing-as"
"""Of a session: as whom it sees the pages (`chamber.viewing`), and until when."""
SEEN_EVERY = timedelta(minutes=1)
ENDED = "You were signed out meanwhile; nothing was done. Sign in again."


def held_back(user: "User") -> bool:
    """Return whether somebody who is signed in may do nothing yet; what decides that lies above, called by name."""
    decided: bool = import_string(settings.CHAMBER_HOLDS_BACK)(user)
    return decided


def user_of(session_key: str) -> Any:
    """Return who is let in with the session (2 queries); None where it has ended, or its user may no longer, or may do
    nothing yet, or sees the pages as somebody else does, for which there are no streams.
    """
    return reader_of(session_key)[0]


def reader_of(session_key: str) -> tuple[Any, datetime | None]:
    """Return who is let in with the session, likewise, and when it ends unless it is used until then."""
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = auth.get_user(request)
    if not user.is_authenticated or VIEWING in request.session or held_back(user):
        return None, None
    return user, request.session.get_expiry_date()


def of(user: "User") -> list[UserSession]:
    """Return the sessions with which somebody is signed in, the last used first; others are forgotten."""
    found = UserSession.objects.purge_and_list(user)
    return sorted(found, key=lambda session: session.last_seen_at, reverse=True)


def end(sessions: Iterable[UserSession]) -> int:
    """End these sessions, and what is open by them; return how many."""
    found = list(sessions)
    keys = [session.session_key for session in found]
    Session.objects.filter(session_key__in=keys).delete()
    UserSession.objects.filter(session_key__in=keys).delete()
    live.announce(*(live.session_topic(key) for key in keys))
    return len(keys)


def lock_signed_in(user: "User") -> "User":
    """Return the person's row, locked until the transaction ends, while what signed them in still does.

    `user` is as the request found them. A new password, ended sessions and a disabled account change the hash of
    their sessions: a request that was under way meanwhile is refused, or it would outlive what ended it.
    """
    rows: Any = auth.get_user_model().objects.select_for_update(no_key=True)
    now: User | None = rows.filter(pk=user.pk, is_active=True).first()
    if now is None or not constant_time_compare(now.get_session_auth_hash(), user.get_session_auth_hash()):
        raise Conflict(ENDED, code="signed-out")
    return now


class SeenMiddleware:
    """Notes when a session was last used and from where, at most once a minute."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on, and note it."""
        response = self.get_response(request)
        # A request with a token alone has no session: it is not asked for one here.
        if settings.SESSION_COOKIE_NAME in request.COOKIES and response.status_code < 500:
            with suppress(DatabaseError):
                self._see(request)
        return response

    @staticmethod
    def _see(request: HttpRequest) -> None:
        key = request.session.session_key if request.user.is_authenticated else None
        if key and is_due(key):
            if_free(lambda: _note(request))


def is_due(key: str) -> bool:
    """Return whether the use of a session is to be noted; then not again for a minute, by this process."""
    return bool(caches["process"].add(f"seen:{live.session_topic(key)}", 1, SEEN_EVERY.total_seconds()))


def _note(request: HttpRequest) -> None:
    """Note the session's use, unless another process just did; one that is not known yet is taken in."""
    now = timezone.now()
    row = UserSession.objects.filter(session_key=request.session.session_key)
    due = row.filter(user=request.user.pk, last_seen_at__lte=now - SEEN_EVERY)
    address = request.META.get("REMOTE_ADDR") or "0.0.0.0"  # noqa: S104 - no address to listen on
    agent = request.headers.get("User-Agent", "")
    if not due.update(last_seen_at=now, ip=address, user_agent=agent[:200]) and not row.exists():
        UserSession.objects.create_from_request(request)
