"""Tells the open pages of one process what changed: hears each topic once, however many pages watch it.

Pages are told in rounds. A round tells all who watch a topic the same version, one page after another, at a pace that
the web processes can answer, for each page fetches its fragment then; the first of its kind has it rendered, and the
others find it kept (`chamber.fragments`). What changes meanwhile waits for the topic's next round: a second after the
last one began, longer where many pages are open. A page that is told keeps only the latest version of each topic.
"""

import asyncio
import logging
import os
import socket
import time
import weakref
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.conf import settings
from django.core.cache import cache
from django.db import DatabaseError
from django.utils.module_loading import import_string
from redis import RedisError

from chamber import live, logs

logger = logging.getLogger(__name__)

ROUND_SECONDS = 1.0
PAGES_OF_A_SECOND = 600
"""So many open pages lengthen a round by a second: 200 pages 1.3 s, 1,000 pages 2.7 s."""
TELLS_PER_SECOND = 400
STEP_SECONDS = 0.025
"""Pages are told some at a time: waking for each would cost more than telling it."""
FEW = 5
"""A topic that no more pages watch is told to them before others: somebody looks at one thing."""
CATCH_UP_SECONDS = 5.0
"""How often the versions of all watched topics are compared: what announcements were lost on the way is told then."""
SILENCE_TOPIC = "silence"
SILENCE_SECONDS = 2.0
"""How often it is looked whether a silence began or ended (`scheduling.explain.silence`): nobody announces that."""
COUNTED_SECONDS = 30
"""How long other processes believe this one's count of open pages."""


class PageReader:
    """One open page, as the hub sees it. `alarms` are topics that concern the page's right to be open at all."""

    def __init__(self, owner: object, alarms: Collection[str] = ()) -> None:
        self.owner = owner
        self.alarms = frozenset(alarms)
        self.topics: frozenset[str] = frozenset()
        self.alarmed = False
        self.news = asyncio.Event()
        self._outbox: dict[str, int] = {}
        self._pending: dict[str, int] = {}
        self._waits = False

    def hear(self, topic: str, version: int) -> bool:
        """Note a change; return whether the page is to be put in line to be told."""
        if topic in self.alarms:
            self.alarmed = True
            self.news.set()
            return False
        self._pending[topic] = version
        waited, self._waits = self._waits, True
        return not waited

    def tell(self) -> None:
        """Hand over what changed since the last time."""
        self._waits = False
        self.say({topic: number for topic, number in self._pending.items() if topic in self.topics})
        self._pending.clear()

    def say(self, versions: Mapping[str, int]) -> None:
        """Have the page told these versions at once."""
        self._outbox |= versions
        self.news.set()

    def take(self) -> list[tuple[str, int]]:
        """Return what the page is to be told now, by topic, and forget it."""
        self.news.clear()
        taken, self._outbox = self._outbox, {}
        return sorted(taken.items())


@dataclass(slots=True)
class Topic:
    """Who watches it, its latest version, and when its next round may begin (in the loop's time)."""

    readers: set[PageReader] = field(default_factory=set)
    latest: int = live.UNKNOWN
    next_at: float = 0.0
    round: asyncio.TimerHandle | None = None


