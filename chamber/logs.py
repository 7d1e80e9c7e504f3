"""The log: one record a line, for people or as JSON, and what stands on each of them besides its message.

Which request, cycle, workload or cluster a record is about is bound around the work, not passed to each call. The agent
uses this too, so nothing here imports Django.
"""

import logging
import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

FIELDS = ("request_id", "cycle", "workload", "attempt", "cluster")
FORMS = ("line", "json")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

AGAIN_SECONDS = 300.0
"""How often it is said that something still fails."""
MOST_REASONS = 5

_bound: ContextVar[Mapping[str, object]] = ContextVar("bound", default={})  # noqa: B039 - never written to


@contextmanager
def bind(**fields: object) -> Iterator[None]:
    """Put `fields` on every record that is logged inside the block, in this thread or task; names are of `FIELDS`."""
    token = _bound.set({**_bound.get(), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


def bind_task(**fields: object) -> None:
    """Put `fields` on every record that this task logs from now on, and those that it begins."""
    _bound.set({**_bound.get(), **fields})


def bound(name: str) -> str:
    """Return what is bound to a field here; an empty text where nothing is."""
    return str(_bound.get().get(name, ""))


class Seldom:
    """Says when something may be said again that anybody can cause as often as he likes; of each process."""

    def __init__(self, *, every_seconds: float) -> None:
        self._every_seconds = every_seconds
        self._next = -math.inf
        self._lock = threading.Lock()

    def due(self) -> bool:
        """Return whether it is time, to one caller."""
        with self._lock:
            now = time.monotonic()
            if now < self._next:
                return False
            self._next = now + self._every_seconds
            return True


class Lasting:
    """Says when something that is tried again and again, and fails, is worth a line: when that begins, where another
    reason is met, every five minutes, and once it is over. At most `MOST_REASONS` lines in five minutes.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._failed_at = 0.0
        self._said: dict[str, float] = {}

    def due(self, why: str) -> bool:
        """Note that it failed, and `why`; return whether to say so."""
        self._failed_at = now = time.monotonic()
        self._since = now if self._since is None else self._since
        self._said = {said: at for said, at in self._said.items() if now - at < AGAIN_SECONDS}
        if why in self._said or len(self._said) >= MOST_REASONS:
            return False
        self._said[why] = now
        return True

    def over(self, *, quiet_seconds: float = 0.0) -> float | None:
        """Return for how many seconds it failed, once, where it does not any more; None where there is nothing to say.

        It is over where nothing has failed for `quiet_seconds`; by default, it is now.
        """
        now = time.monotonic()
        if self._since is None or now - self._failed_at < quiet_seconds:
            return None
        lasted = (self._failed_at if quiet_seconds else now) - self._since
        self._since, self._said = None, {}
        return lasted


class Bound(logging.Filter):
    """Adds what is bound to each record; what is not bound is an empty text."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, with its fields."""
        for name in FIELDS:
            if not hasattr(record, name):
                setattr(record, name, bound(name))
        return True


class LineFormatter(logging.Formatter):
    """A record for people: its message, then the fields that are known as `name=value`."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Return the line, without the traceback."""
        known = ((name, getattr(record, name, "")) for name in FIELDS)
        return " ".join(
            [super().formatMessage(record), *(f"{name}={value}" for name, value in known if value)]
        )


def configuration(form: str, level: str, *, server: bool = True) -> dict[str, Any]:
    """Return the settings of the `logging` module: everything to stderr, in one of `FORMS`.

    `server`: outages of its database and its Redis are told in one line; that needs Django, which an agent lacks.
    """
    as_json: dict[str, Any] = {
        "()": "pythonjsonlogger.json.JsonFormatter",
        "fmt": " ".join(f"%({name})s" for name in ("levelname", "name", "message", *FIELDS)),
        "rename_fields": {"levelname": "level", "name": "logger", "exc_info": "traceback"},
        "timestamp": "time",
        "json_ensure_ascii": False,
        # What Django adds for its own handlers is an object, not a fact.
        "reserved_attrs": [*logging.makeLogRecord({}).__dict__, "message", "asctime", "request"],
    }
    as_line: dict[str, Any] = {
        "()": "chamber.logs.LineFormatter",
        "format": "%(asctime)s %(levelname)s %(name)s %(message)s",
    }
    filters = {"bound": {"()": "chamber.logs.Bound"}}
    if server:
        filters["brief"] = {"()": "chamber.serving.outages.Brief"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": filters,
        "formatters": {"chosen": as_json if form == "json" else as_line},
        "handlers": {
            "stderr": {"class": "logging.StreamHandler", "formatter": "chosen", "filters": [*filters]}
        },
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django.request": {"level": "ERROR"},
            # Any stranger can cause it: `chamber.views_errors` says it now and then, in words of our settings.
            "django.security.DisallowedHost": {"level": "CRITICAL"},
            "httpx": {"level": "WARNING"},
            "uvicorn": {"level": "WARNING"},
            "celery": {"level": "WARNING"},
        },
    }
