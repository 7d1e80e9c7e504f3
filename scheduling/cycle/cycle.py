"""One cycle: snapshot, decide, apply, tell; one at a time in a process, and one winner among processes.

A ring while a cycle runs makes it run once more. Without a ring, a cycle that finds nothing changed ends after a few
sums; one that decides nothing and has nothing new to tell is stored at most once a minute.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from agentlink import inventory
from agentlink.assignments import ClusterReleased
from agentlink.pace import Pace
from chamber import logs
from chamber.collecting import without_collecting
from scheduling.cycle import lease, pending_changes, tell, wake_ups
from scheduling.cycle.apply import Applied, LostTurn, apply, fence
from scheduling.cycle.codec import encode_snapshot
from scheduling.cycle.decide import Decided, complete, decide
from scheduling.cycle.fingerprint import engine_version
from scheduling.cycle.still_valid import decisions_of
from scheduling.models import Cycle
from scheduling.reading.picture import SnapshotPicture
from scheduling.reading.snapshot import take
from teams.models import Pool

logger = logging.getLogger(__name__)

FAILURE_STORED_EVERY = timedelta(minutes=1)
CYCLES_AT_ONCE = 3
CYCLES_EVERY_SECONDS = 0.2
"""How fast cycles follow each other: a submission is looked at once, many in a second share a few cycles."""
LONGEST_RUN_SECONDS = 5.0
"""A message is answered by so many seconds of cycles at most, so that the worker can stop in between."""


@dataclass(frozen=True, slots=True)
class CycleResult:
    """What one cycle did: its number, what it applied, and what had changed meanwhile."""

    number: int
    decisions: int
    left_out: int
    decide_ms: int


@dataclass(frozen=True, slots=True)
class _LastLook:
    """What the last look answered: so many rings, the tables with this fingerprint (None: not taken), until then."""

    rings: int
    mark: tuple[Any, ...] | None
    until: datetime


class _EngineFailed(Exception):  # noqa: N818 - an outcome of a cycle
    """Nothing was decided: the engine failed, and what it failed on is stored."""


@dataclass(frozen=True, slots=True)
class _Untold:
    """A cycle whose decisions are written, None where it has none, and which is not told yet."""

    decided: Decided
    applied: Applied | None


_pace = Pace(at_once=CYCLES_AT_ONCE, every_seconds=CYCLES_EVERY_SECONDS)
_running = threading.Lock()
_again = threading.Event()
_seen: _LastLook | None = None
_pools_seen: list[tuple[Any, ...]] | None = None


def run_cycle() -> CycleResult | None:
    """Run cycles until all rings are answered; return what the last one that wrote something did.

    Where a cycle is under way in this process, it is asked to run once more, and None is returned at once; where it
    is another process's turn, too. Rings without end are left to the next message after five seconds.
    """
    began = time.monotonic()
    result = None
    _again.set()
    while _again.is_set():
        if not _running.acquire(blocking=False):
            return result
        try:
            _again.clear()
            if not lease.take():
                return result
            _pace.step()
            with without_collecting():
                result = _answer() or result
        finally:
            _running.release()
        if _again.is_set() and time.monotonic() - began > LONGEST_RUN_SECONDS:
            wake_ups.ring()
            return result
        if _again.is_set():
            rest()
    return result


def rest() -> None:
    """Wait until the next cycle may begin: rings gather meanwhile, and are answered together."""
    time.sleep(_pace.rest_seconds())


def _answer() -> CycleResult | None:
    """Run one cycle; have another one follow after a ring meanwhile, or if another process came first."""
    global _seen  # noqa: PLW0603 - one per process
    rung = wake_ups.hear()
    try:
        untold = _one_cycle(rung)
        lease.looked()
        if wake_ups.rings() != rung:
            _again.set()
        if untold is None:
            return None
        if _again.is_set() and tell.may_wait(untold.decided.plan):
            _seen = None  # the next one looks whatever it sees, and tells
            return _result(untold)
        return _tell(untold)
    except LostTurn:
        lease.looked()
        _seen = None
        _again.set()
        return None
    except _EngineFailed:
        lease.looked(decided=False)
        if wake_ups.rings() != rung:
            _again.set()
        return None
    except Exception:
        # What was looked at was not acted on: the next call looks again.
        _seen = None
        raise


def forget() -> None:
    """Have the next cycle look at the tables whatever it has seen before."""
    global _seen, _pools_seen  # noqa: PLW0603 - one per process
    _seen = _pools_seen = None
    tell.forget()


def _one_cycle(rung: int) -> _Untold | None:
    """Look, decide and write the decisions; None where nothing has changed. Raises `_EngineFailed`."""
    global _seen  # noqa: PLW0603 - one per process
    now = timezone.now()
    mark: tuple[Any, ...] | None = None
    if _seen is None or _seen.rings == rung:
        # There was no ring: only the tables can tell whether anything has changed.
        mark = pending_changes.fingerprint()
        if _seen is not None and _seen.mark == mark and now < _seen.until:
            return None
    _reassign_nodes()
    now = timezone.now()  # as late as can be: whoever began since would seem to begin later than now
    picture = take(now)
    _seen = _LastLook(rung, mark, pending_changes.due(picture.snapshot, now, picture.now))
    try:
        decided = decide(picture)
    except Exception as error:
        logger.exception("The engine failed; its snapshot is stored to be replayed.")
        _store_failure(picture, picture.cycle, error)
        raise _EngineFailed from error
    if not decisions_of(decided.plan):
        return _Untold(decided, None)
    with _numbered(picture.cycle + 1):
        applied = _apply(decided)
        logger.info("%s", _sentence(decided, applied))
        return _Untold(decided, applied)


@contextmanager
def _numbered(cycle: int) -> Iterator[None]:
    """Bind a cycle's number to the log, and say there where another process came first."""
    with logs.bind(cycle=cycle):
        try:
            yield
        except LostTurn as lost:
            logger.info("Another process had its turn; looking again. %s", lost)
            raise


