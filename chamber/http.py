"""How views answer: a whole page or the fragment that htmx or a live section asked for."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Self
from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from chamber import live
from chamber.errors import Refusal


@dataclass(frozen=True, slots=True)
class Watched:
    """The topics of what a view shows, with their versions from before it read any row.

    Whoever holds the same roles on the same teams is shown the same, so their answers may be kept for each other
    (`chamber.fragments`); but for `only`, whose own things are shown, and `never`, who may do more with it than others.
    """

    topics: tuple[str, ...]
    versions: tuple[int, ...]
    only: UUID | None = None
    never: UUID | None = None

    @classmethod
    def now(cls, *topics: str, only: UUID | None = None) -> Self:
        """Return the topics with their versions of this moment (one round trip, where there is Redis)."""
        return cls(topics, tuple(live.versions(*topics)), only=only)

    def but_for(self, user_id: UUID) -> Self:
        """Return the same, with this user's answers not for others, nor others' for this user."""
        return replace(self, never=user_id)

    def seen_by(self, user_id: UUID) -> Self:
        """Return whose the answer to this user is: theirs alone where they are who may do more with it."""
        return replace(self, only=user_id, never=None) if self.never == user_id else self

    @property
    def stamp(self) -> str:
        """The versions as a section carries them (`data-live-version`)."""
        return " ".join(map(str, self.versions))

    @property
    def heard(self) -> str:
        """Topics and versions as a request names them (`X-Chamber-Heard`)."""
        return " ".join(f"{topic}={number}" for topic, number in zip(self.topics, self.versions, strict=True))


def confirmed_deletion(request: HttpRequest, name: str, delete: Callable[[], None], *, what: str) -> bool:
    """Delete something whose name was typed to confirm it; return whether it is gone, and say so, or why not.

    Who may not is refused as everywhere, whatever was typed.
    """
    typed = request.POST.get("confirm", "").strip()
    try:
        with transaction.atomic():
            delete()
            if typed != name:
                raise Refusal(f"Nothing was deleted: type {name} to confirm it, not {typed[:60]!r}.")
    except Refusal as refusal:
        if refusal.status in {403, 404}:
            raise
        messages.error(request, refusal.message)
        return False
    messages.success(request, f"{what} is deleted.")
    return True


def wants_fragment(request: HttpRequest) -> bool:
    """Return whether only a part of the page was asked for (by htmx or a live section), not by a history restore."""
    htmx = getattr(request, "htmx", None)
    asked = bool(htmx) and not getattr(htmx, "history_restore_request", False)
    return asked or request.headers.get("X-Chamber-Fragment") == "1"


def page(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    *,
    fragment: str | None = None,
    status: int = 200,
    watched: Watched | None = None,
) -> HttpResponse:
    """Render `template`, or only `fragment` where a part was asked for; both get the same context.

    With `watched`, templates find its topics as `live_topics` and its versions as `live_version`, and what is
    answered to a GET may be kept for others: a fragment of it holds no token against forgery, for scripts add it.
    """
    part = fragment if fragment and wants_fragment(request) else None
    values = dict(context)
    if watched is not None:
        values |= {"live_topics": " ".join(watched.topics), "live_version": watched.stamp}
        if part and request.method == "GET":
            values["csrf_token"] = ""
    response = render(request, part or template, values, status=status)
    if watched is not None:
        response.watched = watched  # type: ignore[attr-defined]
    response["Vary"] = "Cookie, HX-Request, X-Chamber-Fragment"
    response["Cache-Control"] = "no-store"
    return response


def too_soon(response: HttpResponse, refusal: Refusal) -> HttpResponse:
    """Return the page of a form that was refused: of one that is to be sent later, with 429 and when."""
    if refusal.status == 429:
        response.status_code = refusal.status
        response["Retry-After"] = str(refusal.retry_seconds or 1)
    return response


def toast(response: HttpResponse, message: str, *, level: str = "info") -> HttpResponse:
    """Have the page show `message` beside what it swaps in (an `HX-Trigger` event named `toast`)."""
    response["HX-Trigger"] = json.dumps({"toast": {"message": message, "level": level}})
    return response


def refused(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    """Return how pages tell a refusal: by a toast where a fragment was asked for, else by a page."""
    if wants_fragment(request):
        return toast(HttpResponse(refusal.message, status=refusal.status), refusal.message, level="error")
    response = render(request, "errors/refusal.html", {"refusal": refusal}, status=refusal.status)
    if refusal.retry_seconds is not None:
        response["Retry-After"] = str(refusal.retry_seconds)
    return response


View = Callable[..., HttpResponse]


def posted_from(page_name: str, *keys: str) -> Callable[[View], View]:
    """Return a decorator for a view that takes a form of another page, whose address has `keys` in common with it.

    A form that is refused is shown at the address that it was sent to: who reads that address, by Enter or a reload,
    is sent on to the page.
    """

    def decorate(view: View) -> View:
        posted = require_POST(view)

        @wraps(view)
        def take(request: HttpRequest, **values: Any) -> HttpResponse:
            if request.method in {"GET", "HEAD"}:
                answer: HttpResponse = redirect(page_name, **{key: values[key] for key in keys})
            else:
                answer = posted(request, **values)
            return answer

        return take

    return decorate
