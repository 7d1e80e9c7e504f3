"""Whether somebody who is signed in showed lately that it is them: asked before what is dangerous in wrong hands.

A session may be stolen, or left open. What of pages and API asks for more than a session is the table `ACTS`, the one
place that says so; requests with a token are bounded by its scope instead. The sign-in itself counts.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.signals import user_logged_in
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.crypto import get_random_string

from chamber.errors import TooLarge
from chamber.http import refused, wants_fragment
from chamber.views_errors import problem

CONFIRMED = "confirmed_at"
"""The key of a session under which it says when its person last showed that it is them, in seconds since 1970."""
HELD = "held-requests"
HELD_AT_ONCE = 5
LONGEST_FORM = 64 * 1024
CODE = "reauthentication-required"

ACTS: Mapping[str, str] = {
    **dict.fromkeys(("POST chamber:tokens", "POST api-tokens"), "make an access token"),
    **dict.fromkeys(
        (
            "POST agentlink:connect",
            "POST agentlink:add-token",
            "POST api-clusters",
            "POST api-cluster-tokens",
        ),
        "make a token for an agent",
    ),
    **dict.fromkeys(
        (
            *("POST teams:member-add", "POST teams:member-remove", "POST api-members"),
            *("POST chamber:person-role-add", "POST chamber:person-role-remove"),
            *("PATCH api-member", "DELETE api-member", "POST api-declared"),
            *("POST chamber:sign-in-group-add", "POST chamber:sign-in-group-remove"),
            *("POST api-sign-in-groups", "DELETE api-sign-in-group"),
        ),
        "give or take roles",
    ),
    **dict.fromkeys(
        (
            *("POST chamber:groups", "POST chamber:group", "POST chamber:group-delete"),
            *("POST chamber:group-remove", "POST api-groups", "DELETE api-group"),
            *("POST api-group-people", "DELETE api-group-person"),
        ),
        "change groups",
    ),
    **dict.fromkeys(
        (
            *("POST chamber:people-csv-add", "POST api-people-csv"),
            *("POST chamber:people", "POST chamber:person", "POST chamber:person-link"),
            *(
                "POST chamber:person-disable",
                "POST chamber:person-enable",
                "POST chamber:person-reset-factors",
            ),
            *("POST api-people", "PATCH api-person", "POST api-person-link", "POST api-person-disable"),
            *("POST api-person-enable", "DELETE api-person-factors"),
            *("POST chamber:sign-in", "PUT api-sign-in", "POST chamber:person-unlink"),
            "DELETE api-person-provider",
        ),
        "change who gets in",
    ),
    **dict.fromkeys(
        (
            *("POST chamber:service-accounts", "POST chamber:service-account"),
            *("POST chamber:service-account-tokens", "POST chamber:service-account-token-rotate"),
            *("POST chamber:service-account-limits", "POST chamber:service-account-disable"),
            *("POST chamber:service-account-enable", "POST api-service-accounts"),
            *("PATCH api-service-account", "POST api-service-account-tokens"),
            *("POST api-service-account-token-rotate", "POST api-service-account-disable"),
            "POST api-service-account-enable",
        ),
        "change what programs get in",
    ),
    **dict.fromkeys(
        (
            *("GET chamber:factor-app", "POST chamber:factor-app", "GET chamber:factor-passkey"),
            *("POST chamber:factor-passkey", "POST chamber:factor-codes", "POST chamber:factor-remove"),
        ),
        "change your second factors",
    ),
    **dict.fromkeys(
        (
            *("POST chamber:end-session", "POST chamber:end-other-sessions"),
            *("DELETE api-person-sessions", "DELETE api-person-session"),
        ),
        "end sessions",
    ),
    "POST chamber:view-as": "see the pages as somebody else does",
    **dict.fromkeys(
        (
            *("POST teams:delete", "POST teams:pool-delete", "POST agentlink:delete-cluster"),
            *("POST agentlink:declare-lost", "DELETE api-team", "DELETE api-pool", "DELETE api-cluster"),
            "POST api-cluster-lost",
            *("POST chamber:credential-delete", "POST chamber:team-credential-delete"),
            *("DELETE api-credential", "DELETE api-team-credential"),
        ),
        "delete something",
    ),
}
"""What asks for it, by method and name of the URL: what the person is told that they are about to do."""


@dataclass(frozen=True, slots=True)
class HeldRequest:
    """A request that waits until its person showed that it is them; `fields` are those of a form, None for a page."""

    path: str
    act: str
    fields: list[tuple[str, str]] | None


def window_seconds() -> int:
    """Return for how long it counts."""
    return int(settings.REAUTHENTICATION_SECONDS)


def is_recent(request: HttpRequest) -> bool:
    """Return whether the session's person showed lately that it is them."""
    at = request.session.get(CONFIRMED, 0)
    return isinstance(at, int | float) and 0 <= time.time() - at < window_seconds()


