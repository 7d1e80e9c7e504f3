"""Keeping the garbage collector out of work that makes very many small objects and no circles of them."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_inside = 0
_was_on = False


@contextmanager
def without_collecting() -> Iterator[None]:
    """Put the collector off: it would walk over all that is kept, again and again. Any number of threads may be inside;
    what they leave is taken up once the last is out.
    """
    global _inside, _was_on  # noqa: PLW0603 - the collector is one for the process
    with _lock:
        if _inside == 0:
            _was_on = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _was_on:
                gc.enable()
