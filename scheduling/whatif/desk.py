"""One at a time: what the engine is asked in a page's process waits for its turn in a thread of its own.

An answer that takes longer than its asker waits goes on being worked out, and is there when he asks again.
"""

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Generic, TypeVar

from chamber.errors import Refusal

MOST_WAITING = 4
KEPT_SECONDS = 15.0
"""How long an answer is kept for who asks again: so long it may be out of date."""

_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="what-if")

T = TypeVar("T")
Work = Callable[[], T]


class TooMany(Refusal):
    """Others are asking already; asking again in a moment may be answered."""

    status = 429
    code = "too-many"

    def __init__(self) -> None:
        super().__init__(
            f"{MOST_WAITING} other questions wait for an answer, the most that may. Ask again in a few seconds."
        )


@dataclass(slots=True)
class _Asked(Generic[T]):
    answer: "Future[T]"
    done_at: float | None = None


class Desk(Generic[T]):
    """Takes questions, and keeps the last answers for a while. All desks of a process share its one thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: dict[Hashable, _Asked[T]] = {}

    def ask(self, key: Hashable, work: Callable[[], Work[T]], *, wait_seconds: float) -> T | None:
        """Return the answer to the question `key`; None where it takes longer than `wait_seconds`.

        For a question that nobody asked lately, `work` is called at once, in this thread, which may read tables; what
        it returns is called in the desk's own. Raises what that raised, and `TooMany` where others wait already.
        """
        with self._lock:
            self._forget_old()
            known = self._asked.get(key)
            if known is None and self._under_way() >= MOST_WAITING:
                raise TooMany
        asked = known or self._take(key, work())
        wait([asked.answer], timeout=wait_seconds)
        return asked.answer.result() if asked.answer.done() else None

    def forget(self) -> None:
        """Forget every answer."""
        with self._lock:
            self._asked.clear()

    def _take(self, key: Hashable, work: Work[T]) -> _Asked[T]:
        """Queue the work, unless somebody asked the same meanwhile."""
        with self._lock:
            if key not in self._asked:
                self._asked[key] = asked = _Asked(_thread.submit(work))
                asked.answer.add_done_callback(lambda _: setattr(asked, "done_at", time.monotonic()))
            return self._asked[key]

    def _under_way(self) -> int:
        return sum(asked.done_at is None for asked in self._asked.values())

    def _forget_old(self) -> None:
        old = time.monotonic() - KEPT_SECONDS
        for key, asked in list(self._asked.items()):
            if asked.done_at is not None and asked.done_at < old:
                del self._asked[key]
