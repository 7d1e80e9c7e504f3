"""What goes on in one agent's logs connection: its viewers by pod, and what the agent sends of each.

However many follow a pod, the agent is asked once. Its last lines are kept here while it is followed, for viewers that
come later. A viewer says so every few seconds (`viewing`); a pod for which none did for a while is stopped. A single
look at the last lines is a stream of its own.

Everything is told over the channel layer: to all viewers of a pod by its group, to one by the channel it named.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from agentlink.bucket import TokenBucket
from agentlink.protocol.logs import (
    KEPT_BYTES,
    MAX_TEXT,
    STREAMS,
    Ask,
    Chunk,
    StopStream,
    StreamEnd,
    StreamEndReason,
)

RECENT_CHARACTERS = 256 * 1024
"""Of each followed pod, for viewers that come later."""
MOST_CHUNKS = 2000
LEASE_SECONDS = 15.0
"""How long a viewer counts as looking that does not say so again."""
SINGLE_LOOKS = 32
TAKEN_A_SECOND = 8 * 1024 * 1024
"""Characters from one agent; an honest one sends half of that. More is left out."""

Event = dict[str, Any]
Tell = Callable[[str, Event], Awaitable[None]]
Say = Callable[[Ask | StopStream], Awaitable[None]]
Key = tuple[UUID, int]


def asking_group(cluster_id: UUID) -> str:
    """Return the group in which a cluster's logs connections hear of viewers."""
    return f"logs.of.{cluster_id.hex}"


def pod_group(attempt_id: UUID, pod: int) -> str:
    """Return the group of all viewers of a pod."""
    return f"logs.pod.{attempt_id.hex}.{pod}"


class _ExchangePart(NamedTuple):
    sequence: int
    text: str
    dropped: int
    cursor: str


@dataclass(slots=True)
class _Stream:
    """What the agent was asked for. `single` is the channel of a viewer that looks once."""

    number: int
    key: Key
    single: str = ""
    wanted_until: dict[str, float] = field(default_factory=dict)
    recent: deque[_ExchangePart] = field(default_factory=deque)
    size: int = 0
    sequence: int = 0
    left_out: int = 0

    def remember(self, part: _ExchangePart) -> None:
        """Keep the part among the recent ones."""
        self.recent.append(part)
        self.size += len(part.text)
        while self.size > RECENT_CHARACTERS or len(self.recent) > MOST_CHUNKS:
            self.size -= len(self.recent.popleft().text)

    def since(self, cursor: str, characters: int) -> Iterator[_ExchangePart]:
        """Yield what came after a cursor, or about the last characters, put together to larger parts."""
        chosen: deque[_ExchangePart] = deque()
        size = 0
        for part in reversed(self.recent):
            reached = part.cursor and part.cursor <= cursor if cursor else size >= characters
            if reached:
                break
            chosen.appendleft(part)
            size += len(part.text)
        texts: list[str] = []
        dropped = length = 0
        for place, part in enumerate(chosen):
            texts.append(part.text)
            length += len(part.text)
            dropped = dropped or part.dropped
            following = chosen[place + 1] if place + 1 < len(chosen) else None
            if following is None or following.dropped or length + len(following.text) > MAX_TEXT:
                yield _ExchangePart(part.sequence, "".join(texts), dropped, part.cursor)
                texts, dropped, length = [], 0, 0


