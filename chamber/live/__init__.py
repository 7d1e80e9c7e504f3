"""Announce a change to open pages, and ring the scheduler; both after commit, both by name.

Imports no app. An announcement is `{"topic", "version"}` and carries no data: whoever hears it fetches the
fragment over HTTP, where permission is checked. A lost announcement costs staleness, nothing else.

Topics: `overview`, `teams`, `pools`, `queue:<pool slug>`, `workloads`, `workload:<id>`, `owner:<user id>`, `silence`;
for agents `link:<cluster id>`; for open sockets `user:<id>` and `session:<hash of its key>`.

With Redis (`settings.REDIS`) versions are kept there for all processes, and a thread sends what is announced: the first
at once, what follows within 50 ms together (`chamber.live.shared`, `chamber.live.announcer`). Without it, one process
is all, and both are in its memory: the in-memory channel layer belongs to one event loop's thread (`bind`).
"""

import asyncio
import hashlib
import logging
import threading
import time
from functools import cache
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

from chamber.live.announcer import Announcer
from chamber.live.shared import Shared

logger = logging.getLogger(__name__)

UNKNOWN = 0
"""The version where Redis cannot be asked: it equals no version, so nobody trusts it."""

_lock = threading.Lock()
_versions: dict[str, int] = {}
_life = time.time_ns() // 1000
"""The version of what was not announced yet in this process: differs from what a page knew of an earlier one."""

_home: asyncio.AbstractEventLoop | None = None
# The loop itself keeps only weak references to its tasks.
_sending: set[asyncio.Task[None]] = set()


def bind(loop: asyncio.AbstractEventLoop | None) -> None:
    """Send from now on through `loop`, where there is no Redis: the in-memory layer belongs to one loop's thread."""
    global _home  # noqa: PLW0603 - one loop serves the process
    _home = loop


def group(topic: str) -> str:
    """Return the channel group of a topic (group names allow fewer characters than topics)."""
    return "live." + hashlib.sha256(topic.encode()).hexdigest()[:32]


def session_topic(key: str) -> str:
    """Return the topic that ends the sockets of a session, by its key; the key itself is told to nobody."""
    return f"session:{hashlib.sha256(key.encode()).hexdigest()}"


def version(topic: str) -> int:
    """Return the topic's version; `UNKNOWN` while Redis is away. Asks Redis: not for the event loop's thread."""
    return versions(topic)[0]


def versions(*topics: str) -> list[int]:
    """Return the topics' versions in their order, in one round trip."""
    shared = _shared()
    if shared is None:
        return [_versions.get(topic, _life) for topic in topics]
    return shared.versions(topics) or [UNKNOWN] * len(topics)


def stamp(*topics: str) -> str:
    """Return the topics' versions as a section of a page carries them (`data-live-version`)."""
    return " ".join(map(str, versions(*topics)))


def announce(*topics: str) -> None:
    """After commit, tell everyone who watches one of the topics that it changed."""
    transaction.on_commit(lambda: _send(topics))


def announce_now(*topics: str) -> None:
    """Tell everyone who watches one of the topics that it changed; for what no transaction changes."""
    _send(topics)


def flush(seconds: float = 2.0) -> bool:
    """Wait until what was announced so far is sent; return False where it was not within `seconds`."""
    shared = _shared()
    return shared is None or _announcer(shared).flush(seconds)


def forget() -> None:
    """Drop all versions: whoever knows one finds another."""
    shared = _shared()
    if shared is not None:
        flush()
        shared.forget()
    with _lock:
        _versions.clear()


def ring() -> None:
    """After commit, ask for a scheduling cycle now; many rings may become one cycle."""
    transaction.on_commit(_ring)


def _ring() -> None:
    try:
        import_string(settings.CHAMBER_RING)()
    except Exception:
        # The beat rings again within a second: a ring that fails costs that second, not the request.
        logger.exception("The scheduler could not be rung; the beat will do it.")


def _shared() -> Shared | None:
    """Return where all processes keep the versions; None where this process is all."""
    if not settings.REDIS:
        return None
    return _shared_at(settings.REDIS, settings.CHANNEL_LAYERS["default"]["CONFIG"]["prefix"])


@cache
def _shared_at(url: str, prefix: str) -> Shared:
    return Shared(url, prefix=prefix, group=group, message=_message)


@cache
def _announcer(shared: Shared) -> Announcer:
    return Announcer(shared.announce)


def _message(topic: str, number: int) -> bytes:
    """Return an announcement as the channel layer itself would send it."""
    layer: Any = get_channel_layer()
    message: bytes = layer.serialize({"type": "live.changed", "topic": topic, "version": number})
    return message


def _send(topics: tuple[str, ...]) -> None:
    shared = _shared()
    if shared is not None:
        _announcer(shared).add(topics)
        return
    for topic in topics:
        with _lock:
            number = max(_versions.get(topic, 0) + 1, time.time_ns() // 1000)
            _versions[topic] = number
        _dispatch(topic, number)


def _dispatch(topic: str, number: int) -> None:
    layer: Any = get_channel_layer()
    message: dict[str, Any] = {"type": "live.changed", "topic": topic, "version": number}
    home = _home
    if home is not None and home.is_running():

        def send() -> None:
            task = home.create_task(layer.group_send(group(topic), message))
            _sending.add(task)
            task.add_done_callback(_sending.discard)

        home.call_soon_threadsafe(send)
        return
    try:
        async_to_sync(layer.group_send)(group(topic), message)
    except Exception:
        logger.exception("The announcement of %s was lost; pages catch up when they poll.", topic)
