"""How fast steps may follow each other, for what many changes ask for: a few at once, then so many a second.

A single change is served at once; where changes come faster than that, one step answers several. Knows no Django.
"""

import time
from collections.abc import Callable


class Pace:
    """Allows `at_once` steps in a row, and one in `every_seconds` in the long run."""

    def __init__(
        self, *, at_once: int, every_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._every, self._lead, self._clock = every_seconds, (at_once - 1) * every_seconds, clock
        self._paid_until = 0.0

    def rest_seconds(self) -> float:
        """Return how long the next step has to wait: 0 where it may be taken now, at most `every_seconds`."""
        return max(0.0, self._paid_until - self._lead - self._clock())

    def step(self) -> None:
        """Note that a step is taken now; one that did not wait costs those after it no more than one that did."""
        now = self._clock()
        self._paid_until = min(max(self._paid_until, now) + self._every, now + self._lead + self._every)
