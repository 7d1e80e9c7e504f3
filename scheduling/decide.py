"""Asking the engine, and not letting one workload that it stumbles over stop everybody."""

import gc
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from scheduling.engine import schedule
from scheduling.engine import types as engine
from scheduling.picture import LeftAside, Picture

logger = logging.getLogger(__name__)

MOST_LEFT_ASIDE = 3
_stumbled_over: dict[str, int] = {}
"""Versions of workloads that the engine failed on: they are left aside until they are changed."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A plan, the picture it was made for, and how long that took."""

    picture: Picture
    plan: engine.Plan
    decide_ms: int


def decide(picture: Picture) -> Decided:
    """Return the engine's plan for the picture.

    Where the engine fails, the waiting workload that makes it fail is searched for and left aside, with a note in
    the picture; where it fails without any of them too, its exception is raised.
    """
    began = time.monotonic()
    for _ in range(MOST_LEFT_ASIDE + 1):
        picture = _without(
            picture, {key for key, version in _stumbled_over.items() if _is(picture, key, version)}
        )
        try:
            with _without_collecting():
                plan = schedule(picture.snapshot, picture.now)
        except Exception as error:
            culprit = _culprit(picture)
            if culprit is None:
                raise
            logger.exception(
                "The engine fails on workload %s, which is left aside until it changes.", culprit
            )
            _stumbled_over[culprit] = picture.rows[culprit].version
            failure = error
        else:
            return Decided(picture, plan, round((time.monotonic() - began) * 1000))
    raise failure


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Put the garbage collector off: the engine makes millions of small rows and no cycles (a quarter of its time)."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def forget() -> None:
    """Give those that the engine failed on another try."""
    _stumbled_over.clear()


def _is(picture: Picture, key: str, version: int) -> bool:
    return key in picture.rows and picture.rows[key].version == version


def _without(picture: Picture, keys: set[str]) -> Picture:
    """Return the picture without some waiting workloads, and with a note for each."""
    waiting = keys & {workload.id for workload in _pending(picture)}
    if not waiting:
        return picture
    kept = tuple(workload for workload in picture.snapshot.workloads if workload.id not in waiting)
    notes = tuple(LeftAside("workload", key, "The engine fails on it.") for key in sorted(waiting))
    return replace(
        picture,
        snapshot=replace(picture.snapshot, workloads=kept),
        left_aside=(*picture.left_aside, *notes),
    )


def _pending(picture: Picture) -> list[engine.Workload]:
    waiting = (w for w in picture.snapshot.workloads if w.status is engine.Status.PENDING)
    return sorted(waiting, key=lambda workload: workload.id)


def _culprit(picture: Picture) -> str | None:
    """Return the waiting workload with which the engine begins to fail, by halving; None where it fails anyway."""
    pending = _pending(picture)
    if _fails(picture, pending[:0]):
        return None
    good, bad = 0, len(pending)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if _fails(picture, pending[:middle]) else (middle, bad)
    return pending[bad - 1].id


def _fails(picture: Picture, waiting: list[engine.Workload]) -> bool:
    """Return whether the engine fails with only these waiting."""
    placed = [w for w in picture.snapshot.workloads if w.status is not engine.Status.PENDING]
    try:
        schedule(replace(picture.snapshot, workloads=(*placed, *waiting)), picture.now)
    except Exception:
        return True
    return False
