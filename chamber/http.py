"""How views answer: a whole page or the fragment that htmx or a live section asked for."""

import json
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


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
) -> HttpResponse:
    """Render `template`, or only `fragment` where a part was asked for; both get the same context."""
    name = fragment if fragment and wants_fragment(request) else template
    response = render(request, name, dict(context), status=status)
    response["Vary"] = "Cookie, HX-Request, X-Chamber-Fragment"
    response["Cache-Control"] = "private, no-cache"
    return response


def toast(response: HttpResponse, message: str, *, level: str = "info") -> HttpResponse:
    """Have the page show `message` beside what it swaps in (an `HX-Trigger` event named `toast`)."""
    response["HX-Trigger"] = json.dumps({"toast": {"message": message, "level": level}})
    return response
