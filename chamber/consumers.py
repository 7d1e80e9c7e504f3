"""The socket of live pages: it hears `{"watch": [topics]}` and says `{"topic", "version"}`, nothing else."""

import asyncio
import json
import random
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import DatabaseError
from django.utils import timezone

from chamber import live
from chamber.live.hub import PageReader, here
from chamber.sessions import VIEWING, held_back
from chamber.standing import StreamStanding
from teams.models import Pool
from teams.permissions import Permission, may_anywhere
from teams.sight import SIGHT_TOPIC, TOPIC, sight_of
from workloads.models import Workload

Answer = TypeVar("Answer")

MAX_TOPICS = 50
MAX_TOPIC_LENGTH = 200
MAX_PAGES_OF_USER = 100
MAX_MESSAGES, MAX_MESSAGES_SECONDS = 20, 10.0
SLOW_SECONDS = 10.0
"""How long a page may leave unread what it is told."""
CHECK_SECONDS = 60.0
"""How often it is looked again whether the page may stay open, give or take a quarter; at an alarm, at once."""
AFTER_END_SECONDS = 1.0
"""How long after the end of its session it is looked, which closes the page unless the session was used meanwhile."""

BAD_MESSAGE = 4400
SIGNED_OUT = 4401
NO_SUCH_SOCKET = 4404
SLOW = 4408
TOO_MANY = 4429

SHARED_TOPICS = frozenset({"overview", "teams", "pools", "workloads", "silence", TOPIC})
"""Topics of what everybody who is signed in may ask for, each seeing a part of their own."""


class LiveConsumer(AsyncWebsocketConsumer):
    """One open page. Carries no data: the page fetches what changed over HTTP, where permission is checked.

    A topic that its reader may not watch is answered like one that there is not: with version 0, and nothing after.
    `sight` is answered with a number of what its reader may see (`teams.sight`), and said again when that changes.
    Everything is said by one task, so that whoever does not read holds up nobody, and keeps the latest versions only.
    """

    channel_layer_alias = "none"  # the hub hears for all pages of the process
    reader: PageReader | None = None
    slow = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve until the socket closes, or its reader has left unread for too long what it was told."""
        try:
            await super().__call__(scope, receive, send)
        except asyncio.CancelledError:
            if not self.slow:
                raise
        finally:
            await self.disconnect(SLOW)

    async def connect(self) -> None:
        """Take in whoever is signed in; close with 4401 otherwise, with 4429 who has too many pages open."""
        await self.accept()
        self.user = self.scope.get("user")
        if self.user is None or not self.user.is_authenticated:
            await self.close(SIGNED_OUT)
            return
        session = self.scope.get("session")
        if await _in_thread(_has_none)(self.user, session):
            await self.close(SIGNED_OUT)
            return
        self.hub = here()
        if self.hub.owners[self.user.pk] >= MAX_PAGES_OF_USER:
            await self.close(TOO_MANY)
            return
        self.session_key: str = (session and session.session_key) or ""
        self.standing = StreamStanding(self.user.pk, session_key=self.session_key)
        self.standing.ends_at = await _in_thread(_end_of)(session)
        self.asked: frozenset[str] = frozenset()
        self.sight = 0
        self.heard_at: deque[float] = deque(maxlen=MAX_MESSAGES)
        self.reader = PageReader(self.user.pk, {f"user:{self.user.pk}", live.session_topic(self.session_key)})
        self.hub.enter(self.reader)
        main = asyncio.current_task()
        self.speaking = asyncio.create_task(self._speak(self.reader))
        self.speaking.add_done_callback(lambda _: self.slow and main and main.cancel())

    async def disconnect(self, code: int) -> None:  # noqa: ARG002 - the signature is Channels'
        """Forget the page; once is enough."""
        reader, self.reader = self.reader, None
        if reader is not None:
            self.speaking.cancel()
            await self.hub.leave(reader)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:  # noqa: ARG002
        """Watch the topics named; anything else closes the socket with 4400, and too many messages with 4429."""
        if self.reader is None or self.speaking.done():
            return
        topics = _topics(text_data)
        if topics is None:
            await self.close(BAD_MESSAGE)
            return
        if self._hurries():
            await self.close(TOO_MANY)
            return
        self.asked = topics
        allowed = await _allowed(self.user, topics)
        found = await self.hub.watch(self.reader, allowed)
        sight = {SIGHT_TOPIC: await self._sight()} if SIGHT_TOPIC in topics else {}
        self.reader.say(dict.fromkeys(topics - allowed, live.UNKNOWN) | found | sight)

    async def _sight(self) -> int:
        """Return what the reader may see now, as a number; the last one where the database is away."""
        with suppress(DatabaseError):  # the next look is soon enough
            self.sight = await _in_thread(sight_of)(self.user)
        return self.sight

    def _hurries(self) -> bool:
        now = asyncio.get_running_loop().time()
        full = len(self.heard_at) == MAX_MESSAGES
        hurries = full and now - self.heard_at[0] < MAX_MESSAGES_SECONDS
        self.heard_at.append(now)
        return hurries

    async def _speak(self, reader: PageReader) -> None:
        """Say what the hub hands over, and look now and then whether the page may stay."""
        try:
            while True:
                try:
                    async with asyncio.timeout(self._look_in()):
                        await reader.news.wait()
                except TimeoutError:
                    reader.alarmed = True
                if reader.alarmed and not await self._may_stay(reader):
                    await self.close(SIGNED_OUT)
                    return
                async with asyncio.timeout(SLOW_SECONDS):
                    for topic, version in reader.take():
                        await self.send(json.dumps({"topic": topic, "version": version}))
        except TimeoutError:
            self.slow = True

    def _look_in(self) -> float:
        """Return in how many seconds it is looked whether the page may stay: not long after the session's end."""
        seconds = CHECK_SECONDS * random.uniform(0.75, 1.25)  # noqa: S311 - guards nothing
        ends_at = self.standing.ends_at
        if ends_at is None:
            return seconds
        left = (ends_at - timezone.now()).total_seconds()
        return min(seconds, max(0.0, left) + AFTER_END_SECONDS)

    async def _may_stay(self, reader: PageReader) -> bool:
        """Look whether the session and its user still are; stop what the user may no longer watch."""
        reader.alarmed = False
        try:
            async with self.hub.checks:
                user = await _in_thread(self.standing.user)()
                if user is None:
                    return False
                self.user = user  # never None: a message may be under way
                allowed = await _allowed(self.user, self.asked)
        except DatabaseError:
            return True  # the next look is soon enough
        if allowed != reader.topics:
            await self.hub.watch(reader, allowed)
        before = self.sight
        if SIGHT_TOPIC in self.asked and await self._sight() != before:
            reader.say({SIGHT_TOPIC: self.sight})
        return True


