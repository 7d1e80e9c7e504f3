"""How every process asks for a cycle: a version in the database that a ring raises, and one message on its way.

A caller only sets a flag. A thread of its process passes it on: however many rings there were meanwhile, the version
rises once and one message is sent, unless one is on its way already. A message may be lost, and one too many does no
harm: a cycle runs until it has answered the version, and the beat rings each second besides.
"""

import logging
import os
import threading
import time
from contextlib import suppress

from django.conf import settings
from django.core.cache import cache
from django.db import DatabaseError, connection
from django.utils.module_loading import import_string

from scheduling.models import Bell

logger = logging.getLogger(__name__)

QUEUE = "scheduling"
TASK = "scheduling.tasks.run_cycle"
GATHERED_SECONDS = 0.02
"""How long rings are gathered after one was passed on."""
MESSAGE_SECONDS = 5
"""After which a message that no process took is not on its way any more: the next ring sends another."""
PAUSE_SECONDS = 1.0
"""After a ring that could not be passed on."""
COMPLAINED_EVERY_SECONDS = 60.0

ON_ITS_WAY = "scheduling:bell"
RAISE = (
    "INSERT INTO scheduling_bell (id, rings) VALUES (1, 1) "
    "ON CONFLICT (id) DO UPDATE SET rings = scheduling_bell.rings + 1"
)
# Nothing waits for the disk: a ring that PostgreSQL forgets with its machine is one that the beat makes good.
RAISE_ON_POSTGRESQL = (
    "WITH hurried AS (SELECT set_config('synchronous_commit', 'off', true)) "
    "INSERT INTO scheduling_bell (id, rings) SELECT 1, 1 FROM hurried "
    "ON CONFLICT (id) DO UPDATE SET rings = scheduling_bell.rings + 1"
)


def ring() -> None:
    """Ask for a cycle; returns at once, whatever is away."""
    _ringer().rung.set()


def pass_on() -> bool:
    """Raise the version and send a message unless one is on its way; False where either could not be done."""
    try:
        _raise_version()
        _send()
    except Exception as error:  # a bell must outlive whatever its servers do
        _complain(error)
        return False
    return True


def hand_on() -> None:
    """Send a message once more that a process took whose turn it is not: it was meant for the other one."""
    try:
        _send_message()
    except Exception as error:
        _complain(error)


def hear() -> int:
    """Return the version that a cycle which begins now answers; the next ring sends a message again (1 query)."""
    # In this order: whoever raises the version after it was read finds that no message is on its way.
    try:
        cache.delete(ON_ITS_WAY)
    except Exception as error:
        _complain(error)
    return rings()


def rings() -> int:
    """Return how often it was rung (1 query)."""
    return Bell.objects.filter(pk=1).values_list("rings", flat=True).first() or 0


def _raise_version() -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute(RAISE_ON_POSTGRESQL if connection.vendor == "postgresql" else RAISE)
    except DatabaseError as error:
        # The message is worth sending all the same: the cycle sees by its sums that something changed.
        _complain(error)


def _send() -> None:
    if not cache.add(ON_ITS_WAY, 1, timeout=MESSAGE_SECONDS):
        return
    try:
        _send_message()
    except Exception:
        with suppress(Exception):
            cache.delete(ON_ITS_WAY)
        raise


def _send_message() -> None:
    # By name: what Celery takes for the current application is another one in each thread.
    import_string(settings.CHAMBER_CELERY).send_task(
        TASK,
        queue=QUEUE,
        # The worker's clock may be ahead of this one.
        expires=MESSAGE_SECONDS + settings.CHAMBER_CLOCKS_APART_SECONDS,
        retry=False,
        ignore_result=True,
    )


class _Ringer:
    """The thread that passes on the rings of this process."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.rung = threading.Event()
        threading.Thread(target=self._run, name="ringer", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.rung.wait()
            self.rung.clear()
            passed_on = pass_on()
            connection.close()
            if not passed_on:
                self.rung.set()
            time.sleep(GATHERED_SECONDS if passed_on else PAUSE_SECONDS)


_lock = threading.Lock()
_kept: _Ringer | None = None
_complained_at = -COMPLAINED_EVERY_SECONDS


def _ringer() -> _Ringer:
    """Return this process's thread; a process that was forked off has none yet."""
    global _kept  # noqa: PLW0603 - one per process
    kept = _kept
    if kept is not None and kept.process == os.getpid():
        return kept
    with _lock:
        if _kept is None or _kept.process != os.getpid():
            _kept = _Ringer()
        return _kept


def _complain(error: Exception) -> None:
    """Log that a ring was lost, at most once a minute."""
    global _complained_at  # noqa: PLW0603 - one per process
    now = time.monotonic()
    if now - _complained_at >= COMPLAINED_EVERY_SECONDS:
        _complained_at = now
        logger.warning("The scheduler cannot be rung; the beat does it each second: %s", error)
