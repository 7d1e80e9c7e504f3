"""Static files without a second server, addresses without NUL, what is not known as headers, refusals as pages."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme
from whitenoise.middleware import WhiteNoiseMiddleware

from chamber import origin
from chamber.errors import Refusal
from chamber.http import refused
from scheduling.explain import silence

if TYPE_CHECKING:
    from chamber.models import User

logger = logging.getLogger(__name__)

API = "/api/v1/"
NOT_SENT = "not-done"
"""In the address of the sign-in page: that something was sent and not done. No session and no cookie is made for it."""
NOT_DONE = "You are not signed in any more: what you sent was not done. Sign in, then send it again."


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    """WhiteNoise, but with whole files: under ASGI Django would read its stream in one go anyway, with a warning."""

    @staticmethod
    def serve(static_file: object, request: HttpRequest) -> HttpResponse:
        """Return the file as a plain response."""
        streamed = WhiteNoiseMiddleware.serve(static_file, request)
        content = b"".join(streamed.streaming_content)
        streamed.close()
        response = HttpResponse(content, status=streamed.status_code, headers=dict(streamed.items()))
        if content:
            # The file may have been replaced since its length was noted, by an upgrade under a running server.
            response["Content-Length"] = str(len(content))
        return response


class BrowserRightsMiddleware:
    """Tells browsers that its pages use nothing of the device, and that other sites may not load what it answers; that
    an answer of the API is no page; and to keep nothing that does not say itself how it may be kept.
    """

    PROGRAMS = ("application/json", "application/problem+json")

    DENIED = (
        *(
            "accelerometer",
            "autoplay",
            "browsing-topics",
            "camera",
            "display-capture",
            "encrypted-media",
        ),
        *(
            "geolocation",
            "gyroscope",
            "hid",
            "idle-detection",
            "local-fonts",
            "magnetometer",
            "microphone",
            "midi",
        ),
        *("payment", "picture-in-picture", "screen-wake-lock", "serial", "usb", "xr-spatial-tracking"),
    )
    POLICY = ", ".join(f"{feature}=()" for feature in DENIED)

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on."""
        response = self.get_response(request)
        response["Permissions-Policy"] = self.POLICY
        response["Cross-Origin-Resource-Policy"] = "same-origin"
        response.setdefault("Cache-Control", "no-store")
        if response.get("Content-Type", "").startswith(self.PROGRAMS):
            response.setdefault("Content-Disposition", 'attachment; filename="api.json"')
        return response


class NoNulMiddleware:
    """Leave NUL out of what an address asks for: it means nothing there, and PostgreSQL takes no text with one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on."""
        request.META["QUERY_STRING"] = request.META.get("QUERY_STRING", "").replace("%00", "")
        return self.get_response(request)


class OriginMiddleware:
    """Have the audit trail note whose address an act came from; after the proxies' word was judged."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on."""
        with origin.bound(request):
            return self.get_response(request)


class SignInMiddleware(LoginRequiredMiddleware):
    """Leads whoever is not signed in to the sign-in page, and from there back; of what was sent, to where it was filled
    in, for its own address may take nothing else.
    """

    def handle_no_permission(self, request: HttpRequest, view_func: Any) -> HttpResponseRedirect:
        """Answer in place of the view."""
        login = (self.get_login_url(view_func), self.get_redirect_field_name(view_func))
        if request.method in {"GET", "HEAD", "OPTIONS"}:
            return redirect_to_login(_onward(request.get_full_path()), *login)
        came_from = request.headers.get("Referer", "")
        known = url_has_allowed_host_and_scheme(
            came_from, {request.get_host()}, require_https=request.is_secure()
        )
        parts = urlsplit(came_from if known else "/")
        onward = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
        answer = redirect_to_login(_onward(onward), *login)
        answer["Location"] += f"&{NOT_SENT}=1"
        return answer


def _onward(address: str) -> str:
    """Return where to go on after the sign-in: to the first page for an address that begins as another host's does."""
    return "/" if address[1:2] in {"/", "\\"} else address


class SilenceMiddleware:
    """Says in headers of the API's answers what is not known: what they tell is as old as that.

    `Chamber-Undecided-Since` is when the last cycle ended, or `never`; `Chamber-Silent-Clusters` are clusters with work
    on them, each with when it was last seen: `west=2026-01-01T12:00:00+00:00, ...`.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on; tell who belongs to the organisation what is not known."""
        response = self.get_response(request)
        user = getattr(request, "user", None)
        if not request.path.startswith(API) or user is None or not user.is_authenticated:
            return response
        try:
            self._tell(user, response)
        except DatabaseError as error:
            logger.warning("What is not known cannot be told: %s", error)
        return response

    def _tell(self, user: "User", response: HttpResponse) -> None:
        unknown = silence.told_to(user)
        if unknown.undecided:
            response["Chamber-Undecided-Since"] = unknown.since.isoformat() if unknown.since else "never"
        if unknown.clusters:
            told = (f"{cluster.name}={cluster.last_seen_at.isoformat()}" for cluster in unknown.clusters)
            response["Chamber-Silent-Clusters"] = ", ".join(told)


class RefusalMiddleware:
    """Answer a `Refusal` raised in a page's view: a toast where a fragment was asked for, else a page."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on; say in words where a page's address takes no such request."""
        response = self.get_response(request)
        for_people = "text/html" in request.headers.get("Accept", "")
        if not isinstance(response, HttpResponseNotAllowed) or not for_people:
            return response
        refusal = Refusal("This address only takes what a form sends; open the page that the form is on.")
        refusal.status = response.status_code
        page = render(request, "errors/refusal.html", {"refusal": refusal}, status=refusal.status)
        page["Allow"] = response["Allow"]
        return page

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Render the refusal with its own status."""
        return refused(request, exception) if isinstance(exception, Refusal) else None
