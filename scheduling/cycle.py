"""One cycle: snapshot, decide, apply; one at a time in a process, and one winner among processes.

Who rings while a cycle runs has it run once more. Without a ring, a cycle that finds nothing changed ends after a few
sums; one that decides nothing is stored at most once a minute.
"""

import gc
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
from agentlink.pace import Pace
from chamber import live, logs
from scheduling import bells, changes, memory, turn
from scheduling.apply import Applied, LostTurn, apply, fence
from scheduling.codec import encode_snapshot
from scheduling.decide import Decided, decide
from scheduling.engine import types as engine
from scheduling.memory import LastCycle
from scheduling.models import Cycle
from scheduling.picture import Picture
from scheduling.settle import upkeep
from scheduling.signature import engine_version
from scheduling.snapshot import take
from scheduling.tally import promises
from teams.models import Pool

logger = logging.getLogger(__name__)

IDLE_STORED_EVERY = timedelta(minutes=1)
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
class _Seen:
    """What the last look answered: so many rings, the tables with this fingerprint (None: not taken), until then."""

    rings: int
    mark: tuple[Any, ...] | None
    until: datetime


@dataclass(frozen=True, slots=True)
class _Shown:
    """What people see of a plan: who waits where and why, by pool, and the figures of teams."""

    queues: dict[str | None, list[tuple[Any, ...]]]
    teams: tuple[engine.TeamFigures, ...]


@dataclass(frozen=True, slots=True)
class _Last:
    """The last cycle that this process stored."""

    number: int
    began_at: datetime
    shown: _Shown


_pace = Pace(at_once=CYCLES_AT_ONCE, every_seconds=CYCLES_EVERY_SECONDS)
_running = threading.Lock()
_again = threading.Event()
_seen: _Seen | None = None
_pools_seen: list[tuple[Any, ...]] | None = None
_last: _Last | None = None


def run_cycle() -> CycleResult | None:
    """Run cycles until all rings are answered; return what the last one that wrote something did.

    Where a cycle is under way in this process, it is asked to run once more, and None is returned at once; where it
    is another process's turn, too. Whoever rings without end has the next message answer him: after five seconds.
    """
    began = time.monotonic()
    result = None
    _again.set()
    while _again.is_set():
        if not _running.acquire(blocking=False):
            return result
        try:
            _again.clear()
            if not turn.take():
                return result
            _pace.step()
            with _no_collections():
                result = _answer() or result
        finally:
            _running.release()
        if _again.is_set() and time.monotonic() - began > LONGEST_RUN_SECONDS:
            bells.ring()
            return result
        if _again.is_set():
            rest()
    return result


def rest() -> None:
    """Wait until the next cycle may begin: rings gather meanwhile, and are answered together."""
    time.sleep(_pace.rest_seconds())


