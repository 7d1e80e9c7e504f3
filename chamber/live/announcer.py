"""A process' own thread that sends announcements: nobody who announces waits, and many become one round."""

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

logger = logging.getLogger(__name__)

GAP_SECONDS = 0.05
"""The least time between two rounds; what is announced in between goes together, each topic once."""
AGAIN_SECONDS = 1.0
"""How long it waits after a round that failed; its topics are kept for the next."""
MOST_TOPICS = 100_000
"""More are dropped while nothing can be sent: pages catch up by polling."""
ROUND_TOPICS = 1_000
EXIT_SECONDS = 1.0


class Announcer:
    """Gathers topics and hands them to `send`, which returns whether it could, in a daemon thread made when needed.

    A forked child begins with nothing to send and no thread; what its parent gathered is the parent's.
    """

    _topics: dict[str, None]
    _going: int
    """How many topics are being sent at this moment; they come back where that fails."""
    _thread: threading.Thread | None

    def __init__(self, send: Callable[[Sequence[str]], bool]) -> None:
        self._send = send
        self._begin()
        itself = weakref.WeakMethod(self._begin)
        os.register_at_fork(after_in_child=lambda: (begin := itself()) and begin())
        atexit.register(self._exit)

    def add(self, topics: Iterable[str]) -> None:
        """Have the topics sent soon; returns at once."""
        with self._news:
            for topic in topics:
                if len(self._topics) + self._going >= MOST_TOPICS and topic not in self._topics:
                    self._drop()
                    break
                self._topics[topic] = None
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="announcer", daemon=True)
                self._thread.start()
            self._news.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait until nothing is left to send; return False where something still is after `seconds`."""
        with self._news:
            return self._news.wait_for(lambda: not self._topics and not self._going, seconds)

    def _begin(self) -> None:
        self._news = threading.Condition()
        self._topics, self._thread = {}, None
        self._dropping = False
        self._going = 0

    def _drop(self) -> None:
        if not self._dropping:
            self._dropping = True
            logger.warning(
                "More than %d changes wait to be announced; further ones are dropped, and pages catch up by polling.",
                MOST_TOPICS,
            )

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._topics)
                round_ = list(islice(self._topics, ROUND_TOPICS))
                for topic in round_:
                    del self._topics[topic]
                self._going = len(round_)
            sent = self._try(round_)
            with self._news:
                self._going = 0
                if sent:
                    self._dropping = False
                else:
                    self._topics = dict.fromkeys(round_) | self._topics
                self._news.notify_all()
            time.sleep(GAP_SECONDS if sent else AGAIN_SECONDS)

    def _try(self, topics: Sequence[str]) -> bool:
        try:
            return self._send(topics)
        except Exception:
            logger.exception("Announcements of %d changes are lost; pages catch up by polling.", len(topics))
            return True

    def _exit(self) -> None:
        if self._thread is not None and not self.flush(EXIT_SECONDS):
            logger.warning(
                "The process ends with changes that could not be announced; pages catch up by polling."
            )
