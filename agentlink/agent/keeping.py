"""Keeps what pods have written over their end: it is read before they are gone, and held until the server stored it.

A pod that ended by itself stays in the cluster until its attempt is forgotten, and is read when there is a connection
to send it by. One that is being stopped is gone a moment after its end: its last lines are read from before it is told
to stop until it is gone, into a bounded memory that all such pods share. Forgetting an attempt waits until its pods'
logs are stored, for a bounded time.
"""

import asyncio
import logging
import time
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing, suppress
from typing import Any
from uuid import UUID

from agentlink.agent.backends.base import Backend, NoLogs, Observation
from agentlink.agent.lines import LineSplitter
from agentlink.protocol import ENDED, PodState
from agentlink.protocol.logs import (
    KEPT_BYTES,
    KEPT_MESSAGE_BYTES,
    KeptLogs,
    KeptPart,
    kept_in_messages,
    parts_of,
)

logger = logging.getLogger(__name__)

SHARED_BYTES = 32 * 1024 * 1024
"""For the last lines of all pods that are being stopped."""
LEAST_BYTES = 64 * 1024
"""What a pod has of that, however many they are."""
MOST_READ = 400
"""Pods that are read at a time while they are being stopped, each over a connection; of others nothing is kept."""
OPEN_SECONDS = 2.0
"""How long a stop waits until its pods' logs are being read."""
LAST_LINES_SECONDS = 5.0
"""How long after its attempt is over a pod's log is still waited for to end."""
STORE_SECONDS = 60.0
"""How long an attempt is kept from being forgotten."""
GATHER_SECONDS = 0.2
"""Logs of pods that end within this time are sent together."""
AGAIN_SECONDS = 30.0
"""After which what the server has not stored is sent again."""
READ_AT_ONCE = 8
READ_SECONDS = 15.0
"""How long the log of a pod that has ended may take."""
TERMINATING = "terminating"
"""The reason that a backend gives for a pod which is being stopped, whatever asked for it."""

Key = tuple[UUID, int]


class Tail:
    """The last lines of what is fed, up to so many bytes."""

    def __init__(self, room: Callable[[], int]) -> None:
        self._room = room
        self._lines: deque[str] = deque()
        self._size = 0
        self.cut = False

    def add(self, lines: Iterable[str]) -> None:
        """Take in lines, and let go of the first ones that do not fit any more."""
        for line in lines:
            self._lines.append(line)
            self._size += len(line.encode())
        room = self._room()
        while self._size > room:
            self._size -= len(self._lines.popleft().encode())
            self.cut = True

    def lines(self) -> list[str]:
        """Return the lines, each with its newline."""
        return list(self._lines)


