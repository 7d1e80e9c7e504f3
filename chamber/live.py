"""Announce a change to open pages, and ring the scheduler; both after commit, both by name.

Imports no app. An announcement is `{"topic", "version"}` and carries no data: whoever hears it fetches the
fragment over HTTP, where permission is checked. A lost announcement costs staleness, nothing else.

Topics: `overview`, `teams`, `pools`, `queue:<pool slug>`, `workloads`, `workload:<id>`.
"""

import asyncio
import hashlib
import logging
import threading
import time
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

logger = logging.getLogger(__name__)

_lock = threading.Lock()
_versions: dict[str, int] = {}
_home: asyncio.AbstractEventLoop | None = None
# The loop itself keeps only weak references to its tasks.
_sending: set[asyncio.Task[None]] = set()


def bind(loop: asyncio.AbstractEventLoop | None) -> None:
    """Send from now on through `loop`: the in-memory channel layer belongs to one event loop's thread."""
    global _home  # noqa: PLW0603 - one loop serves the process
    _home = loop


def group(topic: str) -> str:
    """Return the channel group of a topic (group names allow fewer characters than topics)."""
    return "live." + hashlib.sha256(topic.encode()).hexdigest()[:32]


def version(topic: str) -> int:
    """Return the topic's version as this process knows it; 0 before its first announcement."""
    return _versions.get(topic, 0)


def announce(*topics: str) -> None:
    """After commit, tell everyone who watches one of the topics that it changed."""
    transaction.on_commit(lambda: _send(topics))


def ring() -> None:
    """After commit, ask for a scheduling cycle now; many rings may become one cycle."""
    transaction.on_commit(_ring)


def _ring() -> None:
    try:
        import_string(settings.CHAMBER_RING)()
    except Exception:
        # The beat rings again within a second: a ring that fails costs that second, not the request.
        logger.exception("The scheduler could not be rung; the beat will do it.")


def _send(topics: tuple[str, ...]) -> None:
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