@contextmanager
def _no_collections() -> Iterator[None]:
    """Keep the garbage collector out of a cycle: it would walk over all that is kept of the tables, again and again.

    What a cycle leaves is taken up after it.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _answer() -> CycleResult | None:
    """Run one cycle; have another one follow where somebody rang meanwhile, or another process came first."""
    global _seen  # noqa: PLW0603 - one per process
    rung = bells.hear()
    try:
        result = _one_cycle(rung)
    except LostTurn:
        logger.info("Another process had its turn; looking again.")
        _seen, result = None, None
        _again.set()
    except Exception:
        # What was looked at was not acted on: the next call looks again.
        _seen = None
        raise
    turn.looked()
    if bells.rings() != rung:
        _again.set()
    return result


def forget() -> None:
    """Have the next cycle look at the tables whatever it has seen before."""
    global _seen, _pools_seen, _last  # noqa: PLW0603 - one per process
    _seen = _pools_seen = _last = None


def _one_cycle(rung: int) -> CycleResult | None:
    global _seen, _last  # noqa: PLW0603 - one per process
    now = timezone.now()
    mark: tuple[Any, ...] | None = None
    if _seen is None or _seen.rings == rung:
        # Nobody rang: whether there is anything to look at, only the tables can tell.
        mark = changes.fingerprint()
        if _seen is not None and _seen.mark == mark and now < _seen.until:
            return None
    _reassign_nodes()
    now = timezone.now()  # as late as can be: whoever began since would seem to begin later than now
    picture = take(now)
    _seen = _Seen(rung, mark, changes.due(picture.snapshot, now, picture.now))
    try:
        decided = decide(picture)
    except Exception as error:
        logger.exception("The engine failed; its snapshot is stored to be replayed.")
        _store_failure(picture, error)
        return None
    before, shown = _before(), _shown_by(decided.plan)
    if before is not None and not _is_worth_storing(decided, shown, before):
        memory.keep(LastCycle.of(before.number, before.began_at, decided.plan, picture.snapshot))
        return None
    with logs.bind(cycle=picture.cycle + 1):
        applied = _apply(decided)
    _last = _Last(applied.number, picture.taken_at, shown)
    _announce(applied, before.shown if before else None, shown)
    return CycleResult(applied.number, applied.decisions, applied.left_out, decided.decide_ms)


def _reassign_nodes() -> None:
    """Where a pool was added, changed or moved in the order since this process last looked: pick its nodes anew."""
    global _pools_seen  # noqa: PLW0603 - one per process
    pools = list(Pool.objects.values_list("pk", "version", "order"))
    if pools != _pools_seen:
        inventory.reassign_pools()
        _pools_seen = pools


def _before() -> _Last | None:
    """Return the last cycle that was stored, where it was this process's (1 query)."""
    newest = Cycle.objects.exclude(plan=b"").order_by("-number").values_list("number", flat=True).first()
    return _last if _last is not None and _last.number == newest else None


def _is_worth_storing(decided: Decided, shown: _Shown, before: _Last) -> bool:
    """Return whether the plan changes anything, or what it tells those who wait, or a minute has passed."""
    plan = decided.plan
    if decided.picture.taken_at - before.began_at >= IDLE_STORED_EVERY:
        return True
    if plan.starts or plan.grows or plan.shrinks or plan.preemptions or upkeep(decided.picture, plan):
        return True
    return shown != before.shown


def _shown_by(plan: engine.Plan) -> _Shown:
    found: dict[str | None, list[tuple[Any, ...]]] = {}
    for wait in plan.waits:
        why = wait.reason
        numbers = (why.code, why.asked_milli, why.available_milli, why.limit_milli)
        found.setdefault(wait.pool, []).append((wait.workload, wait.position, *numbers))
    for kept in plan.reservations:
        found.setdefault(kept.pool, []).append((kept.workload, kept.nodes))
    return _Shown(found, tuple(plan.teams))


def _apply(decided: Decided) -> Applied:
    """Write the plan, and keep it for those who ask why."""
    picture = decided.picture
    try:
        applied = apply(decided)
    except LostTurn:
        raise
    except Exception:
        logger.exception("The plan cannot be written as a whole; its parts are tried one by one.")
        applied = apply(decided, piecemeal=True)
    memory.keep(LastCycle.of(applied.number, picture.taken_at, decided.plan, picture.snapshot))
    promises.told(decided.plan.waits)
    return applied


def _announce(applied: Applied, before: _Shown | None, after: _Shown) -> None:
    """Announce what the cycle changed: the figures of teams and pools, and the queues that read differently."""
    told, told_before = after.queues, before.queues if before else {}
    differing = {pool for pool in {*told, *told_before} if told.get(pool) != told_before.get(pool)}
    slugs = dict(Pool.objects.values_list("id", "slug"))
    # Who is in no pool's queue stands below each of them.
    queues = [slug for key, slug in slugs.items() if str(key) in differing or None in differing]
    moved = applied.decisions or before is None or before.teams != after.teams
    figures = ("overview", "teams", "pools") if moved else ("overview",) if queues else ()
    live.announce(*figures, *(f"queue:{slug}" for slug in sorted(queues)))


def _store_failure(picture: Picture, error: Exception) -> None:
    """Store what the engine failed on, at most once a minute; such a cycle has an empty plan."""
    since = picture.taken_at - FAILURE_STORED_EVERY
    if Cycle.objects.filter(plan=b"", began_at__gt=since).exists():
        return
    with transaction.atomic():
        Cycle.objects.create(
            number=fence(picture.cycle),
            began_at=picture.taken_at,
            took_ms=0,
            decide_ms=0,
            ran_by=turn.me(),
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
