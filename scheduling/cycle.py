"""One cycle: snapshot, decide, apply; one at a time in a process, and one winner among processes.

Whoever rings while a cycle runs has it run once more. A cycle that finds nothing changed ends after a few sums; one
that decides nothing is stored at most once a minute.
"""

import logging
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from agentlink import inventory
from chamber import live
from scheduling import changes, memory
from scheduling.apply import Applied, LostTurn, apply, fence, ran_by
from scheduling.codec import encode_snapshot
from scheduling.decide import Decided, decide
from scheduling.engine import types as engine
from scheduling.memory import LastCycle
from scheduling.models import Cycle
from scheduling.settle import upkeep
from scheduling.snapshot import Picture, take
from teams.models import Pool

logger = logging.getLogger(__name__)

IDLE_STORED_EVERY = timedelta(minutes=1)
FAILURE_STORED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class CycleResult:
    """What one cycle did: its number, what it applied, and what had changed meanwhile."""

    number: int
    decisions: int
    left_out: int
    decide_ms: int


_turn = threading.Lock()
_rung = threading.Event()
_seen: tuple[tuple[Any, ...], datetime] | None = None
"""The fingerprint that the last cycle looked at, and until when that is good enough."""

_pools_seen: list[tuple[Any, ...]] | None = None


def run_cycle() -> CycleResult | None:
    """Run cycles until nothing rang meanwhile; return what the last one that wrote something did.

    Where a cycle is under way in this process, it is asked to run once more, and None is returned at once.
    """
    global _seen  # noqa: PLW0603 - one per process
    _rung.set()
    result = None
    while _rung.is_set():
        if not _turn.acquire(blocking=False):
            return result
        try:
            _rung.clear()
            result = _one_cycle() or result
        except LostTurn:
            logger.info("Another process had its turn; looking again.")
            _seen = None
            _rung.set()
        except Exception:
            # What was looked at was not acted on: the next call looks again.
            _seen = None
            raise
        finally:
            _turn.release()
    return result


def forget() -> None:
    """Have the next cycle look at the tables whatever it has seen before."""
    global _seen, _pools_seen  # noqa: PLW0603 - one per process
    _seen = _pools_seen = None


def _one_cycle() -> CycleResult | None:
    global _seen  # noqa: PLW0603 - one per process
    now = timezone.now()
    mark = changes.fingerprint()
    if _seen is not None and _seen[0] == mark and now < _seen[1]:
        return None
    _reassign_nodes()
    picture = take(now)
    _seen = mark, changes.due(picture.snapshot, now, picture.now)
    try:
        decided = decide(picture)
    except Exception as error:
        logger.exception("The engine failed; its snapshot is stored to be replayed.")
        _store_failure(picture, error)
        return None
    before = memory.last()
    if not _is_worth_storing(decided, before, now):
        if before is not None:
            memory.keep(LastCycle(before.number, before.began_at, picture.snapshot, decided.plan))
        return None
    applied = _apply(decided, before)
    return CycleResult(applied.number, applied.decisions, applied.left_out, decided.decide_ms)


def _reassign_nodes() -> None:
    """Where a pool was added, changed or moved in the order since this process last looked: pick its nodes anew."""
    global _pools_seen  # noqa: PLW0603 - one per process
    pools = list(Pool.objects.values_list("pk", "version", "order"))
    if pools != _pools_seen:
        inventory.reassign_pools()
        _pools_seen = pools


def _is_worth_storing(decided: Decided, before: LastCycle | None, now: datetime) -> bool:
    """Return whether the plan changes anything, or what it tells those who wait, or a minute has passed."""
    plan = decided.plan
    if before is None or now - before.began_at >= IDLE_STORED_EVERY:
        return True
    if plan.starts or plan.grows or plan.shrinks or plan.preemptions or upkeep(decided.picture, plan):
        return True
    return _told(plan) != _told(before.plan) or plan.teams != before.plan.teams


def _told(plan: engine.Plan) -> dict[str | None, list[tuple[Any, ...]]]:
    """Return what people see of the queues, by pool: who waits where, and why."""
    found: dict[str | None, list[tuple[Any, ...]]] = {}
    for wait in plan.waits:
        why = wait.reason
        numbers = (why.code, why.asked_milli, why.available_milli, why.limit_milli)
        found.setdefault(wait.pool, []).append((wait.workload, wait.position, *numbers))
    for kept in plan.reservations:
        found.setdefault(kept.pool, []).append((kept.workload, kept.nodes))
    return found


def _apply(decided: Decided, before: LastCycle | None) -> Applied:
    """Write the plan, keep it for those who ask why, and tell the pages."""
    picture = decided.picture
    try:
        applied = apply(decided)
    except LostTurn:
        raise
    except Exception:
        logger.exception("The plan cannot be written as a whole; its parts are tried one by one.")
        applied = apply(decided, piecemeal=True)
    after = LastCycle(applied.number, picture.taken_at, picture.snapshot, decided.plan)
    memory.keep(after)
    _announce(applied, before, after)
    return applied


def _announce(applied: Applied, before: LastCycle | None, after: LastCycle) -> None:
    """Announce what the cycle changed: the figures of teams and pools, and the queues that read differently."""
    told, told_before = _told(after.plan), _told(before.plan) if before else {}
    differing = {pool for pool in {*told, *told_before} if told.get(pool) != told_before.get(pool)}
    slugs = dict(Pool.objects.values_list("id", "slug"))
    # Who is in no pool's queue stands below each of them.
    queues = [slug for key, slug in slugs.items() if str(key) in differing or None in differing]
    moved = applied.decisions or before is None or before.plan.teams != after.plan.teams
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
            ran_by=ran_by(),
            figures={"error": repr(error)},
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
