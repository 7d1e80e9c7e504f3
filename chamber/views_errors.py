"""Answers to requests that no view gets to see."""

import logging
import sys
from http import HTTPStatus

from django.conf import settings
from django.core.exceptions import DisallowedHost, RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.defaults import page_not_found

from chamber import logs
from chamber.errors import Refusal, TooLarge
from chamber.http import toast, wants_fragment
from chamber.serving.outages import outage
from chamber.transactions import is_unavailable

logger = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 1
TELL_HOSTS_EVERY_SECONDS = 60.0
LONGEST_HOST = 100
BUSY = "The database did not answer in time; nothing was done. Try again in a moment."


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Say why a request was not taken: 413 where its form is too large, else 400."""
    if isinstance(exception, DisallowedHost):
        return _unknown_host(request)
    if isinstance(exception, RequestDataTooBig):
        most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE // (1024 * 1024)
        refusal: Refusal = TooLarge(
            f"The form holds more than {most} MiB, the most that is taken; nothing was done."
        )
    else:
        refusal = Refusal(
            "The request cannot be read, or has too many parts; nothing was done.", code="bad-request"
        )
        refusal.status = 400
    if request.path.startswith("/api/"):
        return problem(refusal.status, refusal.message, refusal.code)
    return render(request, "errors/refusal.html", {"refusal": refusal}, status=refusal.status)


def _unknown_host(request: HttpRequest) -> HttpResponse:
    """Say that this server has another name: as a problem, a page, or a line for probes and commands; now and then
    also in the log, since any stranger can cause it.
    """
    given = request.META.get("HTTP_HOST") or request.META.get("SERVER_NAME", "")
    host = repr(given[:LONGEST_HOST])
    if _unknown_told.due():
        logger.warning(
            "A request was refused for its host, %s, under which this server does not answer. If people reach it by "
            "that name, add it to CHAMBER_HOSTS, without the port, and restart web and live.",
            host,
        )
    text = f"This server does not answer under the name {host}. Its operator adds names to CHAMBER_HOSTS."
    if request.path.startswith("/api/"):
        return problem(400, text, "unknown-host")
    if "text/html" not in request.headers.get("Accept", ""):
        return HttpResponse(f"{text}\n", status=400, content_type="text/plain; charset=utf-8")
    return render(request, "errors/400.html", {"text": text}, status=400)


_unknown_told = logs.Seldom(every_seconds=TELL_HOSTS_EVERY_SECONDS)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Say that there is nothing at this address: to programs as a problem, to people as a page."""
    if not request.path.startswith("/api/"):
        return page_not_found(request, exception)
    return problem(404, f"The API has nothing at {request.path[:200]!r}.", "not-found")


def server_error(request: HttpRequest) -> HttpResponse:
    """Say that the fault is ours, with the id under which the log has it; 503 where the database was not to be had."""
    error = sys.exc_info()[1]
    if is_unavailable(error) or outage(error) is not None:
        return _busy(request)
    if not request.path.startswith("/api/"):
        # Without the request: what the pages' chrome asks of the database may be what failed.
        return HttpResponse(
            render_to_string("500.html", {"request_id": logs.bound("request_id")}), status=500
        )
    return problem(500, "The server could not answer. It is logged under the request's id.", "fault")


def _busy(request: HttpRequest) -> HttpResponse:
    """Say that nothing was done and that the same may succeed soon."""
    if request.path.startswith("/api/"):
        answer: HttpResponse = problem(503, BUSY, "busy")
    elif wants_fragment(request):
        answer = toast(HttpResponse(BUSY, status=503), BUSY, level="error")
    else:
        answer = HttpResponse(render_to_string("errors/503.html", {"text": BUSY}), status=503)
    answer["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return answer


def problem(status: int, detail: str, code: str) -> JsonResponse:
    """Return how the API says it, where none of its views does."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "request_id": logs.bound("request_id"),
    }
    return JsonResponse(body, status=status, content_type="application/problem+json")
