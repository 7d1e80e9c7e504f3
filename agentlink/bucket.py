"""How many bytes may pass: so many at once, and so many a second in the long run. Knows no Django."""

import time
from collections.abc import Callable


class TokenBucket:
    """Fills by `a_second` up to `at_once`; what is taken beyond that is owed."""

    def __init__(
        self, *, at_once: float, a_second: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._size, self._rate, self._clock = at_once, a_second, clock
        self._level, self._at = at_once, clock()

    def has(self, amount: float) -> bool:
        """Return whether there is as much."""
        self._fill()
        return self._level >= amount

    def owe(self, amount: float) -> float:
        """Take `amount`, there or not; return how many seconds it takes until it is."""
        self._fill()
        self._level -= amount
        return max(0.0, -self._level / self._rate)

    def _fill(self) -> None:
        now = self._clock()
        self._level = min(self._size, self._level + (now - self._at) * self._rate)
        self._at = now
