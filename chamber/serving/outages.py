"""A server that is away is one sentence in the log, not sixty lines of traceback."""

import logging
import re
import time
from collections.abc import Iterator

import psycopg
import redis
from django.db import InterfaceError, OperationalError, ProgrammingError
from kombu.exceptions import OperationalError as BrokerError

from chamber.serving import absence
from chamber.serving.absence import Absence

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

OF_REDIS = (BrokerError, redis.ConnectionError, redis.TimeoutError)

UNCONNECTED = ("08", "57P01", "57P02", "57P03")
"""How PostgreSQL's states begin that say that there is no connection, or not any more."""

POOL_IS_EMPTY = "couldn't get a connection"
"""What psycopg's pool says to who has waited: the server may be away, or all its connections be in use."""

MISSING = frozenset({"42P01", "42703"})
"""PostgreSQL's states for a table and a column that are not there."""

POOL = "psycopg.pool"
"""The logger that says each of its tries to reach PostgreSQL, in several lines, and each connection that broke."""

TRIES = ("error connecting", "reconnection attempt", "discarding closed", "discarding broken")
"""How those begin."""

CELERYS = "data"
"""Where Celery puts a failed duty's arguments, and its traceback as text once more."""

SAY_EVERY_SECONDS = 10.0


PLAIN = (
    # After the name, redis-py tells of its objects, and not of what each of them met.
    (r"^No master found for ('.*?') : .*$", r"no sentinel answers that knows the name \1"),
    (r"^No master found for ('.*?')$", r"no sentinel knows a server of the name \1 that is up"),
    (r"Error -?\d+ connecting to (\S+?)\. ", r"\1: "),
    (r"Connect call failed \(.*?\)", "The connection failed"),
    (r"\bconnection failed: (?=connection to)", ""),
    (r'connection to server at "([^"]+)"(?: \([^)]*\))?, port (\d+) failed: ', r"\1:\2: "),
    (r'connection to server on socket "([^"]+)" failed: ', r"\1: "),
    (r" Is the server running (?:on that host|locally) .*?\?", "."),
    (r"\bFATAL: +", ""),
    (
        r"^(?:NOAUTH )?(?:HELLO must be called with the client already authenticated.*|Authentication required\.?)$",
        "it wants a password, and CHAMBER_REDIS has none (redis://:password@host:6379/0)",
    ),
    (r"\[Errno -?\d+\] ", ""),
    (r"\[SSL(?:: \w+)?\] |SSL error: (?=certificate)", ""),
    (r" \(_ssl\.c:\d+\)|\b_ssl\.c:\d+: ", ""),
)
"""What libraries write around the reason why a server is not reached, and what is read in its place."""


def first_line(error: BaseException) -> str:
    """Return an error's text as one plain line that ends as a sentence does."""
    text = " ".join(str(error).split()) or type(error).__name__
    for pattern, plain in PLAIN:
        text = re.sub(pattern, plain, text)
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
    """Puts an outage's own line in place of its traceback, says the same one at most every ten seconds, and nothing of
    a server that cannot be used: `absence` says that once.
    """

    def __init__(self, name: str = "") -> None:
        super().__init__(name)
        self._said: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass that is no repetition."""
        if getattr(record, "looked_into", False):
            return True
        cause = outage(record.exc_info[1]) if record.exc_info else None
        cause = cause or next((found for found in map(outage, _errors_in(record)) if found), None)
        if cause is None and record.name != POOL:
            return True
        line = first_line(cause) if cause is not None else ""
        said = " ".join(record.getMessage().split())
        is_told = line.removesuffix(".") in said
        record.msg, record.args = (said if is_told else f"{said} {line}"), None
        record.exc_info = record.exc_text = None
        record.__dict__.pop(CELERYS, None)
        # The pool's name each connection, of which many break at once.
        told = line or said.partition(": ")[0]
        return self._passes(record, told, *_absent(cause, said))

    def _passes(self, record: logging.LogRecord, line: str, server: Absence | None, certain: bool) -> bool:
        """Return whether a record is logged now. Whatever says that a server was not reached has it looked for: it may
        have gone since the same was said. Until that is known a record waits that would be logged.
        """
        if server is not None and not certain and server.lately:
            return False
        is_new = (server is None or not server.looked_for) and self._is_new(record.name, line)
        if server is not None and certain:
            return not server.begin(record if is_new else None) and is_new
        return is_new

    def _is_new(self, logger: str, line: str) -> bool:
        now = time.monotonic()
        if now - self._said.get((logger, line), -SAY_EVERY_SECONDS) < SAY_EVERY_SECONDS:
            return False
        self._said = {key: at for key, at in self._said.items() if now - at < SAY_EVERY_SECONDS}
        self._said[logger, line] = now
        return True


def _errors_in(record: logging.LogRecord) -> Iterator[BaseException]:
    """Return the errors that a message is made with."""
    if isinstance(record.args, tuple):
        yield from (value for value in record.args if isinstance(value, BaseException))


def _absent(cause: BaseException | None, said: str) -> tuple[Absence | None, bool]:
    """Return the server that an outage is about, and whether it is certain that it was not reached.

    None where it is another kind of outage, or where the settings name no such server.
    """
    from django.conf import settings

    if isinstance(cause, OF_REDIS):
        return (absence.REDIS, True) if settings.REDIS else (None, False)
    if not settings.DATABASES["default"]["ENGINE"].endswith("postgresql"):
        return None, False
    if cause is None:
        return absence.POSTGRESQL, said.startswith(TRIES)
    if not isinstance(cause, AWAY) or POOL_IS_EMPTY in str(cause):
        # Of an error that Celery wrapped little more is known than its name.
        return absence.POSTGRESQL, False
    state = getattr(cause, "sqlstate", None) or getattr(cause.__cause__, "sqlstate", None) or ""
    if state and not state.startswith(UNCONNECTED):
        return None, False  # the server was there and answered: a full disk, a statement that took too long
    return absence.POSTGRESQL, True
