"""One look at one pod's lines: what was kept of it, or what its cluster's agent sends now.

A viewer asks for the pod every few seconds: whatever breaks in between (the agent, its connection, a
process of the server, Redis) it is told of, and goes on from where it was once that is back. It holds a bounded number
of characters that are not read yet; of more, the oldest are left out, and that is said where they stood.
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any
from uuid import UUID

from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from redis import RedisError

from agentlink.logs import kept
from agentlink.logs.exchange import RECENT_CHARACTERS, Event, asking_group, pod_group
from agentlink.logs.sources import Source
from agentlink.logs.texts import LogLines, LogNote, Told, last_lines
from agentlink.models import PodLog
from agentlink.protocol.logs import KEPT_BYTES, StreamEndReason
from chamber import words
from chamber.standing import CHECK_SECONDS, Allowed

HELD_CHARACTERS = 256 * 1024
FIRST_ASK_SECONDS, ASK_SECONDS = 1.0, 3.0
"""How often it is asked again, until the agent answers and then."""
FIRST_AWAY_SECONDS, AWAY_SECONDS = 2.5, 7.0
"""After which an agent that does not answer counts as away: two questions were lost."""
PATIENCE_SECONDS = 15.0
"""How long a single look waits for its end."""
SETTLE_SECONDS = 0.4
"""Within this time of the first lines, all that was written before has come, and is cut to what was asked for."""
KEPT_LATER_SECONDS = 3.0
"""How long after a pod is gone what it left is waited for."""
SILENCE_SECONDS = 10.0
"""After which something is said where nothing else is to be told."""

_AWAY = LogNote("away", "The cluster's agent does not answer now; the log goes on when it is back.")
_NO_ANSWER = LogNote("away", "The cluster's agent does not answer now; try again later.", ends=True)
_ENDED_MEANWHILE = LogNote(
    "ended", "The pod has ended meanwhile; ask again for all that was kept.", ends=True
)
_BACK = LogNote("back", "The cluster's agent is back.")
_NOT_ANY_MORE = LogNote("not-allowed", "You may no longer see this log.", ends=True)
_NOTHING = LogNote("nothing", "Nothing was kept of this pod's log.", ends=True)


def in_thread(function: Any) -> Any:
    """Return `function` as a coroutine that runs in a thread of the pool: no viewer keeps a thread."""
    return database_sync_to_async(function, thread_sensitive=False)


async def look(
    source: Source, *, follow: bool, tail: int | None = None, after: str = "", allowed: Allowed | None = None
) -> AsyncGenerator[Told | None]:
    """Yield the pod's last lines (all that there are for None), and with `follow` what comes after.

    Yields None now and then where there is nothing to tell. Ends after a note that says why. To be wrapped in
    `contextlib.aclosing`.
    """
    seen = bool(after)
    row = await _kept(source)
    if row is None and source.polls:
        yield _not_carried(source.cluster_name)
        return
    if row is None and source.cluster_id is not None:
        viewer = _Viewer(source, source.cluster_id, follow=follow, tail=tail, after=after, allowed=allowed)
        async with viewer:
            async for told in viewer.tell():
                seen = seen or isinstance(told, LogLines)
                yield told
        if viewer.ended is not StreamEndReason.GONE:
            return
    if row is None and (source.just_gone or source.cluster_id is not None):
        row = await _kept_later(source)
    if row is None:
        yield _NOTHING
        return
    if seen:  # and would see them a second time
        yield _ENDED_MEANWHILE
        return
    text, before = last_lines(row.text, tail)
    if row.cut and not before:
        yield LogNote("cut", f"Only the last {KEPT_BYTES // 1024**2} MiB were kept.")
    yield LogLines(text)
    yield LogNote("ended", "", ends=True)


def _not_carried(cluster: str) -> LogNote:
    text = (
        f"There are no logs of {cluster}: its agent keeps in touch by long poll, which carries none. "
        "An operator lets WebSockets through to this server and starts the agent without --transport long-poll."
    )
    return LogNote("not-carried", text, ends=True)


async def _kept(source: Source) -> PodLog | None:
    found: PodLog | None = await in_thread(kept.find)(source.attempt_id, source.pod)
    return found


async def _kept_later(source: Source) -> PodLog | None:
    """Return what is kept of a pod that has just gone, once it is."""
    until = asyncio.get_running_loop().time() + KEPT_LATER_SECONDS
    while (row := await _kept(source)) is None and asyncio.get_running_loop().time() < until:
        await asyncio.sleep(0.5)
    return row


class _Viewer:
    """What a viewer sees of a pod through its agent."""

    def __init__(
        self,
        source: Source,
        cluster_id: UUID,
        *,
        follow: bool,
        tail: int | None,
        after: str,
        allowed: Allowed | None,
    ) -> None:
        self._source, self._cluster_id = source, cluster_id
        self._follow, self._cursor, self._allowed = follow, after, allowed
        self._tail = tail if not after else None
        """How many of the lines that were written before are wanted; None once that is settled."""
        self._settles_at = math.inf
        self._layer: Any = get_channel_layer()
        self._loop = asyncio.get_running_loop()
        self._channel = ""
        self._stream = ""
        self._sequence = 0
        self._held: deque[Told] = deque()
        self._size = self._left_out = 0
        self._news = asyncio.Event()
        self._began_at = self._answered_at = self._loop.time()
        self._heard, self._away = False, False
        self._tasks: list[asyncio.Task[None]] = []
        self.ended: StreamEndReason | None = None

    async def __aenter__(self) -> "_Viewer":
        self._channel = await self._layer.new_channel()
        if self._follow:
            await self._layer.group_add(self._group, self._channel)
        self._tasks = [asyncio.create_task(step) for step in (self._hear(), self._ask(), self._check())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(OSError, RedisError):
            await self._layer.group_send(asking_group(self._cluster_id), self._question("logs.unwanted"))
            if self._follow:
                await self._layer.group_discard(self._group, self._channel)

    @property
    def _group(self) -> str:
        return pod_group(self._source.attempt_id, self._source.pod)

    async def tell(self) -> AsyncGenerator[Told | None]:
        """Yield what was heard until something ends it, None now and then where that is nothing."""
        while True:
            self._settle()
            while (told := self._next()) is not None:
                yield told
                if isinstance(told, LogNote) and told.ends:
                    return
            if self.ended is not None:
                return
            self._news.clear()
            wait = min(SILENCE_SECONDS, max(0.0, self._settles_at - self._loop.time()))
            try:
                await asyncio.wait_for(self._news.wait(), wait)
            except TimeoutError:
                if wait == SILENCE_SECONDS:
                    yield None

    # What is held

    def _next(self) -> Told | None:
        """Return what is to be told next; lines not before it is settled which were asked for."""
        if self._left_out:
            count, self._left_out = self._left_out, 0
            return LogNote("slow", f"{words.count(count, 'line')} left out here: not read fast enough.")
        if not self._held or (self._tail is not None and isinstance(self._held[0], LogLines)):
            return None
        told = self._held.popleft()
        if isinstance(told, LogLines):
            self._size -= len(told.text)
        return told

    def _hold(self, told: Told) -> None:
        """Keep what was heard until it is read; let go of the oldest lines that are too many."""
        self._held.append(told)
        self._news.set()
        if not isinstance(told, LogLines):
            return
        self._size += len(told.text)
        if self._tail is not None and self._settles_at == math.inf and self._follow:
            self._settles_at = self._loop.time() + SETTLE_SECONDS
        most = HELD_CHARACTERS if self._follow else 2 * KEPT_BYTES
        while self._size > most and isinstance(oldest := self._held.popleft(), LogLines):
            self._size -= len(oldest.text)
            self._left_out += oldest.dropped + oldest.text.count("\n")

    def _settle(self) -> None:
        """Cut what was written before to the lines that were asked for, once all of it is there."""
        if self._tail is None or (self.ended is None and self._loop.time() < self._settles_at):
            return
        lines = [told for told in self._held if isinstance(told, LogLines)]
        others = [told for told in self._held if isinstance(told, LogNote)]
        text, before = last_lines("".join(each.text for each in lines), self._tail)
        dropped = 0 if before else sum(each.dropped for each in lines)
        cursor = lines[-1].cursor if lines else ""
        self._tail, self._settles_at, self._left_out = None, math.inf, 0
        self._held = deque([LogLines(text, dropped, cursor), *others]) if text or dropped else deque(others)
        self._size = len(text)

    # What is heard

    async def _hear(self) -> None:
        while True:
            event: Event = await self._layer.receive(self._channel)
            kind, stream = event["type"], event["stream"]
            if kind == "logs.here":
                self._here(stream)
            elif kind == "logs.over" and stream in {"", self._stream}:
                self._over(StreamEndReason(event["reason"]), event["message"])
            elif stream != self._stream:
                continue
            elif kind == "logs.lines":
                self._lines(event)
            elif kind == "logs.lost":
                self._lose()

    def _here(self, stream: str) -> None:
        """The agent has the question; another connection of its cluster is heard when the one before is silent."""
        now = self._loop.time()
        another = self._stream and stream.partition(".")[0] != self._stream.partition(".")[0]
        if another and now - self._answered_at < AWAY_SECONDS:
            return
        if stream != self._stream:
            self._stream, self._sequence = stream, 0
        self._answered_at, self._heard = now, True
        if self._away:
            self._away = False
            self._hold(_BACK)

    def _lines(self, event: Event) -> None:
        sequence = int(event["sequence"])
        if sequence <= self._sequence:
            return
        if self._sequence and sequence > self._sequence + 1 and not event["missed"]:
            self._hold(LogNote("lost", "Lines were lost here on their way through the server."))
        self._sequence = sequence
        self._cursor = event["cursor"] or self._cursor
        self._hold(LogLines(event["text"], int(event["dropped"]), event["cursor"]))

    def _over(self, reason: StreamEndReason, message: str) -> None:
        if reason is not StreamEndReason.GONE:
            self._hold(LogNote(reason.value, message, ends=True))
        self.ended = reason
        self._news.set()

    def _lose(self) -> None:
        self._stream = ""
        if not self._follow:
            self.ended = StreamEndReason.FAILED
            self._hold(_NO_ANSWER)
        elif not self._away:
            self._away = True
            self._hold(_AWAY)

    # What is asked

    async def _ask(self) -> None:
        """Say that a viewer looks, again and again; notice where no answer comes."""
        while True:
            with suppress(OSError, RedisError):
                await self._layer.group_send(asking_group(self._cluster_id), self._question("logs.wanted"))
            await asyncio.sleep(ASK_SECONDS if self._heard else FIRST_ASK_SECONDS)
            silent = self._loop.time() - self._answered_at
            late = not self._follow and self._loop.time() - self._began_at > PATIENCE_SECONDS
            if silent > (AWAY_SECONDS if self._heard else FIRST_AWAY_SECONDS) or late:
                self._lose()

    def _question(self, kind: str) -> Event:
        return {
            "type": kind,
            "viewer": self._channel,
            "attempt": str(self._source.attempt_id),
            "pod": self._source.pod,
            "follow": self._follow,
            "tail": RECENT_CHARACTERS if self._follow else KEPT_BYTES,
            "after": self._cursor,
            "attached": self._stream,
        }

    async def _check(self) -> None:
        """Look now and then whether the viewer may still see this."""
        while self._allowed is not None:
            await asyncio.sleep(CHECK_SECONDS)
            if not await self._allowed():
                self._held.clear()
                self._tail, self._left_out, self._size = None, 0, 0
                self._hold(_NOT_ANY_MORE)
                return
