"""Whose session it is, where no request has gone through the middleware for it."""

from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib import auth
from django.http import HttpRequest


def user_of(session_key: str) -> Any:
    """Return who is signed in with the session (2 queries); None where it has ended, or its user may no longer."""
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = auth.get_user(request)
    return user if user.is_authenticated else None
