"""Answers to requests that no view gets to see."""

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.defaults import page_not_found

from chamber.errors import Refusal, TooLarge


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Say why a request was not taken: 413 where its form is too large, else 400."""
    if isinstance(exception, RequestDataTooBig):
        most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE // (1024 * 1024)
        refusal: Refusal = TooLarge(
            f"The form holds more than {most} MiB, the most that is taken; nothing was done."
        )
    else:
        refusal = Refusal("The request is not one that a browser sends; nothing was done.")
        refusal.status = 400
    return render(request, "errors/refusal.html", {"refusal": refusal}, status=refusal.status)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Say that there is nothing at this address: to programs as a problem, to people as a page."""
    if not request.path.startswith("/api/"):
        return page_not_found(request, exception)
    problem = {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "The API has nothing at this address.",
        "code": "not-found",
    }
    return JsonResponse(problem, status=404, content_type="application/problem+json")
