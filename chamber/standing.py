"""Whether somebody whose stream is open may still have it: the one place that decides for every kind of stream.

A stream asks every few seconds (`CHECK_SECONDS`), or when it is told that something of its reader changed.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from channels.db import database_sync_to_async
from django.contrib.auth import get_user_model
from django.db import DatabaseError

from chamber import sessions

if TYPE_CHECKING:
    from django.http import HttpRequest
    from rest_framework.request import Request

    from chamber.models import BearerToken, User

CHECK_SECONDS = 3.0
"""How often a stream looks again: what was taken away ends it within 5 seconds, the looking included."""

Allowed = Callable[[], Awaitable[bool]]


class StreamStanding:
    """Whose a stream is, and what let them begin it: a session, or a token."""

    def __init__(
        self, user_id: object, *, session_key: str | None = None, token: "BearerToken | None" = None
    ) -> None:
        self.user_id, self._session_key, self._token = user_id, session_key, token
        self.ends_at: datetime | None = None
        """When the session ends unless it is used until then, as of the last look; None for a token."""

    @classmethod
    def of(cls, request: "Request | HttpRequest") -> Self:
        """Return that of a request of a page or of the API."""
        token: Any = getattr(request, "auth", None)
        session = getattr(request, "session", None) if token is None else None
        return cls(request.user.pk, session_key=getattr(session, "session_key", None), token=token)

    def user(self) -> "User | None":
        """Return who it is, as they are now, roles included; None where account, session or token let nobody in any
        more (at most three queries).
        """
        if self._token is not None:
            holder = self._token.holder_now()
            return None if holder is None or sessions.held_back(holder) else holder
        if self._session_key:
            found: User | None
            found, self.ends_at = sessions.reader_of(self._session_key)
            return found if found is not None and found.pk == self.user_id else None
        users: Any = get_user_model().objects
        return users.filter(pk=self.user_id, is_active=True).first()  # type: ignore[no-any-return]

    def holds(self, sees: Callable[["User"], bool]) -> bool:
        """Return whether the reader is let in and still `sees` what the stream shows."""
        try:
            user = self.user()
            return user is not None and sees(user)
        except DatabaseError:
            return True  # the next look is soon enough

    def allowed(self, sees: Callable[["User"], bool]) -> Allowed:
        """Return what an asynchronous stream asks: whether it `holds`."""
        asked: Allowed = database_sync_to_async(lambda: self.holds(sees), thread_sensitive=False)
        return asked
