"""Browsers that a person signed in with before: known by a signed cookie, which grants nothing."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from chamber.models import User

KNOWN_SECONDS = 365 * 24 * 3600
MOST_PEOPLE = 10
"""Of one browser; beyond that, whoever signed in longest ago is forgotten."""
_SALT = "chamber.devices"


def knows(request: HttpRequest, user: User) -> bool:
    """Return whether the person signed in with this browser before, within a year."""
    return user.pk.hex in _people(request)


def remember(request: HttpRequest, response: HttpResponse, user: User) -> None:
    """Have the browser know the person from now on."""
    others = [each for each in _people(request) if each != user.pk.hex]
    people = [user.pk.hex, *others][:MOST_PEOPLE]
    response.set_signed_cookie(
        settings.DEVICES_COOKIE_NAME,
        ".".join(people),
        salt=_SALT,
        max_age=KNOWN_SECONDS,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _people(request: HttpRequest) -> list[str]:
    name = settings.DEVICES_COOKIE_NAME
    found = str(request.get_signed_cookie(name, default="", salt=_SALT, max_age=KNOWN_SECONDS))
    return found.split(".") if found else []