def confirm(request: HttpRequest) -> None:
    """Note that the session's person showed it just now."""
    request.session[CONFIRMED] = int(time.time())


def held(request: HttpRequest, key: str) -> HeldRequest | None:
    """Return the request that was held under this key; None where there is none any more."""
    found = _all(request).get(key)
    if found is None:
        return None
    fields = found["fields"]
    return HeldRequest(
        found["path"], found["act"], None if fields is None else [(name, text) for name, text in fields]
    )


def release(request: HttpRequest, key: str) -> HeldRequest | None:
    """Return the request that was held under this key, once."""
    found, others = held(request, key), _all(request)
    if found is not None:
        request.session[HELD] = {name: each for name, each in others.items() if name != key}
    return found


class ReauthenticationMiddleware:
    """Holds a dangerous request of a session, and asks its person to show that it is them; after those for sign-in."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on."""
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        """Answer in place of the view where the act asks for more than the session."""
        match = request.resolver_match
        method = "GET" if request.method == "HEAD" else request.method
        act = ACTS.get(f"{method} {match.view_name}") if match else None
        api = request.path.startswith("/api/")
        # With a token it is no session that asks; one that is none is refused further on.
        by_token = api and request.headers.get("Authorization", "").lower().startswith("bearer ")
        if act is None or by_token or not request.user.is_authenticated or is_recent(request):
            return None
        if api:
            return problem(403, f"Confirm that it is you first: open {_page()} in this browser.", CODE)
        try:
            where = f"{_page()}?held={_hold(request, act)}"
        except TooLarge as refusal:
            return refused(request, refusal)
        if wants_fragment(request):
            return HttpResponse(status=403, headers={"HX-Redirect": where})
        return redirect(where)


def _page() -> str:
    return reverse("account_reauthenticate")


def _hold(request: HttpRequest, act: str) -> str:
    """Keep a request in the session; return the key under which it is."""
    fields = _fields(request.POST) if request.method == "POST" else None
    if fields is not None and sum(len(name) + len(text) for name, text in fields) > LONGEST_FORM:
        raise TooLarge(
            f"Confirm first that it is you, at {_page()}, and then send this again: it is too large to be kept."
        )
    key = get_random_string(12)
    others = list(_all(request).items())[1 - HELD_AT_ONCE :]
    request.session[HELD] = {
        **dict(others),
        key: {"path": request.get_full_path(), "act": act, "fields": fields},
    }
    return key


def _fields(sent: QueryDict) -> list[tuple[str, str]]:
    """Return what a form holds, but for its token against forgery, of which the page that goes on has its own."""
    return [
        (name, text)
        for name, texts in sent.lists()
        for text in texts
        if name != "csrfmiddlewaretoken" and isinstance(text, str)
    ]


def _all(request: HttpRequest) -> dict[str, Any]:
    found = request.session.get(HELD)
    return found if isinstance(found, dict) else {}


def register() -> None:
    """Have a sign-in count."""
    user_logged_in.connect(_signed_in, dispatch_uid="chamber.reauthentication")


def _signed_in(sender: Any, request: HttpRequest, **_: Any) -> None:  # noqa: ARG001 - Django's signature
    confirm(request)
    request.session.pop(HELD, None)
