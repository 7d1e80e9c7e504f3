"""Showing again that it is oneself, by a fresh sign-in at one's identity provider."""

import time
from collections.abc import Mapping
from typing import Any

from allauth.socialaccount.models import SocialAccount, SocialLogin
from django.http import HttpRequest, HttpResponse

from chamber import sign_in_trail
from chamber.errors import Refusal
from chamber.oidc.protocol import ProviderAnswer
from chamber.reauthentication import confirm, release
from chamber.views_again import go_on

ASKED = "again"
"""In what is kept of a sign-in that is under way: under which key the request is held for which it is asked."""
FRESH = {"prompt": "login", "max_age": "0"}
SLACK_SECONDS = 60
ANOTHER = "You signed in there as somebody else than you are signed in here: nothing was done."
STALE = (
    "The provider did not ask you to sign in anew, so that it shows nothing: sign out there, and try again."
)


def asked(key: str) -> dict[str, Any]:
    """Return what is kept of such a sign-in."""
    return {ASKED: key, "at": int(time.time())}


def is_asked(state: Mapping[str, Any]) -> bool:
    """Return whether a sign-in is only to show that somebody is themselves."""
    return ASKED in (state.get("data") or {})


def shown(request: HttpRequest, login: SocialLogin) -> HttpResponse:
    """Go on with the request that was held; refuse where it is somebody else, or no fresh sign-in."""
    answer: ProviderAnswer = login.answer
    data, at = login.state["data"], answer.claims.authenticated_at
    own = SocialAccount.objects.filter(
        provider=answer.provider.id, uid=answer.claims.key, user=request.user.pk
    )
    if not request.user.is_authenticated or not own.exists():
        raise Refusal(ANOTHER)
    if at is not None and at < data["at"] - SLACK_SECONDS:
        raise Refusal(STALE)
    confirm(request)
    sign_in_trail.confirmed(request.user, f"provider {answer.provider.id}")
    return go_on(request, release(request, data[ASKED]))