def _sentence(decided: Decided, applied: Applied) -> str:
    """Return what a cycle decided and how long that took."""
    plan = decided.plan
    counts = {
        "started": len(plan.starts),
        "preempted": len(plan.preemptions),
        "scaled up": len(plan.grows),
        "scaled down": len(plan.shrinks),
        "left out": applied.left_out,
    }
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"Decided in {decided.decide_ms} ms: {said or 'nothing'}."


def _apply(decided: Decided) -> Applied:
    """Write what was decided."""
    try:
        return apply(decided)
    except LostTurn:
        raise
    except ClusterReleased as released:
        logger.info("The plan's parts are written one by one. %s", released)
        return apply(decided, piecemeal=True)
    except Exception:
        logger.exception("The plan cannot be written as a whole; its parts are tried one by one.")
        return apply(decided, piecemeal=True)


def _tell(untold: _Untold) -> CycleResult | None:
    """Have people told; return what the cycle did where it wrote anything."""
    picture, applied = untold.decided.picture, untold.applied
    number = applied.number if applied else picture.cycle
    try:
        decided = complete(untold.decided)
    except Exception as error:
        logger.exception("The engine failed on what its plan tells; its snapshot is stored to be replayed.")
        _store_failure(picture, number, error)
        return _result(untold)
    with _numbered(number if applied else number + 1):
        return _result(untold, tell.tell(decided, applied))


def _result(untold: _Untold, told: int | None = None) -> CycleResult | None:
    """Return what a cycle did, `told` as this number; None where it wrote nothing."""
    applied = untold.applied or (None if told is None else Applied(told))
    if applied is None:
        return None
    return CycleResult(applied.number, applied.decisions, applied.left_out, untold.decided.decide_ms)


def _reassign_nodes() -> None:
    """Where a pool was added, changed or moved in the order since this process last looked: pick its nodes anew."""
    global _pools_seen  # noqa: PLW0603 - one per process
    pools = list(Pool.objects.values_list("pk", "version", "order"))
    if pools != _pools_seen:
        inventory.reassign_pools()
        _pools_seen = pools


def _store_failure(picture: SnapshotPicture, cycle: int, error: Exception) -> None:
    """Store what the engine failed on, after this cycle, at most once a minute; it has an empty plan, and an error."""
    since = picture.taken_at - FAILURE_STORED_EVERY
    if Cycle.objects.filter(began_at__gt=since, figures__has_key="error").exists():
        return
    with transaction.atomic():
        Cycle.objects.create(
            number=fence(cycle),
            began_at=picture.taken_at,
            took_ms=0,
            decide_ms=0,
            ran_by=lease.me(),
            figures={"error": repr(error), "engine": engine_version()},
            plan=b"",
            snapshot=encode_snapshot(picture.snapshot),
            decisions=0,
        )


def prune(*, older_than: timedelta, now: datetime, most: int = 20_000, batch: int = 500) -> int:
    """Delete cycles that began before `now - older_than`, and all but the newest `most`; return how many.

    In small transactions, so that no cycle waits long for them.
    """
    newest = Cycle.objects.order_by("-number").values_list("number", flat=True).first() or 0
    old = Cycle.objects.filter(Q(began_at__lt=now - older_than) | Q(number__lte=newest - most))
    total = 0
    while True:
        deleted, _ = Cycle.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:batch])).delete()
        total += deleted
        if deleted < batch:
            return total
