"""What lies below requests: connections that are given up half made, lines out of a stream of bytes."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any

import httpcore


class Handshake:
    """Follows how the connection of a request is made, as its `trace`.

    The library leaves a connection open if its maker is cancelled while both ends agree on keys.
    """

    def __init__(self) -> None:
        self._half_made: httpcore.AsyncNetworkStream | None = None

    async def __call__(self, event: str, told: Mapping[str, Any]) -> None:
        """Take in how far the connection has come."""
        if event == "connection.connect_tcp.complete":
            self._half_made = told["return_value"]
        elif event == "connection.start_tls.complete":
            self._half_made = None

    async def close(self) -> None:
        """Close what is half made, where a task is cancelled meanwhile."""
        if self._half_made is not None:
            await self._half_made.aclose()


async def split_lines(chunks: AsyncGenerator[bytes], longest: int) -> AsyncGenerator[bytes]:
    """Yield the lines of a stream, each with its end, and at the end what is left.

    One that grows beyond `longest` comes in pieces, of which only the last has an end.
    """
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield b"".join((*parts, line, b"\n"))
            parts, size = [], 0
        if rest:
            parts.append(rest)
            size += len(rest)
        if size > longest:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)
