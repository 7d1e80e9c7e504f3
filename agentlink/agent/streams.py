"""What a viewer looks at now: one pod's lines on their way from the cluster to the server, within bounds.

A pod is read no faster than `READ_A_SECOND`, and of that no more is sent than `POD_A_SECOND`, and by all pods together
`CLUSTER_A_SECOND`: what goes beyond is left out, and how many lines that were is said where they stood. Where the
server does not take what is sent, nothing is read meanwhile.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import NamedTuple

from agentlink.agent.backends.base import Backend, LogPiece, NoLogs
from agentlink.agent.lines import LineSplitter
from agentlink.bucket import TokenBucket
from agentlink.protocol.logs import KEPT_BYTES, MAX_TEXT, Ask, Chunk, StreamEnd, StreamEndReason, in_texts

logger = logging.getLogger(__name__)

MIB = 1024 * 1024
POD_A_SECOND = MIB
CLUSTER_A_SECOND = 4 * MIB
READ_A_SECOND = 4 * MIB
HELD_CHARACTERS = 4 * MAX_TEXT
"""Lines that wait to be sent; more are not read until there is room."""
GATHER_SECONDS = 0.1
"""Lines that come within this time are sent together."""
QUIET_SECONDS = 1.0
"""After which a line without an end is shown as it is, and it is said that lines were left out, where none follow."""
ASK_AGAIN_SECONDS = 1.0
"""How often a pod that a viewer follows is looked at for whether it has started."""
MOST_FAILURES = 5
"""How often reading a pod that a viewer follows is begun again where it left off."""

Send = Callable[[Chunk | StreamEnd], Awaitable[None]]


def cluster_bucket() -> TokenBucket:
    """Return what all streams of one agent take from."""
    return TokenBucket(at_once=CLUSTER_A_SECOND, a_second=CLUSTER_A_SECOND)


class _Entry(NamedTuple):
    """Whole lines, how many were left out before them, and the place after them where it is known."""

    text: str
    dropped: int
    cursor: str


class Stream:
    """One answer to one `Ask`."""

    def __init__(self, ask: Ask, backend: Backend, send: Send, cluster: TokenBucket) -> None:
        self._ask, self._backend, self._send = ask, backend, send
        self._pod = TokenBucket(at_once=POD_A_SECOND, a_second=POD_A_SECOND)
        self._cluster = cluster
        self._pace = TokenBucket(at_once=READ_A_SECOND, a_second=READ_A_SECOND)
        self._backlog = ask.tail_bytes if ask.follow else KEPT_BYTES
        """Bytes of what was written before that may still come: they are waited for, not left out."""
        self._leaves_out = False
        self._lines = LineSplitter()
        self._held: deque[_Entry] = deque()
        self._size = 0
        self._dropped = 0
        self._cursor = ask.after
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._over = False
        self._sequence = 0

    async def run(self) -> None:
        """Send the pod's lines until there are no more, then say so."""
        reading = asyncio.create_task(self._read())
        try:
            await self._tell()
            end = await reading
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        await self._send(end)

    # Reading

    async def _read(self) -> StreamEnd:
        """Read until the end; return how that was."""
        failures = 0
        try:
            while True:
                try:
                    await self._read_once()
                    return self._end(StreamEndReason.ENDED)
                except NoLogs as none:
                    if not none.not_started:
                        return self._end(StreamEndReason.GONE, str(none))
                    if not self._ask.follow:
                        return self._end(StreamEndReason.NOT_STARTED, str(none))
                except Exception as error:
                    failures += 1
                    logger.warning(
                        "The log of pod %d of %s broke off: %s", self._ask.pod, self._ask.attempt, error
                    )
                    if failures > MOST_FAILURES or not self._ask.follow:
                        return self._end(
                            StreamEndReason.FAILED, f"The log could not be read further: {error}"
                        )
                await asyncio.sleep(ASK_AGAIN_SECONDS * (1 + failures))
        finally:
            self._over = True
            self._news.set()

    async def _read_once(self) -> None:
        ask = self._ask
        pieces = self._backend.logs(
            ask.attempt, ask.pod, follow=ask.follow, tail_bytes=ask.tail_bytes, after=self._cursor
        )
        async with aclosing(pieces):
            async for piece in pieces:
                await self._take(piece)
        self._put(self._lines.flush(), self._cursor)

    async def _take(self, piece: LogPiece) -> None:
        """Take in or leave out a piece, as slowly as it may be read, once there is room for more."""
        size = len(piece.data)
        self._cursor = piece.cursor or self._cursor
        wait = self._pace.owe(size)
        if self._backlog > 0:
            self._backlog -= size
            wait = max(wait, self._cluster.owe(size))
            self._put(self._lines.feed(piece.data), piece.cursor)
        elif self._may_pass(size):
            self._put(self._lines.feed(piece.data), piece.cursor)
        else:
            self._dropped += self._lines.skip(piece.data)
        if self._dropped or self._lines.unfinished:
            self._news.set()
        if wait > 0:
            await asyncio.sleep(wait)
        while self._size > HELD_CHARACTERS:
            self._room.clear()
            await self._room.wait()

    def _may_pass(self, size: int) -> bool:
        """Return whether so much may go; once something was left out, not before there is room for many lines."""
        least = POD_A_SECOND / 2 if self._leaves_out else size
        self._leaves_out = not (self._pod.has(max(least, size)) and self._cluster.has(size))
        if self._leaves_out:
            return False
        self._pod.owe(size)
        self._cluster.owe(size)
        return True

    def _put(self, lines: list[str], cursor: str) -> None:
        texts = list(in_texts(lines))
        for number, text in enumerate(texts):
            place = cursor if number == len(texts) - 1 else ""
            self._held.append(_Entry(text, self._dropped, place))
            self._dropped = 0
            self._size += len(text)
        if texts:
            self._news.set()

    # Sending

    async def _tell(self) -> None:
        """Send what was read, in its order; where nothing more comes, also what has no end yet or was left out."""
        while self._held or self._dropped or not self._over:
            quiet = await self._waits()
            if quiet:
                self._put(self._lines.flush(), "")
            if self._dropped and not self._held and (quiet or self._over):
                self._held.append(_Entry("", self._dropped, self._cursor))
                self._dropped = 0
            while self._held:
                await self._send(self._chunk())
                self._room.set()

    async def _waits(self) -> bool:
        """Return False when something was read, a moment later, and True where nothing is for a while."""
        bounded = self._dropped or self._lines.unfinished
        try:
            await asyncio.wait_for(self._news.wait(), timeout=QUIET_SECONDS if bounded else None)
        except TimeoutError:
            return True
        if not self._over:
            await asyncio.sleep(GATHER_SECONDS)
            self._news.clear()
        return False

    def _chunk(self) -> Chunk:
        first = self._held.popleft()
        texts, size, cursor = [first.text], len(first.text), first.cursor
        while self._held and not self._held[0].dropped and size + len(self._held[0].text) <= MAX_TEXT:
            entry = self._held.popleft()
            texts.append(entry.text)
            size += len(entry.text)
            cursor = entry.cursor or cursor
        self._size -= size
        self._sequence += 1
        return Chunk(
            stream=self._ask.stream,
            sequence=self._sequence,
            text="".join(texts),
            dropped=first.dropped,
            cursor=cursor,
        )

    def _end(self, reason: StreamEndReason, message: str = "") -> StreamEnd:
        return StreamEnd(stream=self._ask.stream, reason=reason, message=message.replace("\x00", "")[:2000])
