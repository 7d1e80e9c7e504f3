"""A server that is away is one sentence in the log, not sixty lines of traceback."""

import logging
import time
from collections.abc import Iterator

import psycopg
import redis
from django.db import InterfaceError, OperationalError, ProgrammingError
from kombu.exceptions import OperationalError as BrokerError

AWAY: tuple[type[BaseException], ...] = (
    OperationalError,
    InterfaceError,
    psycopg.OperationalError,
    psycopg.InterfaceError,
    BrokerError,
    redis.ConnectionError,
    redis.TimeoutError,
)
"""What is raised where PostgreSQL, Redis or the broker cannot be reached, or left in the middle."""

AWAY_NAMES = frozenset(error.__name__ for error in AWAY)

MISSING = frozenset({"42P01", "42703"})
"""PostgreSQL's states for a table and a column that are not there."""

REPEATING = frozenset({"psycopg.pool"})
"""Loggers that say each of their tries to reach a server, in several lines."""

CELERYS = "data"
"""Where Celery puts a failed duty's arguments, and its traceback as text once more."""

SAY_EVERY_SECONDS = 10.0


def first_line(error: BaseException) -> str:
    """Return an error's text as one line that ends as a sentence does."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if text.endswith((".", "?", "!")) else f"{text}."


def outage(error: BaseException | None) -> BaseException | None:
    """Return the error of a server that is away among `error` and what it was raised from, or None."""
    return next((cause for cause in _chain(error) if _is_away(cause) or _is_behind(cause)), None)


def _is_away(error: BaseException) -> bool:
    # Celery puts a wrapper with the name of its class in the place of an error that cannot be sent between processes.
    return isinstance(error, AWAY) or getattr(error, "exc_cls_name", "") in AWAY_NAMES


def _is_behind(error: BaseException) -> bool:
    """Return whether a table or column is missing: a new version runs before its migrations do."""
    return isinstance(error, ProgrammingError) and getattr(error.__cause__, "sqlstate", "") in MISSING


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen = 0
    while error is not None and seen < 10:
        yield error
        said = None if error.__suppress_context__ else error.__context__
        error, seen = error.__cause__ or said, seen + 1


class Brief(logging.Filter):
    """Puts an outage's own line in place of its traceback, and says the same one at most every ten seconds."""

    def __init__(self, name: str = "") -> None:
        super().__init__(name)
        self._said: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass that is no repetition."""
        cause = outage(record.exc_info[1]) if record.exc_info else None
        if cause is None and record.name not in REPEATING:
            return True
        line = first_line(cause) if cause is not None else ""
        said = " ".join(record.getMessage().split())
        record.msg, record.args = (said if line in said else f"{said} {line}"), None
        record.exc_info = record.exc_text = None
        record.__dict__.pop(CELERYS, None)
        return self._is_new(record.name, line or said)

    def _is_new(self, logger: str, line: str) -> bool:
        now = time.monotonic()
        if now - self._said.get((logger, line), -SAY_EVERY_SECONDS) < SAY_EVERY_SECONDS:
            return False
        self._said = {key: at for key, at in self._said.items() if now - at < SAY_EVERY_SECONDS}
        self._said[logger, line] = now
        return True
