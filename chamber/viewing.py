"""Seeing the pages as somebody else does: for organisation admins, read-only, for a while, and told by the audit trail.

A session holds as whom it sees. The middleware here is the one place that applies it: it gives views that person,
refuses whatever is no mere look, the API as a whole, and what is that person's alone. Streams, sockets and kept
fragments know no such session (`sessions.user_of`): its pages do not change by themselves.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from chamber import live
from chamber.errors import Conflict, NotAllowed, Refusal, no_such
from chamber.http import refused
from chamber.models import User
from chamber.sessions import VIEWING
from chamber.views_errors import problem
from teams import audit
from teams.actors import Actor, Via
from teams.permissions import PERMISSIONS, Permission, may_anywhere, roles_by_path

MINUTES = 30
"""How long it goes on unless it is ended before."""
CODE = "viewing-as"
ENDS = frozenset({"chamber:view-as-end", "account_logout"})
"""What may be sent all the same, as oneself."""
ASK_NO_SESSION = frozenset({"api-login", "api-schema"})
"""What of the API is answered without looking at a session."""
THEIRS_ALONE = (
    "chamber:settings",
    "chamber:tokens",
    "chamber:factor",
    "chamber:export-own",
    "account_",
    "mfa_",
)
"""With this the names of URLs begin whose pages show secrets and settings of who looks."""
API = "/api/"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Viewing:
    """Who sees the pages as whom, and until when, in seconds since 1970."""

    admin: User
    user: User
    until: float

    @property
    def minutes_left(self) -> int:
        """How many minutes are left, begun ones included."""
        return max(1, -int((time.time() - self.until) // 60))


def find(username: str) -> User:
    """Return the person or service account with this user name."""
    found = User.objects.filter(username=username.replace("\x00", "")).first()
    if found is None:
        raise no_such("user", username)
    return found


def require_admin(admin: User) -> None:
    """Refuse who manages no accounts."""
    if not may_anywhere(admin, Permission.MANAGE_PEOPLE):
        raise NotAllowed("Only organisation admins see the pages as somebody else does.")


def require(admin: User, user: User) -> None:
    """Refuse who may not see the pages as this person or service account does."""
    require_admin(admin)
    if user == admin:
        raise Conflict("You see the pages as you do already.")
    if not user.is_active:
        raise Conflict(f"{user.username} is disabled and sees no page.")
    own, theirs = roles_by_path(admin), roles_by_path(user)
    more = user.is_superuser and not admin.is_superuser
    for path, roles in theirs.items():
        reach = [
            PERMISSIONS[role] for place, given in own.items() if path.startswith(place) for role in given
        ]
        more = more or not frozenset().union(*(PERMISSIONS[role] for role in roles)) <= frozenset().union(
            *reach
        )
    if more:
        raise NotAllowed(
            f"{user.username} may do more than you: nobody sees the pages as such a person does."
        )


def begin(request: HttpRequest, admin: User, user: User) -> None:
    """Have the session see the pages as this person does, from its next request on."""
    require(admin, user)
    with transaction.atomic():
        after = {"minutes": MINUTES}
        audit.record(by=_by(admin), action="person.view-as-begun", target=user, after=after)
        request.session[VIEWING] = {"user": str(user.pk), "until": time.time() + MINUTES * 60}
        _tell(request)


def end(request: HttpRequest, admin: User, why: str = "ended") -> str:
    """Have the session see the pages as its own person again; return as whom it did, "" where it did not."""
    held = request.session.pop(VIEWING, None)
    user = _user(held)
    if user is None:
        return ""
    with transaction.atomic():
        after = {"why": why}
        audit.record(by=_by(admin), action="person.view-as-ended", target=user, after=after)
        _tell(request)
    return user.username


def _tell(request: HttpRequest) -> None:
    """Have other pages of the session loaded anew."""
    live.announce(live.session_topic(request.session.session_key or ""))


def _by(admin: User) -> Actor:
    return Actor.person(admin, Via.PAGE)


def _user(held: Any) -> User | None:
    try:
        return User.objects.filter(pk=UUID(held["user"])).first()
    except (TypeError, KeyError, ValueError):
        return None


class ViewingMiddleware:
    """Gives views the person as whom the session sees; after the middleware that notes whose the session is."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on as that person's; what stands around this knows only whose session it is."""
        admin: Any = request.user
        viewing = _viewing(request) if settings.SESSION_COOKIE_NAME in request.COOKIES else None
        if viewing is None:
            return self.get_response(request)
        request.viewing = viewing  # type: ignore[attr-defined]
        request.user = viewing.user
        try:
            response = self.get_response(request)
        finally:
            request.user = admin
        # Nothing is kept for others: it was not made for who asks.
        if hasattr(response, "watched"):
            del response.watched
        response["Cache-Control"] = "no-store"
        return response

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        """Answer in place of the view where this is no mere look, or what it shows is that person's alone."""
        viewing: Viewing | None = getattr(request, "viewing", None)
        name = request.resolver_match.view_name if request.resolver_match else ""
        by_token = request.headers.get("Authorization", "").lower().startswith("bearer ")
        if viewing is None or (request.path.startswith(API) and by_token):
            return None
        if name in ENDS | ASK_NO_SESSION:
            request.user = viewing.admin
            return None
        refusal = _refusal(request, viewing, name)
        if refusal and request.path.startswith(API):
            return problem(refusal.status, refusal.message, CODE)
        return refused(request, refusal) if refusal else None


def _refusal(request: HttpRequest, viewing: Viewing, name: str) -> Refusal | None:
    """Return why a request is not let through; None for a look at what others may see."""
    who, text = viewing.user.username, ""
    if request.path.startswith(API):
        text = f"You see the pages as {who}: the API has none of it. End it first."
    elif request.method not in SAFE:
        text = f"You see the pages as {who}: nothing can be changed. End it first."
    elif name.startswith(THEIRS_ALONE):
        text = f"Settings, tokens, sessions and second factors of {who} are shown to nobody else."
    return NotAllowed(text, code=CODE) if text else None


def _viewing(request: HttpRequest) -> Viewing | None:
    """Return as whom the session sees; end that where its time is over, or it would not be let begin now."""
    admin: Any = request.user
    held = request.session.get(VIEWING) if admin.is_authenticated else None
    if held is None:
        return None
    user = _user(held)
    over = user is None or time.time() >= held.get("until", 0)
    if user is not None and not over:
        try:
            require(admin, user)
        except Refusal:
            over = True
    if user is None or over:
        end(request, admin, "time over" if time.time() >= held.get("until", 0) else "not allowed any more")
        return None
    return Viewing(admin, user, held["until"])
