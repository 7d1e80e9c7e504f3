"""Ends what would wait for long when the process stops: long polls are answered, streams of events end."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Coroutine[Any, Any, Message]]
Send = Callable[[Message], Coroutine[Any, Any, None]]
Application = Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]

EMPTY_LIST = b"[]"
PATIENCE_SECONDS = 0.3
"""What an answer that is on its way gets before it is cut off."""


def waits_long(path: str) -> bool:
    """Return whether requests to `path` are held open: the agents' long poll, and the streams of events.

    The proxy in front sends the same paths to the live part (`deploy/nginx.conf`).
    """
    return path.startswith("/agent/v1/") or (
        path.startswith("/api/v1/workloads/") and path.endswith(("/watch/", "/logs/"))
    )


class LeavingApplication:
    """An ASGI application around another; after `leave()` nobody is kept waiting.

    A long poll that has not been answered gets an empty list, which is what it gets when nothing is new; a stream that
    has begun ends, and its reader comes again with Last-Event-ID. Other requests are not touched.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._gone = asyncio.Event()

    def leave(self) -> None:
        """End the long waits now, and whatever would begin one from now on."""
        self._gone.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http" or not waits_long(scope["path"]):
            await self._application(scope, receive, send)
            return
        await _LongRequest(self._application, scope, receive, send).run(self._gone)


class _LongRequest:
    """One request that may wait for long."""

    def __init__(self, application: Application, scope: Scope, receive: Receive, send: Send) -> None:
        self._application, self._scope, self._receive, self._send = application, scope, receive, send
        self._told_to_go = asyncio.Event()
        self._taken = self._begun = self._ended = self._cut = False

    async def run(self, gone: asyncio.Event) -> None:
        """Answer by the application, or, once `gone` is set, without it."""
        answering = asyncio.create_task(self._application(self._scope, self._received, self._passed))
        leaving = asyncio.create_task(gone.wait())
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
        if not answering.done():
            self._told_to_go.set()
            await asyncio.wait((answering,), timeout=PATIENCE_SECONDS)
            self._cut = True
        if answering.done():
            answering.result()
        if not self._ended:
            await self._end()

    async def _received(self) -> Message:
        """Return the request's next message; after its body, that nobody listens any more once we leave."""
        if not self._taken:
            message = await self._receive()
            self._taken = message["type"] != "http.request" or not message.get("more_body", False)
            return message
        hearing = asyncio.create_task(self._receive())
        going = asyncio.create_task(self._told_to_go.wait())
        try:
            await asyncio.wait((hearing, going), return_when=asyncio.FIRST_COMPLETED)
            return hearing.result() if hearing.done() else {"type": "http.disconnect"}
        finally:
            hearing.cancel()
            going.cancel()

    async def _passed(self, message: Message) -> None:
        """Pass an answer's message on, unless the answer was ended for the application meanwhile."""
        if self._cut:
            return
        self._begun = True
        self._ended = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)

    async def _end(self) -> None:
        if not self._begun:
            headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._send({"type": "http.response.body", "body": EMPTY_LIST})
            return
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})
