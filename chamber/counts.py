"""Counts that all processes share and that are forgotten after a while: of tries, and of requests.

In Redis, or in the memory of the one process that there is. While Redis is away each process counts by itself: what is
bounded stays bounded, by as much more as there are processes.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import redis
from django.core.cache import caches

from chamber import logs

if TYPE_CHECKING:
    from django.core.cache.backends.base import BaseCache

T = TypeVar("T")

logger = logging.getLogger(__name__)

AWAY_SECONDS = 2.0
"""How long nobody asks again after a failure: one that does not answer is waited for once, not at each look."""
QUIET_SECONDS = 10.0
"""After so long without a failure it is over."""

_ask_from = 0.0
_away, _saying = logs.Lasting(), threading.Lock()


def window(seconds: int) -> tuple[int, float]:
    """Return the number of the present window of so many seconds, and how many of them are over."""
    number, elapsed = divmod(time.time(), seconds)
    return int(number), elapsed


def count(key: str, seconds: int, by: int = 1, *, shared: bool = True) -> int:
    """Add to a counter, which is forgotten after so long, and return it; not `shared`, it is this process's own."""

    def add(cache: "BaseCache") -> int:
        add_up = getattr(cache, "add_up", None)
        if add_up is not None:
            return int(add_up(key, by, seconds))
        cache.add(key, 0, seconds)
        try:
            return cache.incr(key, by)
        except ValueError:
            # It expired between the two lines: a new window began.
            return by

    return cached(add) if shared else add(caches["process"])


def cached(use: "Callable[[BaseCache], T]") -> "T":
    """Return what `use` makes of the cache that all processes share; of this process's own while that one is away."""
    global _ask_from  # noqa: PLW0603 - one cache serves the process
    if time.monotonic() >= _ask_from:
        try:
            found = use(caches["default"])
        except (redis.RedisError, OSError) as error:
            _ask_from = time.monotonic() + AWAY_SECONDS
            with _saying:
                due = _away.due(type(error).__name__)
            if due:
                logger.warning(
                    "Redis does not answer (%s): requests and tries are counted by this process alone.",
                    type(error).__name__,
                )
        else:
            with _saying:
                seconds = _away.over(quiet_seconds=QUIET_SECONDS)
            if seconds is not None:
                logger.info("Redis answers again after %.0f s: all processes count together.", seconds)
            return found
    return use(caches["process"])
