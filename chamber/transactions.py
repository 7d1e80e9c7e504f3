"""What transactions of several processes have in common: what is kept for them, and what is tried again.

The order in which rows are locked is written down in `docs/adr/0005-one-order-of-locks.md`.
"""

import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from django.core.exceptions import EmptyResultSet
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import QuerySet

logger = logging.getLogger(__name__)

R = TypeVar("R")

PASSING = frozenset(
    {
        "40001",  # serialization_failure
        "40P01",  # deadlock_detected
        "55P03",  # lock_not_available: lock_timeout passed
    }
)
"""SQLSTATEs of what only failed because somebody else was in the way: nothing was done, and it may succeed now."""

TRIES = 4
FIRST_PAUSE_SECONDS = 0.05


def is_passing(error: BaseException) -> bool:
    """Return whether an error of the database is only that somebody else was in the way."""
    state = getattr(error.__cause__, "sqlstate", None)
    busy = str(error).startswith("database is locked") or str(error).startswith("database table is locked")
    return isinstance(error, OperationalError) and (state in PASSING or (state is None and busy))


def is_unavailable(error: BaseException | None) -> bool:
    """Return whether a request failed because the database could not be had: it may be sent again soon."""
    return isinstance(error, OperationalError | InterfaceError)


def tried_again(name: str, act: Callable[[], R]) -> R:
    """Return what `act` returns, called again where somebody else was in its way: 4 times, with short growing pauses.

    For what begins its own transactions and may be done from the start again; inside one there is nothing to repeat.
    """
    for tries in range(1, TRIES):
        try:
            return act()
        except OperationalError as error:
            if connection.in_atomic_block or not is_passing(error):
                raise
            logger.info("%s is tried again: %s", name, str(error).strip())
        # By chance, so that two who were in each other's way are not again.
        time.sleep(FIRST_PAUSE_SECONDS * 2**tries * random.random())  # noqa: S311 - no secret
    return act()


def if_free(act: Callable[[], object]) -> None:
    """Do `act` in a transaction, or leave it, without a word, where it would have to wait for another one to write.

    For what is good to know and not worth a pause. On PostgreSQL only rows are waited for: lock them with
    `skip_locked`. On SQLite it is the whole database.
    """
    waits = connection.vendor == "sqlite" and not connection.in_atomic_block
    try:
        if waits:
            _busy_timeout(0)
        with suppress(OperationalError), transaction.atomic():
            act()
    finally:
        if waits:
            _busy_timeout(connection.settings_dict["OPTIONS"]["timeout"])


def _busy_timeout(seconds: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")


def keep(rows: QuerySet[Any]) -> None:
    """Keep these rows from being deleted, moved or locked for good until the transaction ends, in the order of their
    ids.

    The weakest of PostgreSQL's row locks: what a foreign key takes at the end of a transaction, taken at its
    beginning, so that what is looked at after it still holds when the row that points there is committed. Others may
    keep the same rows and change their plain columns. SQLite needs none: its transactions begin as the only writer.
    """
    if connection.vendor != "postgresql":
        return
    try:
        query, values = rows.order_by("pk").values("pk").query.sql_with_params()
    except EmptyResultSet:
        return
    with connection.cursor() as cursor:
        cursor.execute(f"{query} FOR KEY SHARE", values)
