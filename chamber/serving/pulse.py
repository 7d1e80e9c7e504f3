"""The pulse of a process that listens: says every few seconds that it lives, and passes on what it counted."""

import logging
import threading

from django.db import DatabaseError, connections
from django.utils import timezone

from chamber import marks
from chamber.metrics import mails, requests, sign_ins

logger = logging.getLogger(__name__)


def pass_on() -> None:
    """Add what this process counted to what all have."""
    requests.counts.flush()
    mails.counts.flush()
    sign_ins.counts.flush()


class Pulse:
    """A thread of one process of a part (web, live or all)."""

    def __init__(self, part: str) -> None:
        self._part = part
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        """Begin; in the process itself, after any fork."""
        self._thread.start()

    def stop(self, *, seconds: float = 2.0) -> None:
        """Say the last, and that the part is gone; no longer than so many seconds."""
        self._stopping.set()
        self._thread.join(seconds)

    def beat(self) -> None:
        """Say once that the part lives, and pass on what was counted; what is away is tried again the next time."""
        try:
            marks.part_lives(self._part, now=timezone.now())
        except DatabaseError as error:
            logger.debug("That this part lives cannot be noted: %s", error)
        finally:
            connections.close_all()
        pass_on()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.beat()
            except Exception:
                logger.exception("The pulse of this part failed; it beats again in a while.")
            self._stopping.wait(marks.PART_SECONDS)
        try:
            marks.part_leaves(self._part)
        except DatabaseError as error:
            logger.debug("That this part stops cannot be noted: %s", error)
        finally:
            connections.close_all()
        pass_on()
