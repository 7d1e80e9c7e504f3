"""Counts requests where they come in: by address before anything is looked up, by person once it is known who asks.

Requests with a token are counted where the token is looked up (`chamber.authentication`).
"""

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from chamber import limits, logs
from chamber.http import toast, wants_fragment
from chamber.limits import Exceeded
from chamber.serving.proxies import take_word

Application = Callable[..., Any]
API = "/api/v1/"
PROBES = frozenset({"/livez", "/readyz"})
"""Asked every few seconds, and to be answered while Redis is away: counted by each process for itself."""
OWN_PACE = "/agent/"
"""The agents' link keeps a pace of its own (`agentlink.pace`): work in a cluster does not wait for other requests."""
TOO_MANY = 4429
PART = "X-Chamber-Fragment"
"""The header with which open pages fetch their parts, by themselves."""


class AddressLimitMiddleware:
    """Bounds the requests of one address, and more narrowly those that come without any credentials.

    Stands before whatever costs something. It adds to all answers of the API what is left.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on, unless there were too many."""
        with limits.noting() as uses:
            try:
                self._count(request)
                response = self.get_response(request)
            except Exceeded as error:
                response = refused(request, error)
            api = request.path.startswith(API)
            for name, value in limits.headers(uses, all_of_them=api).items():
                if api or response.status_code == HTTPStatus.TOO_MANY_REQUESTS:
                    response[name] = value
            return response

    @staticmethod
    def _count(request: HttpRequest) -> None:
        has_session = settings.SESSION_COOKIE_NAME in request.COOKIES
        # Without a session a part is a request like others: nobody else would count it.
        is_part = PART in request.headers and has_session and not has_token(request)
        if request.path.startswith(OWN_PACE) or is_part:
            return
        address = address_of(request)
        if request.path in PROBES:
            limits.count(limits.ANONYMOUS, address, shared=False)
            return
        limits.count(limits.ADDRESS, address)
        is_file = request.path.startswith(settings.STATIC_URL)
        if not (has_session or is_file or has_token(request)):
            limits.count(limits.ANONYMOUS, address)


class PersonLimitMiddleware:
    """Bounds the requests of whoever is signed in by a session; what its open pages fetch by themselves, apart.

    A session that is none counts as none. Stands after the middleware that knows whose it is.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on, unless there were too many."""
        # A request with a token is another's, whatever session comes along.
        if settings.SESSION_COOKIE_NAME in request.COOKIES and not has_token(request):
            try:
                self._count(request)
            except Exceeded as error:
                return refused(request, error)
        return self.get_response(request)

    @staticmethod
    def _count(request: HttpRequest) -> None:
        if not request.user.is_authenticated:
            limits.count(limits.ANONYMOUS, address_of(request))
        else:
            limit = limits.PARTS if PART in request.headers else limits.PERSON
            limits.count(limit, request.user.pk)


class SocketLimits:
    """The same for the sockets of pages: each that is opened is a request of its address.

    Closed before it was accepted, which a browser reads as 403, and tries again ever more seldom.
    """

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(
        self, scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]
    ) -> None:
        """Serve the socket, unless there were too many."""
        try:
            await sync_to_async(limits.count, thread_sensitive=False)(
                limits.ADDRESS, _address_of_socket(scope)
            )
        except Exceeded:
            await send({"type": "websocket.close", "code": TOO_MANY})
            return
        await self.application(scope, receive, send)


def _address_of_socket(scope: dict[str, Any]) -> str:
    headers = dict(scope.get("headers", ()))
    meta = {"REMOTE_ADDR": (scope.get("client") or ("",))[0]}
    meta["HTTP_X_FORWARDED_FOR"] = headers.get(b"x-forwarded-for", b"").decode("latin-1")
    take_word(meta, settings.TRUSTED_PROXIES)
    return limits.whereabouts(meta["REMOTE_ADDR"])


def has_token(request: HttpRequest) -> bool:
    """Return whether the request is looked at for its token, and counted there."""
    kind = request.headers.get("Authorization", "").partition(" ")[0]
    return request.path.startswith(API) and kind.lower() == "bearer"


def address_of(request: HttpRequest) -> str:
    """Return whence a request came, as far as a client cannot choose it."""
    return limits.whereabouts(str(request.META.get("REMOTE_ADDR", "")))


def refused(request: HttpRequest, error: Exceeded) -> HttpResponse:
    """Answer what is over a limit: without a query, and in the form in which it was asked for."""
    if request.path.startswith(API):
        status = HTTPStatus(error.status)
        body = {
            "type": "about:blank",
            "title": status.phrase,
            "status": status.value,
            "detail": error.message,
            "code": error.code,
            "request_id": logs.bound("request_id"),
        }
        response = HttpResponse(json.dumps(body), content_type="application/problem+json", status=status)
    elif wants_fragment(request) or "HX-Request" in request.headers:  # which is looked at further on only
        response = toast(HttpResponse(error.message, status=error.status), error.message, level="error")
    else:
        page = render_to_string("errors/limited.html", {"message": error.message})
        response = HttpResponse(page, status=error.status)
    response["Retry-After"] = str(error.retry_seconds)
    response["Cache-Control"] = "no-store"
    # It is the client's doing, and there may be very many.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response