class Exchange:
    """One connection's streams. `tell` sends to a channel or, with a name that begins with `logs.`, to a group."""

    def __init__(self, *, say: Say, tell: Tell, tell_group: Tell) -> None:
        self.id = uuid.uuid4().hex
        self._say, self._tell, self._tell_group = say, tell, tell_group
        self._streams: dict[int, _Stream] = {}
        self._followed: dict[Key, _Stream] = {}
        self._singles: dict[str, _Stream] = {}
        self._next = 1
        self._bucket = TokenBucket(at_once=2 * TAKEN_A_SECOND, a_second=TAKEN_A_SECOND)

    # Viewers

    async def wanted(self, event: Event) -> None:
        """Answer a viewer: it is known, the agent is here, and this is what it has missed."""
        key = (UUID(event["attempt"]), int(event["pod"]))
        viewer, until = str(event["viewer"]), asyncio.get_running_loop().time() + LEASE_SECONDS
        stream = self._followed.get(key) if event["follow"] else self._singles.get(viewer)
        if stream is None:
            stream = await self._open(key, viewer, event)
            if stream is None:
                return
        stream.wanted_until[viewer] = until
        here = f"{self.id}.{stream.number}"
        attached = event["attached"] == here
        await self._tell(viewer, {"type": "logs.here", "stream": here})
        if not attached and event["follow"]:
            for part in stream.since(str(event["after"]), int(event["tail"])):
                await self._tell(viewer, self._lines(stream, part, missed=True))

    async def unwanted(self, event: Event) -> None:
        """Take in that a viewer looks no more."""
        viewer = str(event["viewer"])
        for stream in list(self._streams.values()):
            if stream.wanted_until.pop(viewer, None) is not None and not stream.wanted_until:
                await self._stop(stream)

    async def expire(self) -> None:
        """Stop streams of which no viewer has said for a while that it looks."""
        now = asyncio.get_running_loop().time()
        for stream in list(self._streams.values()):
            stream.wanted_until = {who: until for who, until in stream.wanted_until.items() if until > now}
            if not stream.wanted_until:
                await self._stop(stream)

    async def close(self) -> None:
        """Tell all viewers that the agent is away."""
        for stream in list(self._streams.values()):
            await self._to_all(stream, {"type": "logs.lost", "stream": f"{self.id}.{stream.number}"})
        self._streams.clear()

    # The agent

    async def chunk(self, message: Chunk) -> None:
        """Hand lines on; those of a stream that is over already are dropped."""
        stream = self._streams.get(message.stream)
        if stream is None or message.sequence <= stream.sequence:
            return
        stream.sequence = message.sequence
        if self._bucket.has(len(message.text)):
            self._bucket.owe(len(message.text))
            dropped, stream.left_out = message.dropped + stream.left_out, 0
            part = _ExchangePart(message.sequence, message.text, dropped, message.cursor)
        else:
            stream.left_out += message.dropped + message.text.count("\n")
            return
        if not stream.single:
            stream.remember(part)
        await self._to_all(stream, self._lines(stream, part))

    async def end(self, message: StreamEnd) -> None:
        """Tell all viewers that there are no more lines."""
        stream = self._streams.get(message.stream)
        if stream is not None:
            over = {"type": "logs.over", "stream": f"{self.id}.{stream.number}"}
            await self._to_all(stream, over | {"reason": message.reason.value, "message": message.message})
            self._drop(stream)

    # Inside

    async def _open(self, key: Key, viewer: str, event: Event) -> _Stream | None:
        """Ask the agent; None where it is asked for too much already, which the viewer is told."""
        follow = bool(event["follow"])
        if len(self._followed if follow else self._singles) >= (STREAMS if follow else SINGLE_LOOKS):
            text = f"The logs of {STREAMS} pods of this cluster are followed already; try again later."
            over = {
                "type": "logs.over",
                "stream": "",
                "reason": StreamEndReason.TOO_MANY.value,
                "message": text,
            }
            await self._tell(viewer, over)
            return None
        stream = _Stream(self._next, key, single="" if follow else viewer)
        self._next += 1
        self._streams[stream.number] = stream
        if follow:
            self._followed[key] = stream
        else:
            self._singles[viewer] = stream
        tail = RECENT_CHARACTERS if follow else min(KEPT_BYTES, int(event["tail"]))
        ask = Ask(
            stream=stream.number,
            attempt=key[0],
            pod=key[1],
            follow=follow,
            tail_bytes=tail,
            after=str(event["after"]),
        )
        await self._say(ask)
        return stream

    async def _stop(self, stream: _Stream) -> None:
        self._drop(stream)
        await self._say(StopStream(stream=stream.number))

    def _drop(self, stream: _Stream) -> None:
        self._streams.pop(stream.number, None)
        if stream.single:
            self._singles.pop(stream.single, None)
        elif self._followed.get(stream.key) is stream:
            del self._followed[stream.key]

    async def _to_all(self, stream: _Stream, event: Event) -> None:
        if stream.single:
            await self._tell(stream.single, event)
        else:
            await self._tell_group(pod_group(*stream.key), event)

    def _lines(self, stream: _Stream, part: _ExchangePart, *, missed: bool = False) -> Event:
        return {
            "type": "logs.lines",
            "stream": f"{self.id}.{stream.number}",
            "sequence": part.sequence,
            "text": part.text,
            "dropped": part.dropped,
            "cursor": part.cursor,
            "missed": missed,
        }
