"""A server that cannot be used, as one process tells it: one error when that begins, one line when it is over."""

import atexit
import logging
import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from chamber.logs import AGAIN_SECONDS

logger = logging.getLogger(__name__)

PROBE_SECONDS = 1.0
"""How long after one try to reach an absent server the next begins."""
LATE_SECONDS = 10.0
"""How long after its return errors come of who began to wait before it."""


@dataclass(frozen=True, slots=True)
class ServerTrouble:
    """A way in which a server cannot be used: what is said when it begins, while it lasts and once it is over."""

    begun: str
    lasts: str
    over: str


AWAY = ServerTrouble("is away", "is still away", "is back")
SIGN_IN = ServerTrouble("refuses the sign-in", "still refuses the sign-in", "accepts the sign-in again")
FULL = ServerTrouble(
    "accepts no more connections", "still accepts no more connections", "accepts connections again"
)
ANSWERS = (
    (
        SIGN_IN,
        r"authentication failed for user|no pg_hba\.conf entry|no password supplied|is not permitted to log in|"
        r'(role|database) ".*" does not exist|permission denied for database|no such (user|database)|'
        r"invalid username-password|invalid password|it wants a password|called without any password",
    ),
    (
        FULL,
        r"too many (clients|connections)|connection slots are reserved|no more connections|max number of clients",
    ),
)
"""What PostgreSQL and Redis answer where they are there and still cannot be used; of a sign-in that fails libpq gives
no code, only the server's text.
"""

Probe = Callable[[], None]
"""Connects to the server once; raises where that fails."""


class Absence:
    """What this process knows of one server: whether it can be used, and since when not.

    The first error of a connection has a thread look at the server, and its record waits for that. If the server can be
    used, the record is logged; if not, the thread says so in its place, and whatever else fails for want of it is left
    out of the log until it can.
    """

    def __init__(self, server: str, probe: Probe) -> None:
        self.server = server
        self._probe = probe
        self._lock = threading.Lock()
        self._watching = False
        self._trouble: ServerTrouble | None = None
        self._back_at = -LATE_SECONDS
        self._held: logging.LogRecord | None = None

    @property
    def looked_for(self) -> bool:
        """Whether the server is looked for now."""
        return self._watching

    @property
    def lately(self) -> bool:
        """Whether the server cannot be used, as far as is known, or could not a moment ago."""
        return self._trouble is not None or time.monotonic() - self._back_at < LATE_SECONDS

    def begin(self, record: logging.LogRecord | None = None) -> bool:
        """Look for the server from now on, in a thread of its own, and log the record where it can be used after all;
        return whether that, or another such look, has begun.
        """
        with self._lock:
            if self._watching:
                return True
            self._watching, self._held = True, record
        try:
            threading.Thread(target=self._watch, name=f"looks for {self.server}", daemon=True).start()
        except RuntimeError:  # no thread can be had, or the process ends
            self._watching, self._held = False, None
            return False
        return True

    def let_go(self) -> None:
        """Log the record that waits, where one does."""
        with self._lock:
            record, self._held = self._held, None
        if record is not None:
            record.looked_into = True
            logging.getLogger(record.name).handle(record)

    def _watch(self) -> None:
        since = said = time.monotonic()
        while (error := self._tried()) is not None:
            self._held = None
            now, trouble = time.monotonic(), trouble_of(error)
            if trouble is not self._trouble:
                self._trouble, said = trouble, now
                logger.error("%s %s: %s", self.server, trouble.begun, error)
            elif now - said >= AGAIN_SECONDS:
                said = now
                logger.error("%s %s, after %d s: %s", self.server, trouble.lasts, now - since, error)
            time.sleep(PROBE_SECONDS)
        self.let_go()
        with self._lock:
            over, self._trouble, self._watching = self._trouble, None, False
            if over is not None:
                self._back_at = time.monotonic()
        if over is not None:
            logger.info("%s %s after %d s.", self.server, over.over, time.monotonic() - since)

    def _tried(self) -> str | None:
        """Return why the server cannot be used, in one line; None where it can."""
        from chamber.serving.outages import first_line

        try:
            self._probe()
        except Exception as error:  # whatever keeps us from the server
            return first_line(error)
        return None


def trouble_of(error: str) -> ServerTrouble:
    """Return what this answer of a server means; that it is away, where it says nothing of itself."""
    return next((trouble for trouble, said in ANSWERS if re.search(said, error, re.IGNORECASE)), AWAY)


def cannot_be_used(server: str, error: str) -> str:
    """Return the sentence that a server does not answer, or how it refuses."""
    trouble = trouble_of(error)
    return f"{server} {'does not answer' if trouble is AWAY else trouble.begun}: {error}"


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


def _end() -> None:
    """Log what waits: the process ends before it is known whether the server can be used."""
    for known in (POSTGRESQL, REDIS):
        known.let_go()


POSTGRESQL: Absence
REDIS: Absence
_begin()
os.register_at_fork(after_in_child=_begin)
atexit.register(_end)
