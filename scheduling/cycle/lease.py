"""Whose turn it is to run cycles: a lease in one row, by the database's clock.

It only keeps a second scheduler from working for nothing. What keeps two of them from writing is the fence, which
`scheduling.cycle.apply` raises first of all.
"""

import os
import socket
import time
from datetime import timedelta

from django.db.models import Q
from django.db.models.functions import Now

from scheduling.models import Turn

LEASE = timedelta(seconds=10)
WRITTEN_EVERY_SECONDS = 2.5
"""How old what the row says of the holder may be: not every look is worth a write."""

_expires = 0.0
"""When the lease ends that this process knows of, by its monotonic clock."""
_written = 0.0


def me() -> str:
    """Return the name of this process, for records."""
    return f"{socket.gethostname()}:{os.getpid()}"


def take() -> bool:
    """Return whether this process may run cycles: it has the turn, or no other process has one that still lasts.

    No query within a lease that this process knows of.
    """
    return is_mine() or _claim()


def is_mine() -> bool:
    """Return whether this process knows of a lease of its own that still lasts (no query)."""
    return time.monotonic() < _expires


def looked(*, decided: bool = True) -> None:
    """Prolong this process's turn, and note that a cycle ended; at most one write in 2.5 s.

    Without `decided`, the engine failed: as far as others are concerned, no cycle has ended.
    """
    global _expires, _written  # noqa: PLW0603 - one per process
    now = time.monotonic()
    if now - _written < WRITTEN_EVERY_SECONDS:
        return
    mine = Turn.objects.filter(pk=1, held_by=me())
    ended = {"looked_at": Now()} if decided else {}
    kept = mine.update(held_until=Now() + LEASE, **ended)
    _written = now
    _expires = now + LEASE.total_seconds() if kept else 0.0


def give_back() -> None:
    """Let whoever stands by take over at once; for a process that stops."""
    Turn.objects.filter(pk=1, held_by=me()).update(held_by="", held_until=None)
    forget()


def forget() -> None:
    """Drop what this process knows of its lease; the next question asks the row."""
    global _expires, _written  # noqa: PLW0603 - one per process
    _expires = _written = 0.0


def _claim() -> bool:
    global _expires  # noqa: PLW0603 - one per process
    Turn.objects.get_or_create(pk=1)
    now = time.monotonic()
    free = Q(held_by="") | Q(held_by=me()) | Q(held_until__isnull=True) | Q(held_until__lt=Now())
    taken = Turn.objects.filter(free, pk=1).update(held_by=me(), held_until=Now() + LEASE)
    _expires = now + LEASE.total_seconds() if taken else 0.0
    return bool(taken)
