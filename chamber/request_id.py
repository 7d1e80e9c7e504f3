"""One id for each request and each socket: on every line of the log that it causes, and in what is answered."""

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

from django.http import HttpRequest, HttpResponse

from chamber import logs
from chamber.ids import new_id
from chamber.serving.outages import outage

logger = logging.getLogger(__name__)

HEADER = "X-Request-ID"
WELL_FORMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:=+/@-]{0,127}")
INTERNAL_ERROR = 1011
TRY_AGAIN = 1013

Scope = dict[str, Any]
Application = Callable[[Scope, Callable[..., Any], Callable[..., Any]], Awaitable[None]]


def request_id(given: str | None) -> str:
    """Return the id that a proxy or a program gave its request, or a new one where it gave none that is well formed."""
    return given if given and WELL_FORMED.fullmatch(given) else new_id().hex


class RequestIdMiddleware:
    """Bind the request's id to the log, and send it back as `X-Request-ID`. The outermost middleware."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        this = request_id(request.headers.get(HEADER))
        with logs.bind(request_id=this):
            response = self.get_response(request)
        response[HEADER] = this
        return response


class SocketRequestId:
    """The same for a WebSocket, for as long as it is open; a fault in it is one record and the close code 1011, or 1013
    where Redis or the database is away.

    A code is told only in a socket that was accepted: refused before that, one would read 403. That the other side has
    left is no fault.
    """

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        """Serve the socket."""
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        with logs.bind(request_id=request_id(headers.get(HEADER.lower()))):
            left: OSError | None = None
            answered = False

            async def send_on(message: dict[str, Any]) -> None:
                nonlocal left, answered
                answered = True
                try:
                    await send(message)
                except OSError as error:
                    left = error
                    raise

            try:
                await self.application(scope, receive, send_on)
            except Exception as error:
                if error is left:
                    return
                logger.exception("A socket of %s failed and was closed.", scope["path"])
                if not answered:
                    await send({"type": "websocket.accept"})
                code = INTERNAL_ERROR if outage(error) is None else TRY_AGAIN
                await send({"type": "websocket.close", "code": code})
