"""Stopping in order, for a process that asks itself: the first signal asks, a second one or too long a wait forces."""

import logging
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

logger = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Grace:
    """Asks once for the end; after that only force is left."""

    def __init__(self, ask: Callable[[], None], *, seconds: float) -> None:
        self._ask, self._seconds = ask, seconds
        self._asked = False

    def install(self) -> None:
        """Handle the signals from now on; in the main thread only."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._signalled)

    def _signalled(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a handler's signature
        if self._asked:
            os._exit(1)
        self._asked = True
        timer = threading.Timer(self._seconds, self._over)
        timer.daemon = True
        timer.start()
        self._ask()

    def _over(self) -> None:
        logger.error("What was under way did not end within %g s; the process ends now.", self._seconds)
        os._exit(1)
