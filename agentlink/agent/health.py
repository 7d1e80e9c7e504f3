"""Small pages of the agent: /livez and /readyz for probes, /metrics for Prometheus, and nothing else."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

from agentlink.agent import figures

logger = logging.getLogger(__name__)

REQUEST_SECONDS = 5.0
MOST_BYTES = 8192


class Health:
    """What the agent says of itself. Its event loop answers, so it is alive; it is ready once it waits for nothing.

    An agent that stands by for another's lease is ready: it does all that there is for it to do.
    """

    def __init__(self, waits_for: str) -> None:
        self.waits_for = waits_for
        """What must come before it is ready, as words; empty when it is."""

    @asynccontextmanager
    async def served(self, port: int, *, host: str | None = None) -> AsyncIterator[int]:
        """Answer probes inside the block, on all addresses unless `host` names one; give the port (0: a free one)."""
        server = await asyncio.start_server(self._answer, host, port, limit=MOST_BYTES)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close."""
        try:
            with suppress(
                TimeoutError, ValueError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
            ):
                async with asyncio.timeout(REQUEST_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._page(head.split(b"\r\n", 1)[0]))
                    await writer.drain()
        finally:
            writer.close()

    def _page(self, line: bytes) -> bytes:
        kind = "text/plain; charset=utf-8"
        match line.split(b" ")[:2]:
            case [b"GET" | b"HEAD", b"/metrics"]:
                status, text = HTTPStatus.OK, figures.page().decode().rstrip("\n")
                kind = "text/plain; version=0.0.4; charset=utf-8"
            case [b"GET" | b"HEAD", b"/livez"]:
                status, text = HTTPStatus.OK, "ok"
            case [b"GET" | b"HEAD", b"/readyz"] if not self.waits_for:
                status, text = HTTPStatus.OK, "ok"
            case [b"GET" | b"HEAD", b"/readyz"]:
                status, text = HTTPStatus.SERVICE_UNAVAILABLE, f"The agent waits for {self.waits_for}."
            case _:
                status, text = HTTPStatus.NOT_FOUND, "There is nothing but /livez, /readyz and /metrics."
        body = f"{text}\n".encode()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (b"" if line.startswith(b"HEAD") else body)
