"""A proxy between an agent and the server that does to their messages what networks do, by a seeded plan.

WebSocket frames are cut off, held back, sent twice, and passed by later ones; HTTP (the long poll) is a stream of bytes
that can only be cut off and held back. `trouble` may be changed at any time; without any, everything passes.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, WebSocketException

FIRST_LINE_SECONDS = 10
CHUNK = 65536
OPEN_SECONDS = 10
SWAP_SECONDS = 1.0
"""For so long a message waits for another one to pass it."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is done to messages: how likely each, and for how long they are held back at most (seconds)."""

    refuse: bool = False
    """Nobody gets through at all, and who is connected is cut off."""
    cut: float = 0.0
    delay: float = 0.0
    delay_seconds: float = 0.0
    twice: float = 0.0
    swap: float = 0.0

    @property
    def name(self) -> str:
        """What kinds there are, for a log."""
        kinds = ("refuse", "cut", "delay", "twice", "swap")
        return "+".join(kind for kind in kinds if getattr(self, kind)) or "none"


CALM = Trouble()


class LinkProxy:
    """Listens on `port` of the loopback address and passes everything on to the server behind it."""

    def __init__(self, host: str, port: int, *, seed: int) -> None:
        self.port = 0
        self.trouble = CALM
        self.counts = {"passed": 0, "cut": 0, "delayed": 0, "twice": 0, "swapped": 0}
        self._behind = host, port
        self._chance = random.Random(seed)
        self._streams: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where agents connect to."""
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator["LinkProxy"]:
        """Listen inside the block."""
        async with AsyncExitStack() as stack:
            # Bytes come first to one listener that looks whether they ask for a WebSocket.
            sockets = await stack.enter_async_context(
                serve(self._websocket, "127.0.0.1", 0, max_size=None, ping_interval=None)
            )
            inner: int = next(iter(sockets.sockets)).getsockname()[1]
            outer = await asyncio.start_server(lambda r, w: self._accept(r, w, inner), "127.0.0.1", 0)
            stack.push_async_callback(self._close, outer)
            self.port = outer.sockets[0].getsockname()[1]
            yield self

    async def _close(self, server: asyncio.Server) -> None:
        server.close()
        self.cut_all()
        await asyncio.gather(*self._streams, return_exceptions=True)

    def cut_all(self) -> None:
        """Cut off everybody who is connected now."""
        for stream in self._streams:
            stream.cancel()

    # Bytes

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, inner: int) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        self._streams.add(task)
        try:
            if self.trouble.refuse:
                return
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), FIRST_LINE_SECONDS)
            is_socket = b"upgrade: websocket" in head.lower()
            address = ("127.0.0.1", inner) if is_socket else self._behind
            to_reader, to_writer = await asyncio.open_connection(*address)
            to_writer.write(head)
            # The messages of a WebSocket are troubled one by one, inside.
            touch = self._pass if is_socket else self._trouble_bytes
            async with asyncio.TaskGroup() as both:
                both.create_task(_pipe(reader, to_writer, touch))
                both.create_task(_pipe(to_reader, writer, touch))
        except* (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, _Cut):
            pass
        except* asyncio.CancelledError:
            pass
        finally:
            self._streams.discard(task)
            writer.close()
            with suppress(UnboundLocalError):
                to_writer.close()

    async def _pass(self) -> None:
        pass

    async def _trouble_bytes(self) -> None:
        """Hold the next piece back, or cut the stream."""
        trouble = self.trouble
        if trouble.refuse or self._happens(trouble.cut):
            self.counts["cut"] += 1
            raise _Cut
        if self._happens(trouble.delay):
            self.counts["delayed"] += 1
            await asyncio.sleep(self._chance.uniform(0, trouble.delay_seconds))

    # Messages

    async def _websocket(self, agent: ServerConnection) -> None:
        host, port = self._behind
        headers = {"Authorization": agent.request.headers.get("Authorization", "")} if agent.request else {}
        path = agent.request.path if agent.request else "/"
        try:
            async with connect(
                f"ws://{host}:{port}{path}",
                additional_headers=headers,
                max_size=None,
                ping_interval=None,
                open_timeout=OPEN_SECONDS,
            ) as server:
                await self._both_ways(agent, server)
                await _close_alike(server, agent)
        except (OSError, TimeoutError, WebSocketException):
            await agent.close(1013, "the server cannot be reached")

    async def _both_ways(self, agent: ServerConnection, server: ClientConnection) -> None:
        ways = [asyncio.create_task(self._carry(*way)) for way in ((agent, server), (server, agent))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _carry(
        self, source: ServerConnection | ClientConnection, target: ServerConnection | ClientConnection
    ) -> None:
        """Pass messages on until one end closes, each troubled by itself."""
        with suppress(ConnectionClosed):
            async for message in source:
                trouble = self.trouble
                if trouble.refuse or self._happens(trouble.cut):
                    self.counts["cut"] += 1
                    return
                if self._happens(trouble.delay):
                    self.counts["delayed"] += 1
                    await asyncio.sleep(self._chance.uniform(0, trouble.delay_seconds))
                messages = [message]
                if self._happens(trouble.swap):
                    messages = await self._swapped(message, source)
                if self._happens(trouble.twice):
                    self.counts["twice"] += 1
                    messages = [copy for copy in messages for _ in range(2)]
                for copy in messages:
                    await target.send(copy)
                    self.counts["passed"] += 1

    async def _swapped(
        self, message: str | bytes, source: ServerConnection | ClientConnection
    ) -> list[str | bytes]:
        """Return the message behind the one that follows it, if one follows soon."""
        with suppress(TimeoutError):
            following = await asyncio.wait_for(source.recv(), SWAP_SECONDS)
            self.counts["swapped"] += 1
            return [following, message]
        return [message]

    def _happens(self, likely: float) -> bool:
        return likely > 0 and self._chance.random() < likely


class _Cut(Exception):  # noqa: N818 - an outcome
    """The stream ends here."""


async def _pipe(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, touch: Callable[[], Awaitable[None]]
) -> None:
    while chunk := await reader.read(CHUNK):
        await touch()
        writer.write(chunk)
        await writer.drain()
    raise _Cut


async def _close_alike(server: ClientConnection, agent: ServerConnection) -> None:
    """Close the agent's end with the code that the server gave."""
    code = server.close_code
    if code is not None and code not in (1005, 1006):
        await agent.close(code, server.close_reason or "")