class NoSuchSocket(AsyncWebsocketConsumer):
    """The socket of every other address: closed with 4404, as an address that there is not is answered with 404."""

    async def connect(self) -> None:
        """Close it. Only what was accepted can be told why."""
        await self.accept()
        await self.close(NO_SUCH_SOCKET)


def _topics(text: str | None) -> frozenset[str] | None:
    """Return the topics that a message asks for; None where it is not of the protocol."""
    try:
        asked = json.loads(text or "")["watch"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(asked, list) or len(asked) > MAX_TOPICS:
        return None
    return frozenset(asked) if all(map(_is_topic, asked)) else None


def _is_topic(topic: object) -> bool:
    """Return whether it may be a topic: short names and ids are of visible ASCII, and no database takes all else."""
    is_short = isinstance(topic, str) and 0 < len(topic) <= MAX_TOPIC_LENGTH
    return is_short and str(topic).isascii() and str(topic).isprintable()


def _in_thread(ask: Callable[..., Answer]) -> Callable[..., Coroutine[Any, Any, Answer]]:
    """Return `ask` as a coroutine that runs in a thread of the pool, with a database connection of its own."""
    asked: Callable[..., Coroutine[Any, Any, Answer]] = database_sync_to_async(ask, thread_sensitive=False)
    return asked


async def _allowed(user: Any, topics: Collection[str]) -> frozenset[str]:
    """Return those topics that are about something the user may see."""
    allowed = SHARED_TOPICS.intersection(topics) | ({f"owner:{user.pk}"} & set(topics))
    others = [topic for topic in topics if topic.startswith(("workload:", "queue:"))]
    return allowed | (await _visible(user, others) if others else set())


def _end_of(session: Any) -> datetime | None:
    """Return when a session ends unless it is used until then."""
    return session.get_expiry_date() if session else None


def _has_none(user: Any, session: Any) -> bool:
    """Return whether the reader's pages do not change by themselves: they may do nothing yet, or see the pages as
    somebody else does.
    """
    return (bool(session) and VIEWING in session) or held_back(user)


@_in_thread
def _visible(user: Any, topics: Collection[str]) -> set[str]:
    """Return those topics of workloads and queues that the user may see (at most three queries)."""
    named = [topic.partition(":") for topic in topics]
    slugs = [name for kind, _, name in named if kind == "queue"]
    ids = [found for kind, _, name in named if kind == "workload" and (found := _uuid(name))]
    visible = set()
    if slugs and may_anywhere(user, Permission.VIEW_TEAM):
        visible |= {
            f"queue:{slug}" for slug in Pool.objects.filter(slug__in=slugs).values_list("slug", flat=True)
        }
    if ids:
        seen = Workload.objects.visible_to(user).filter(pk__in=ids).values_list("pk", flat=True)
        visible |= {f"workload:{pk}" for pk in seen}
    return visible & set(topics)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
