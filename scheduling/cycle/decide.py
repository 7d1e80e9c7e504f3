"""Asking the engine, and not letting one workload that it stumbles over stop everybody.

This process keeps the engine's state from cycle to cycle, and tells it what is another in the new picture. Where that
does not fit, or fails, the state is made anew from the picture: the plan is the same either way.
"""

import logging
import time
from dataclasses import dataclass, replace

from chamber.collecting import without_collecting
from scheduling import engine
from scheduling.engine import Changes, State, schedule
from scheduling.engine import decide as decide_on
from scheduling.reading.picture import LeftAside, SnapshotPicture

logger = logging.getLogger(__name__)

MOST_LEFT_ASIDE = 3
_stumbled_over: dict[str, int] = {}
"""Versions of workloads that the engine failed on: they are left aside until they are changed."""
_kept: tuple[State, engine.Snapshot] | None = None
"""The engine's state after the last cycle, and the snapshot that it stands for."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A plan, the picture it was made for, and how long that took."""

    picture: SnapshotPicture
    plan: engine.Plan
    decide_ms: int


def decide(picture: SnapshotPicture) -> Decided:
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
            with without_collecting():
                plan = _plan(picture.snapshot, picture.now)
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


def complete(decided: Decided) -> Decided:
    """Return the same with all worked out that the plan tells; before the next picture is decided on.

    Where the engine fails in that on the state that is kept, it is worked out anew from the picture; where it fails
    then too, the waiting workload that makes it fail is left aside from the next cycle on, and its exception is raised.
    """
    global _kept  # noqa: PLW0603 - one per process
    picture = decided.picture
    try:
        with without_collecting():
            len(decided.plan.waits)
    except Exception:
        logger.exception("The engine fails on the state that was kept, which is made anew.")
        _kept = None
    else:
        return decided
    try:
        plan = schedule(picture.snapshot, picture.now)
        len(plan.waits)
    except Exception:
        culprit = _culprit(picture)
        if culprit is not None:
            logger.exception("The engine cannot tell why workload %s waits.", culprit)
            _stumbled_over[culprit] = picture.rows[culprit].version
        raise
    return replace(decided, plan=plan)


def _plan(snapshot: engine.Snapshot, now: int) -> engine.Plan:
    """Return the engine's plan, on the state that is kept where there is one."""
    global _kept  # noqa: PLW0603 - one per process, and only one cycle at a time
    kept, _kept = _kept, None
    state = _brought_up_to(snapshot, *kept) if kept is not None else None
    plan = _told(state, now) if state is not None else None
    if state is None or plan is None:
        state = State.of(snapshot)
        plan = decide_on(state, now)
    _kept = state, snapshot
    return plan


def _brought_up_to(snapshot: engine.Snapshot, state: State, before: engine.Snapshot) -> State | None:
    """Return the state after what has happened since the snapshot before; None where it has to be made anew."""
    try:
        state.apply(Changes.between(before, snapshot))
    except Exception:
        logger.exception("The engine's state does not take what has changed, and is made anew.")
        return None
    return state


def _told(state: State, now: int) -> engine.Plan | None:
    """Return the plan; None where the kept state fails."""
    try:
        return decide_on(state, now)
    except Exception:
        logger.exception("The engine fails on the state that was kept, which is made anew.")
        return None


def forget() -> None:
    """Give those that the engine failed on another try, and make its state anew."""
    global _kept  # noqa: PLW0603 - one per process
    _kept = None
    _stumbled_over.clear()


def _is(picture: SnapshotPicture, key: str, version: int) -> bool:
    return key in picture.rows and picture.rows[key].version == version


def _without(picture: SnapshotPicture, keys: set[str]) -> SnapshotPicture:
    """Return the picture without some waiting workloads, and with a note for each."""
    if not keys:
        return picture
    waiting = keys & {workload.id for workload in _pending(picture)}
    kept = tuple(workload for workload in picture.snapshot.workloads if workload.id not in waiting)
    notes = tuple(LeftAside("workload", key, "The engine fails on it.") for key in sorted(waiting))
    return replace(
        picture,
        snapshot=replace(picture.snapshot, workloads=kept),
        left_aside=(*picture.left_aside, *notes),
    )


def _pending(picture: SnapshotPicture) -> list[engine.WorkloadInfo]:
    waiting = (w for w in picture.snapshot.workloads if w.status is engine.OpenStatus.PENDING)
    return sorted(waiting, key=lambda workload: workload.id)


def _culprit(picture: SnapshotPicture) -> str | None:
    """Return the waiting workload with which the engine begins to fail, by halving; None where it fails anyway."""
    pending = _pending(picture)
    if _fails(picture, pending[:0]):
        return None
    good, bad = 0, len(pending)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if _fails(picture, pending[:middle]) else (middle, bad)
    return pending[bad - 1].id


def _fails(picture: SnapshotPicture, waiting: list[engine.WorkloadInfo]) -> bool:
    """Return whether the engine fails with only these waiting."""
    placed = [w for w in picture.snapshot.workloads if w.status is not engine.OpenStatus.PENDING]
    try:
        len(schedule(replace(picture.snapshot, workloads=(*placed, *waiting)), picture.now).waits)
    except Exception:
        return True
    return False
