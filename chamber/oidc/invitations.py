"""Joining by an identity provider, from the page of an invitation's link."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest

from chamber.models import AccountLink
from chamber.people.actions import gone
from chamber.sessions import HELD_LINK

ASKED = "invitation"
"""In what is kept of a sign-in that is under way: the hash of the link from whose page it began."""


def asked(request: HttpRequest) -> dict[str, Any]:
    """Return what is kept of such a sign-in; refuse where the session holds no link any more."""
    secret = _held(request)
    if not secret:
        raise gone()
    return {ASKED: AccountLink.hash_of(secret)}


def secret_of(request: HttpRequest, state: Mapping[str, Any]) -> str:
    """Return the secret of the link from whose page a sign-in began, "" where it began elsewhere; refuse where another
    link was opened meanwhile.
    """
    begun = (state.get("data") or {}).get(ASKED)
    if begun is None:
        return ""
    secret = _held(request)
    if not secret or AccountLink.hash_of(secret) != begun:
        raise gone()
    return secret


def forget(request: HttpRequest) -> None:
    """Forget the link that the session holds, once it was used."""
    request.session.pop(HELD_LINK, None)


def _held(request: HttpRequest) -> str:
    return str(request.session.get(HELD_LINK, ""))