class Hub:
    """All open pages of one event loop. Call from that loop only."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._layer: Any = get_channel_layer()
        self._topics: dict[str, Topic] = defaultdict(Topic)
        self._joined: set[str] = set()
        self._channel, self._open = "", asyncio.Event()
        self._line: deque[PageReader] = deque()
        self._queued = asyncio.Event()
        self._joining = asyncio.Lock()
        self._deaf = False
        self._tasks: list[asyncio.Task[None]] = []
        self.owners: Counter[object] = Counter()
        self.checks = asyncio.Semaphore(4)
        """Of how many pages it is looked at a time whether they may stay open."""

    @property
    def pages(self) -> int:
        """How many pages are open."""
        return self.owners.total()

    def enter(self, reader: PageReader) -> None:
        """Take in a page."""
        self.owners[reader.owner] += 1
        if not self._tasks:
            steps = (self._receive, self._pace, self._catch_up, self._watch_silence)
            self._tasks = [asyncio.create_task(_forever(step)) for step in steps]

    async def leave(self, reader: PageReader) -> None:
        """Forget a page; the last one takes the hub's tasks with it."""
        self.owners[reader.owner] -= 1
        self.owners += Counter()
        for topic in reader.topics | reader.alarms:
            self._topics[topic].readers.discard(reader)
        reader.topics = frozenset()
        await self._join()
        if not self.owners:
            tasks, self._tasks = self._tasks, []
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._channel, self._joined = "", set()
            self._open.clear()

    async def watch(self, reader: PageReader, topics: Collection[str]) -> dict[str, int]:
        """Have the page hear these topics and no others; return their versions, without those not known now.

        Versions are read after the topics are joined: what changes later is heard, what changed before is in them.
        """
        for topic in reader.topics - frozenset(topics):
            self._topics[topic].readers.discard(reader)
        reader.topics = frozenset(topics)
        for topic in reader.topics | reader.alarms:
            self._topics[topic].readers.add(reader)
        await self._join()
        found = await self._look([*reader.topics])
        for name, number in found.items():
            self._topics[name].latest = self._topics[name].latest or number
        return found

    async def _join(self) -> None:
        """Join the groups of topics that somebody watches, and leave the others."""
        async with self._joining:
            wanted = {name for name, topic in self._topics.items() if topic.readers}
            for name in self._topics.keys() - wanted:
                del self._topics[name]
            try:
                if not self._channel:
                    self._channel = await self._layer.new_channel()
                    self._open.set()
                for topic in wanted - self._joined:
                    await self._layer.group_add(live.group(topic), self._channel)
                    self._joined.add(topic)
                for topic in self._joined - wanted:
                    await self._layer.group_discard(live.group(topic), self._channel)
                    self._joined.discard(topic)
            except (OSError, RedisError) as error:
                if not self._deaf:
                    logger.warning(
                        "Changes are not heard now: %s It is tried again every few seconds.", error
                    )
                self._deaf = True
            else:
                self._deaf = False

    async def _look(self, topics: Collection[str]) -> dict[str, int]:
        found = await asyncio.to_thread(live.versions, *topics)
        return {topic: number for topic, number in zip(topics, found, strict=True) if number != live.UNKNOWN}

    async def _receive(self) -> None:
        await self._open.wait()
        message = await self._layer.receive(self._channel)
        self._hear(str(message["topic"]), int(message["version"]))

    def _hear(self, name: str, version: int) -> None:
        topic = self._topics.get(name)
        if topic is None or topic.latest == version:
            return
        topic.latest = version
        if topic.round is None:
            topic.round = self._loop.call_at(topic.next_at, self._begin_round, name, topic)

    def _begin_round(self, name: str, topic: Topic) -> None:
        topic.round = None
        topic.next_at = self._loop.time() + ROUND_SECONDS + self.pages / PAGES_OF_A_SECOND
        put = self._line.appendleft if len(topic.readers) <= FEW else self._line.append
        for reader in topic.readers:
            if reader.hear(name, topic.latest):
                put(reader)
        self._queued.set()

    async def _pace(self) -> None:
        if not self._line:
            self._queued.clear()
            await self._queued.wait()
            return
        for _ in range(min(len(self._line), round(TELLS_PER_SECOND * STEP_SECONDS))):
            self._line.popleft().tell()
        await asyncio.sleep(STEP_SECONDS)

    async def _catch_up(self) -> None:
        await asyncio.sleep(CATCH_UP_SECONDS)
        await self._join()
        for topic, number in (await self._look([*self._topics])).items():
            self._hear(topic, number)
        await asyncio.to_thread(_count, self.pages)

    async def _watch_silence(self) -> None:
        """Tell all pages when it differs what is not known; while Redis is away, those of this process."""
        mark = await _silence_mark()
        if _silence.mark != mark:
            _silence.mark = mark
            await asyncio.to_thread(live.announce_now, SILENCE_TOPIC)
            if SILENCE_TOPIC not in await self._look([SILENCE_TOPIC]):
                self._hear(SILENCE_TOPIC, time.time_ns() // 1000)
        await asyncio.sleep(SILENCE_SECONDS)


@dataclass(slots=True)
class _LastTold:
    """What the pages of this process were last told; kept while none is open."""

    mark: str | None = None


_silence = _LastTold()


@partial(database_sync_to_async, thread_sensitive=False)
def _silence_mark() -> str:
    """Return what is not known now, as a text; that the database is away is one of its own."""
    try:
        mark: str = import_string(settings.CHAMBER_SILENCE)()
    except DatabaseError:
        return "the database is away"
    return mark


async def _forever(step: Callable[[], Awaitable[None]]) -> None:
    """Take the step again and again; a fault costs a second, and once a line in the log."""
    failing = logs.Lasting()
    while True:
        try:
            await step()
            failing.over()
        except Exception as error:
            if failing.due(repr(error)):
                logger.exception("Open pages were not told of something; they catch up.")
            await asyncio.sleep(1)


def _count(pages: int) -> None:
    """Let other processes know how many pages are open here."""
    with suppress(Exception):  # what is counted may be lost, and that Redis is away is said elsewhere
        cache.set(f"connections:{socket.gethostname()}:{os.getpid()}", pages, COUNTED_SECONDS)


_hubs: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hub]" = weakref.WeakKeyDictionary()


def here() -> Hub:
    """Return the hub of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]
