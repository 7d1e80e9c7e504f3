"""The embedded default: one process with a timer in its event loop instead of Celery's worker and beat.

The timer runs the same functions that Celery would, from the same table (`CELERY_BEAT_SCHEDULE`), each in a thread.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.db import close_old_connections, connections
from django.utils.module_loading import import_string

from chamber import logs
from chamber.ids import new_id
from chamber.transactions import tried_again

logger = logging.getLogger(__name__)

RUNG_DUTY = "schedule"
"""The duty of the table that a ring brings forward."""


class Timer:
    """Runs each duty of the table at its interval, and the scheduling one also when rung.

    A duty never overlaps itself. A duty that fails is logged and runs again at its next turn.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="duty")

    def ring(self) -> None:
        """Bring the scheduling duty forward; from any thread."""
        with suppress(RuntimeError):  # the loop is closed: the process is stopping
            self._loop.call_soon_threadsafe(self._rung.set)

    async def run(self) -> None:
        """Run all duties until cancelled; a duty under way is finished first."""
        try:
            async with asyncio.TaskGroup() as group:
                for name, entry in settings.CELERY_BEAT_SCHEDULE.items():
                    group.create_task(
                        self._repeat(name, import_string(entry["task"]), float(entry["schedule"]))
                    )
        finally:
            self._threads.shutdown(wait=True)

    async def _repeat(self, name: str, duty: Callable[[], Any], seconds: float) -> None:
        rung = self._rung if name == RUNG_DUTY else asyncio.Event()
        while True:
            rung.clear()
            await self._loop.run_in_executor(self._threads, _perform, name, duty)
            with suppress(TimeoutError):
                await asyncio.wait_for(rung.wait(), timeout=seconds)


def _perform(name: str, duty: Callable[[], Any]) -> None:
    """Run one duty in a thread of its own, as Celery would around a task."""
    close_old_connections()
    with logs.bind(request_id=new_id().hex):
        try:
            tried_again(name, duty)
        except Exception:
            logger.exception("The duty %r failed; it runs again at its next turn.", name)
        finally:
            connections.close_all()


_timer: Timer | None = None


def install(timer: Timer | None) -> None:
    """Make `timer` the one that `ring` wakes."""
    global _timer  # noqa: PLW0603 - one timer serves the process
    _timer = timer


def ring() -> None:
    """Wake the timer of this process, where there is one."""
    if _timer is not None:
        _timer.ring()
