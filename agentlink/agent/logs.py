"""The agent's end of the logs connection: answers what viewers look at, and sends what is kept of pods that are over.

It is a socket of its own, dialled like the link and with the same token; where it breaks, it is dialled again, and the
server asks again for what is still looked at, from where it was.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import WebSocketException

from agentlink import protocol
from agentlink.agent import streams
from agentlink.agent.backends.base import Backend
from agentlink.agent.keeping import LogKeeper
from agentlink.agent.link import LinkLost, open_socket, why_unreached
from agentlink.protocol import Error, InvalidMessage
from agentlink.protocol import logs as messages
from agentlink.protocol.logs import (
    STREAMS,
    Ask,
    Chunk,
    KeptLogs,
    StopStream,
    Stored,
    StreamEnd,
    StreamEndReason,
)
from chamber.logs import Lasting

logger = logging.getLogger(__name__)

PATH = "/ws/agent/logs/"
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
LASTING_SECONDS = 5.0
MOST_STREAMS = 2 * STREAMS
"""Followed pods and single looks together."""


@asynccontextmanager
async def attached(
    url: str, token: str | Callable[[], str], backend: Backend, welcome: asyncio.Event
) -> AsyncIterator[LogKeeper]:
    """Keep a logs connection for as long as the context lasts; yield what keeps the logs of pods that end.

    It is not begun before `welcome`: the link's hello, which a connection for logs has none of, shows whether the token
    is this cluster's.
    """
    keeper = LogKeeper(backend)
    running = asyncio.create_task(_run(url, token, backend, keeper, welcome))
    try:
        yield keeper
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await keeper.close()


async def _run(
    url: str, token: str | Callable[[], str], backend: Backend, keeper: LogKeeper, welcome: asyncio.Event
) -> None:
    failures, broken = 0, Lasting()
    while True:
        await welcome.wait()
        began = time.monotonic()
        try:
            secret = token if isinstance(token, str) else token()
            async with open_socket(url, secret, PATH) as socket:
                if broken.over() is not None:
                    logger.info("Logs can be sent again.")
                await Conversation(socket, backend, keeper).run()
        except LinkLost as lost:
            if broken.due(str(lost)):
                logger.info("No logs are sent now: %s", lost)
        except (WebSocketException, OSError) as error:
            if broken.due(why := why_unreached(error)):
                logger.info("The logs connection broke: %s", why)
        except Exception:
            logger.exception("The logs connection failed.")
        failures = 0 if time.monotonic() - began > LASTING_SECONDS else failures + 1
        longest = min(FIRST_PAUSE_SECONDS * (1 << min(failures, 16)), LONGEST_PAUSE_SECONDS)
        await asyncio.sleep(random.uniform(0.1, longest))  # noqa: S311 - guards nothing


class Conversation:
    """One connection's life."""

    def __init__(self, socket: ClientConnection, backend: Backend, keeper: LogKeeper) -> None:
        self._socket, self._backend, self._keeper = socket, backend, keeper
        self._bucket = streams.cluster_bucket()
        self._streams: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Listen and send until the connection breaks."""
        tasks = [asyncio.create_task(part) for part in (self._listen(), self._keeper.send(self._send))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            tasks += self._streams.values()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self) -> None:
        while True:
            message = messages.from_server(await self._socket.recv())
            if isinstance(message, InvalidMessage):
                raise LinkLost(f"The server sent what is no message about logs: {message.message}")
            if isinstance(message, Ask):
                await self._begin(message)
            elif isinstance(message, StopStream):
                if (task := self._streams.pop(message.stream, None)) is not None:
                    task.cancel()
            elif isinstance(message, Stored):
                self._keeper.stored((pod.attempt, pod.pod) for pod in message.pods)
            else:
                self._hear(message)

    def _hear(self, error: Error) -> None:
        if error.code in protocol.CLOSE_CODES:
            raise LinkLost(error.message, error.code)
        logger.warning("The server refused a message about logs (%s): %s", error.code, error.message)

    async def _begin(self, ask: Ask) -> None:
        if ask.stream in self._streams:
            return
        if len(self._streams) >= MOST_STREAMS:
            text = f"The agent sends the logs of {MOST_STREAMS} pods already."
            await self._send(StreamEnd(stream=ask.stream, reason=StreamEndReason.TOO_MANY, message=text))
            return
        self._streams[ask.stream] = asyncio.create_task(self._stream(ask))

    async def _stream(self, ask: Ask) -> None:
        try:
            with suppress(WebSocketException):  # the listening task hears of it too
                await streams.Stream(ask, self._backend, self._send, self._bucket).run()
        finally:
            if self._streams.get(ask.stream) is asyncio.current_task():
                del self._streams[ask.stream]

    async def _send(self, message: Chunk | StreamEnd | KeptLogs) -> None:
        await self._socket.send(messages.encode(message))
