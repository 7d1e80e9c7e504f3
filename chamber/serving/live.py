"""The live part: sockets, long polls and event streams over uvicorn, one process with one event loop.

It can answer everything else too (`--part all`); where there is no Redis, it also runs what workers and beat would.
"""

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Iterator
from types import FrameType

import uvicorn
from django.conf import settings

from chamber.serving.bounds import Bounded
from chamber.serving.grace import Grace
from chamber.serving.leaving import LeavingApplication
from chamber.serving.pulse import Pulse

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Of a socket's message. Over 1 MiB is answered by the agents' link itself, with a sentence."""
MAX_HEADER_BYTES = 64 * 1024
MOST_CONNECTIONS = 20_000
UNREAD_SECONDS = 60


def serve(listener: socket.socket, *, part: str = "live", grace_seconds: int) -> None:
    """Serve until a signal; sockets are closed with 1012, long polls answered, requests finished within the grace."""
    logger.info("The live part listens on %s port %d.", *listener.getsockname()[:2])
    listener.setblocking(False)
    # Accepted connections inherit it: who takes nothing of what was sent to him for so long is dropped by the kernel.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_SECONDS * 1000)
    pulse = Pulse(part)
    pulse.start()
    try:
        asyncio.run(_serve(listener, grace_seconds=grace_seconds))
    finally:
        pulse.stop()


async def _serve(listener: socket.socket, *, grace_seconds: int) -> None:
    from chamber import embedded, live
    from chamber.asgi import application

    live.bind(asyncio.get_running_loop())
    leaving = LeavingApplication(Bounded(application))
    server = _LiveServer(leaving, grace_seconds=grace_seconds)
    timer = None if settings.REDIS else embedded.Timer()
    embedded.install(timer)
    duties = asyncio.create_task(timer.run()) if timer else None
    try:
        await server.serve(sockets=[listener])
    finally:
        if duties is not None:
            duties.cancel()
            await asyncio.gather(duties, return_exceptions=True)
        embedded.install(None)
        live.bind(None)


class _LiveServer(uvicorn.Server):
    """Uvicorn that tells long waits to end when it stops, and ends with status 0."""

    def __init__(self, leaving: LeavingApplication, *, grace_seconds: int) -> None:
        super().__init__(
            uvicorn.Config(
                leaving,
                lifespan="off",
                log_config=None,
                access_log=False,
                # Who is believed about the client's address is decided in one place, `chamber.serving.proxies`.
                proxy_headers=False,
                server_header=False,
                ws_max_size=MAX_MESSAGE_BYTES,
                ws_per_message_deflate=False,
                limit_concurrency=MOST_CONNECTIONS,
                h11_max_incomplete_event_size=MAX_HEADER_BYTES,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=grace_seconds,
            )
        )
        self._leaving = leaving
        self._grace = Grace(self._ask, seconds=grace_seconds + 2.0)

    def _ask(self) -> None:
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals for the time of serving, without raising them again after an end in order."""
        if threading.current_thread() is threading.main_thread():
            self._grace.install()
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        """Stop in order."""
        self._ask()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the long waits, then everything else."""
        self._leaving.leave()
        await super().shutdown(sockets)