class _Pod:
    """One pod that is over, or will be."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.tail: Tail | None = None
        """Of a pod that is being stopped: what was read of it."""
        self.reading: asyncio.Task[None] | None = None
        self.opened = asyncio.Event()
        self.settled = asyncio.Event()
        self.sent_at: float | None = None


class LogKeeper:
    """What is to be kept of one cluster's pods. Lives as long as the agent; connections come and go."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._running: dict[UUID, set[int]] = {}
        self._pods: dict[UUID, dict[int, _Pod]] = defaultdict(dict)
        self._reading: set[_Pod] = set()
        self._unsettled: dict[Key, _Pod] = {}
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._forgetting: set[UUID] = set()

    async def close(self) -> None:
        """Stop reading and waiting."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # What the agent sees and does

    def observe(self, observations: Iterable[Observation]) -> None:
        """Take in what the cluster has of some attempts: pods that end are read."""
        for seen in observations:
            self._running[seen.attempt] = {pod.index for pod in seen.pods if pod.state is PodState.RUNNING}
            for pod in seen.pods:
                if pod.state in (PodState.SUCCEEDED, PodState.FAILED):
                    self._ended(seen.attempt, pod.index)
                elif pod.state is PodState.RUNNING and (pod.reason == TERMINATING or seen.phase in ENDED):
                    self._read(seen.attempt, pod.index)
                elif pod.state is PodState.RUNNING:
                    self._runs(seen.attempt, pod.index)
            if not seen.pods:
                self._running.pop(seen.attempt, None)

    async def before_stop(self, stops: Iterable[tuple[UUID, frozenset[int] | None]]) -> None:
        """Return when the logs of pods that will be stopped are being read, or that took too long."""
        found = [
            self._read(attempt, index)
            for attempt, indexes in stops
            for index in self._running.get(attempt, ())
            if indexes is None or index in indexes
        ]
        waits = [asyncio.create_task(pod.opened.wait()) for pod in found if not pod.opened.is_set()]
        if waits:
            _, late = await asyncio.wait(waits, timeout=OPEN_SECONDS)
            for task in late:
                task.cancel()

    async def forget(self, attempt: UUID) -> None:
        """Have the backend forget the attempt: now where nothing of it is to be kept, else when that is stored."""
        if attempt in self._forgetting:
            return
        self._running.pop(attempt, None)
        if all(pod.settled.is_set() for pod in self._pods.get(attempt, {}).values()):
            self._pods.pop(attempt, None)
            await self._backend.forget(attempt)
            return
        self._forgetting.add(attempt)
        self._spawn(self._forget_later(attempt))

    # What the connection does

    async def send(self, send: Callable[[KeptLogs], Awaitable[None]]) -> None:
        """Send what is to be kept for as long as a connection lasts."""
        for pod in self._unsettled.values():
            pod.sent_at = None
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), timeout=AGAIN_SECONDS)
                await asyncio.sleep(GATHER_SECONDS)
            self._news.clear()
            async with aclosing(self._messages()) as messages:
                async for message in messages:
                    await send(message)

    def stored(self, keys: Iterable[Key]) -> None:
        """Take in what the server has, or does not want."""
        for key in keys:
            if (pod := self._unsettled.get(key)) is not None and pod.sent_at is not None:
                self._settle(pod)

    # Inside

    def _ended(self, attempt: UUID, index: int) -> None:
        pods = self._pods[attempt]
        if index not in pods:
            self._wait_for(self._new(attempt, index))

    def _runs(self, attempt: UUID, index: int) -> None:
        """Begin anew with a pod that was taken away, stored, and is there again: its attempt shrank and has grown."""
        pods = self._pods.get(attempt, {})
        if index in pods and pods[index].settled.is_set():
            del pods[index]

    def _read(self, attempt: UUID, index: int) -> _Pod:
        """Return the pod, whose log is being read from now on at the latest."""
        pod = self._pods[attempt].get(index)
        if pod is not None:
            return pod
        pod = self._new(attempt, index)
        if len(self._reading) < MOST_READ:
            pod.tail = Tail(self._room)
            self._reading.add(pod)
            pod.reading = self._spawn(self._follow(pod, pod.tail))
        else:
            logger.warning(
                "Too many pods are stopped at once: nothing is kept of pod %d of %s.", index, attempt
            )
            pod.opened.set()
            pod.settled.set()
        return pod

    def _new(self, attempt: UUID, index: int) -> _Pod:
        pod = self._pods[attempt][index] = _Pod((attempt, index))
        return pod

    def _room(self) -> int:
        return min(KEPT_BYTES, max(LEAST_BYTES, SHARED_BYTES // max(1, len(self._reading))))

    async def _follow(self, pod: _Pod, tail: Tail) -> None:
        lines = LineSplitter()
        try:
            pieces = self._backend.logs(*pod.key, follow=True, tail_bytes=self._room())
            async with aclosing(pieces):
                async for piece in pieces:
                    pod.opened.set()
                    tail.add(lines.feed(piece.data))
        except NoLogs as none:
            logger.info("Nothing is kept of pod %d of %s: %s", pod.key[1], pod.key[0], none)
        except Exception as error:
            logger.warning("The log of pod %d of %s was read in part: %r", pod.key[1], pod.key[0], error)
        finally:
            pod.opened.set()
            tail.add(lines.flush())
            self._wait_for(pod)

    async def _forget_later(self, attempt: UUID) -> None:
        pods = list(self._pods[attempt].values())
        try:
            reading = [pod.reading for pod in pods if pod.reading is not None and not pod.reading.done()]
            if reading:
                _, late = await asyncio.wait(reading, timeout=LAST_LINES_SECONDS)
                for task in late:
                    task.cancel()
            async with asyncio.timeout(STORE_SECONDS):
                for pod in pods:
                    await pod.settled.wait()
        except TimeoutError:
            logger.warning("Attempt %s is forgotten, though not all its logs are stored.", attempt)
        finally:
            self._forgetting.discard(attempt)
        for pod in self._pods.pop(attempt, {}).values():
            self._settle(pod)
        try:
            await self._backend.forget(attempt)
        except Exception:
            logger.exception("Attempt %s could not be forgotten; it is tried again when it is seen.", attempt)

    async def _messages(self) -> AsyncGenerator[KeptLogs]:
        """Yield what was not sent yet, or not stored for long, some pods together."""
        again = time.monotonic() - AGAIN_SECONDS
        due = [pod for pod in self._unsettled.values() if pod.sent_at is None or pod.sent_at < again]
        waiting: list[list[KeptPart]] = []
        size = 0
        for start in range(0, len(due), READ_AT_ONCE):
            group = due[start : start + READ_AT_ONCE]
            for parts in await asyncio.gather(*(self._parts(pod) for pod in group)):
                waiting.append(parts)
                size += sum(len(part.text) for part in parts)
            if size >= KEPT_MESSAGE_BYTES:
                for message in kept_in_messages(waiting):
                    yield message
                waiting, size = [], 0
        for message in kept_in_messages(waiting):
            yield message

    async def _parts(self, pod: _Pod) -> list[KeptPart]:
        """Return what is kept of the pod; nothing where nothing can be read."""
        tail = pod.tail
        pod.sent_at = time.monotonic()
        if tail is None:
            tail = Tail(lambda: KEPT_BYTES)
            lines = LineSplitter()
            try:
                pieces = self._backend.logs(*pod.key, follow=False, tail_bytes=KEPT_BYTES)
                async with asyncio.timeout(READ_SECONDS), aclosing(pieces):
                    async for piece in pieces:
                        tail.add(lines.feed(piece.data))
                tail.add(lines.flush())
            except NoLogs:
                pass
            except Exception as error:
                logger.warning("The log of pod %d of %s could not be read: %r", pod.key[1], pod.key[0], error)
        if not (found := tail.lines()):
            self._settle(pod)
            return []
        return parts_of(*pod.key, found, cut=tail.cut)

    def _wait_for(self, pod: _Pod) -> None:
        """Have the pod's log sent."""
        self._unsettled[pod.key] = pod
        self._news.set()

    def _settle(self, pod: _Pod) -> None:
        self._unsettled.pop(pod.key, None)
        self._reading.discard(pod)
        pod.tail = None
        pod.settled.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
