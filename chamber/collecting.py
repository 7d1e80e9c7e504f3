"""Keeping the garbage collector out of work that makes very many small objects and few circles of them."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = (20_000, 20, 50)
"""After so many new objects the young are walked, every 20th time those that stayed, every 50th of these all. Python's
own are for small programs: with 700, one page in five pays for a walk over all that its process keeps.
"""

_lock = threading.Lock()
_inside = 0
_was_on = False


def keep_what_is_loaded() -> None:
    """Have no collection walk over what is in memory now, and few over what comes: for a process that answers pages,
    before its first one, and before it is forked, for the processes then share what they do not write to.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*SELDOM)


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
