"""Whether somebody who lacks a second factor may go on without: the one place that decides, for every door.

Once the organisation requires one and its days of grace are over, who lacks one can only set one up. The doors: pages
(the middleware), the API (the permission), sockets, streams and kept fragments (`sessions.user_of`, `Standing`), and
making a token by password. A token of a person goes no further than its person: it was made by the password alone, and
works again once they have a factor. Service accounts have no password, and nothing that a factor could stand beside.
"""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from rest_framework.permissions import BasePermission

from chamber import live
from chamber.errors import NotAllowed
from chamber.factors.reading import lack_factor
from chamber.http import wants_fragment
from chamber.models import User
from chamber.people.reading import STATES, PersonState, people
from teams.models import SignInPolicy
from teams.sign_in import required_from

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from rest_framework.request import Request
    from rest_framework.views import APIView

CODE = "second-factor-required"
NEEDED = (
    "The organisation requires a second factor, and you have none: sign in on the pages and set one up (Settings, "
    "Second factors)."
)
SETS_UP = frozenset(
    {
        *("chamber:factors", "chamber:factor-app", "chamber:factor-passkey", "chamber:factor-codes"),
        *("chamber:factor-rename", "chamber:factor-remove"),
        *("account_reauthenticate", "account_logout"),
    }
)
"""URLs that are open all the same: by these one sets a factor up, or leaves."""


def lacking() -> "QuerySet[User]":
    """Return who can sign in and has no second factor."""
    return lack_factor(people().filter(STATES[PersonState.ACTIVE]))


def due(user: User) -> datetime | None:
    """Return from when on somebody can only set up a second factor; None where they have one, or none is required."""
    at = required_from()
    if at is None or not user.is_authenticated or not lack_factor(people().filter(pk=user.pk)).exists():
        return None
    return at


def holds_back(user: User) -> bool:
    """Return whether somebody can only set up a second factor (a query only once the days of grace are over)."""
    at = required_from()
    return at is not None and at <= timezone.now() and due(user) is not None


class HasSecondFactor(BasePermission):
    """Lets nobody use the API who can only set up a second factor, by session or token."""

    def has_permission(self, request: "Request", view: "APIView") -> bool:  # noqa: ARG002 - DRF's signature
        """Return True, or refuse."""
        if isinstance(request.user, User):
            require(request.user)
        return True


def require(user: User) -> None:
    """Refuse who can only set up a second factor."""
    if holds_back(user):
        raise NotAllowed(NEEDED, code=CODE)


class HoldBackMiddleware:
    """Sends who can only set up a second factor to where they do; after the middleware that knows who asks."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on."""
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, *_: Any) -> HttpResponse | None:
        """Answer in place of the view; what needs no sign-in, and the API, which asks itself, is passed on."""
        open_to_all = not getattr(view, "login_required", True) or request.path.startswith("/api/")
        match = request.resolver_match
        if open_to_all or (match and match.view_name in SETS_UP) or not request.user.is_authenticated:
            return None
        if not holds_back(request.user):
            return None
        if wants_fragment(request):
            return HttpResponse(status=403, headers={"HX-Redirect": reverse("chamber:factors")})
        return redirect("chamber:factors")


def tell(now: datetime) -> int:
    """Have open pages of those who lack a factor looked at again, once the days of grace are over; return of how many.

    Nobody announces that a moment has come: a duty asks for it, and once is enough.
    """
    policy = SignInPolicy.objects.filter(told_at=None).first()
    if policy is None or policy.required_from is None or policy.required_from > now:
        return 0
    if not SignInPolicy.objects.filter(pk=policy.pk, version=policy.version, told_at=None).update(
        told_at=now
    ):
        return 0
    ids = list(lacking().values_list("pk", flat=True))
    live.announce("teams", *(f"user:{pk}" for pk in ids))
    return len(ids)
