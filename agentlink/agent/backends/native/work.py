"""What is to be looked after, each by itself: several keys at once, one key by one hand at a time."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, NoReturn, TypeVar

from agentlink.agent.kube.errors import KubeError, ObjectConflict, Unreachable
from agentlink.agent.unreached import next_try
from chamber.logs import Lasting

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

AT_ONCE = 16
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
CONFLICT_SECONDS = 0.1
"""How soon a change by another client in between is looked at: a fresh read is all that it takes."""
MOST_CONFLICTS = 5


class Work(Generic[K]):
    """Keys that wait for `act`, which returns after how many seconds it wants to be called again (None: not).

    A key that is added while it is in hand comes once more after that. One whose act fails comes again after a pause
    that doubles; the others do not notice.
    """

    def __init__(self, act: Callable[[K], Awaitable[float | None]]) -> None:
        self._act = act
        self._waiting: dict[K, None] = {}
        self._in_hand: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._away = Lasting()
        self._bell = asyncio.Event()

    def __len__(self) -> int:
        """Return how many keys wait."""
        return len(self._waiting)

    def add(self, key: K) -> None:
        """Have the key looked after as soon as a hand is free."""
        self._waiting[key] = None
        self._bell.set()

    async def run(self) -> NoReturn:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as hands:
                for _ in range(AT_ONCE):
                    hands.create_task(self._hand())
        finally:
            for timer in self._timers.values():
                timer.cancel()
        raise AssertionError

    async def _hand(self) -> NoReturn:
        while True:
            key = next((key for key in self._waiting if key not in self._in_hand), None)
            if key is None:
                self._bell.clear()
                await self._bell.wait()
                continue
            del self._waiting[key]
            self._in_hand.add(key)
            self._set_timer(key, None)
            try:
                self._set_timer(key, await self._act(key))
                self._failures.pop(key, None)
                self._away.over(quiet_seconds=LONGEST_PAUSE_SECONDS)
            except Exception as error:
                self._fail(key, error)
            finally:
                self._in_hand.discard(key)
                if key in self._waiting:
                    self._bell.set()

    def _fail(self, key: K, error: Exception) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        longest = min(FIRST_PAUSE_SECONDS * (1 << min(failures - 1, 16)), LONGEST_PAUSE_SECONDS)
        pause = random.uniform(longest / 2, longest)  # noqa: S311 - guards nothing
        if isinstance(error, ObjectConflict) and failures <= MOST_CONFLICTS:
            pause = random.uniform(0.0, CONFLICT_SECONDS)  # noqa: S311 - guards nothing
        else:
            self._tell(key, error, failures, pause)
        self._set_timer(key, pause)

    def _tell(self, key: K, error: Exception, failures: int, pause: float) -> None:
        """Log that a key's act failed the first time, the second, the fourth and so on; of an API server that is not
        reached, which fails all of them, once for all.
        """
        if not (self._away.due(str(error)) if isinstance(error, Unreachable) else failures.bit_count() == 1):
            return
        if isinstance(error, KubeError):
            logger.warning("%s: %s %s", key, error, next_try(pause))
        else:
            logger.error("%s could not be looked after.", key, exc_info=error)

    def _set_timer(self, key: K, seconds: float | None) -> None:
        """Have the key come again after so many seconds, or not by itself."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if seconds is not None:
            self._timers[key] = asyncio.get_running_loop().call_later(seconds, self._ring, key)

    def _ring(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)
