"""A server that is away, as one process tells it: one error when it goes, one line when it is back."""

import logging
import os
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 300.0
"""How often it is said that a server is still away."""
PROBE_SECONDS = 1.0
"""How long after one try to reach an absent server the next begins."""
LATE_SECONDS = 10.0
"""How long after its return errors come of who began to wait before it."""

Probe = Callable[[], None]
"""Connects to the server once; raises where that fails."""


class Absence:
    """What this process knows of one server: whether it is away, and since when.

    The first error of a connection has a thread look at the server. If it answers, that was all; if not, whatever else
    fails for want of it is left out of the log until it answers again.
    """

    def __init__(self, server: str, probe: Probe) -> None:
        self.server = server
        self._probe = probe
        self._lock = threading.Lock()
        self._watching = False
        self._away = False
        self._back_at = -LATE_SECONDS

    @property
    def away(self) -> bool:
        """Whether the server is looked for now."""
        return self._watching

    @property
    def lately(self) -> bool:
        """Whether the server is looked for, or has come back a moment ago."""
        return self._watching or time.monotonic() - self._back_at < LATE_SECONDS

    def begin(self) -> bool:
        """Look for the server from now on, in a thread of its own; False where that is done already."""
        with self._lock:
            if self._watching:
                return False
            self._watching = True
        threading.Thread(target=self._watch, name=f"looks for {self.server}", daemon=True).start()
        return True

    def _watch(self) -> None:
        since = said = time.monotonic()
        while (error := self._tried()) is not None:
            self._away = True
            now = time.monotonic()
            if now - said >= AGAIN_SECONDS:
                said = now
                logger.error("%s is still away, after %d s: %s", self.server, now - since, error)
            time.sleep(PROBE_SECONDS)
        with self._lock:
            was_away, self._away, self._watching = self._away, False, False
            if was_away:
                self._back_at = time.monotonic()
        if was_away:
            logger.info("%s is back after %d s.", self.server, time.monotonic() - since)

    def _tried(self) -> str | None:
        """Return why the server cannot be reached, in one line; None where it can."""
        from chamber.serving.outages import first_line

        try:
            self._probe()
        except Exception as error:  # whatever keeps us from the server
            return first_line(error)
        return None


def _probe_database() -> None:
    from chamber.serving import surroundings

    found = surroundings.connection_without_pool()
    try:
        found.ensure_connection()
    finally:
        found.close()


def _probe_redis() -> None:
    from django.conf import settings

    from chamber import sentinels

    client = sentinels.client(settings.REDIS, socket_timeout=5, socket_connect_timeout=5)
    try:
        client.ping()
    finally:
        client.close()


def _begin() -> None:
    """Know nothing yet; also in a process that was forked off, which has no thread of its own."""
    global POSTGRESQL, REDIS  # noqa: PLW0603 - one of each per process
    POSTGRESQL = Absence("PostgreSQL", _probe_database)
    REDIS = Absence("Redis", _probe_redis)


POSTGRESQL: Absence
REDIS: Absence
_begin()
os.register_at_fork(after_in_child=_begin)
