"""How tests of whole processes wait: for what is to come, never for a time, and long enough for a loaded machine."""

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

from chamber.authentication import SIGN_IN_WINDOW_SECONDS

T = TypeVar("T")

PATIENCE_MS = 90_000
"""What a browser is waited for."""


def until(
    found: Callable[[], T | None],
    *,
    seconds: float = 90,
    every: float = 0.1,
    telling: Callable[[], object] = lambda: "",
) -> T:
    """Return what `found` returns once that is true; fail after `seconds`, with what `telling` returns then."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = found()
        if answer:
            return answer
        time.sleep(every)
    pytest.fail(f"not within {seconds} s: {found} {telling()}")


def in_one_window(act: Callable[[], T]) -> T:
    """Return what `act` returned, done anew where a window in which tries to sign in are counted ended meanwhile."""
    while True:
        window = time.time() // SIGN_IN_WINDOW_SECONDS
        answer = act()
        if time.time() // SIGN_IN_WINDOW_SECONDS == window:
            return answer
