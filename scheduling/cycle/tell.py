"""What a cycle tells once its decisions are written: why workloads wait, what teams are charged, how full pools are.

Where many wait this takes longer than deciding, and no start waits for it. Of cycles that follow each other at
once only some tell, at a pace; where there are victims, each does.
"""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from chamber import live
from scheduling import engine
from scheduling.cycle.apply import SCHEDULER, Applied, LostTurn, fence, record
from scheduling.cycle.codec import encode_snapshot
from scheduling.cycle.decide import Decided
from scheduling.cycle.fingerprint import signature
from scheduling.cycle.still_valid import Upkeep, is_disputed, upkeep
from scheduling.cycle.totals import promises
from scheduling.explain import last_cycle, stored_plan
from scheduling.explain.last_cycle import LastCycle
from scheduling.models import Clock, Cycle
from teams.models import Pool
from workloads import lifecycle

IDLE_STORED_EVERY = timedelta(minutes=1)
SNAPSHOT_STORED_EVERY = timedelta(seconds=10)
TOLD_EVERY_SECONDS = 1.0
RESTS = 2.0
"""So many times as long as telling took, cycles that follow each other may go without."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """What people see of a plan: which workloads wait where and why, by pool, and the figures of teams."""

    queues: dict[str | None, list[tuple[Any, ...]]]
    teams: tuple[engine.TeamFigures, ...]


@dataclass(frozen=True, slots=True)
class _Last:
    """The last cycle that this process has told of."""

    number: int
    began_at: datetime
    shown: _Shown


_last: _Last | None = None
_due = 0.0
"""Until then, by this process's clock, a cycle that another one follows at once may tell nothing."""


def may_wait(plan: engine.Plan) -> bool:
    """Return whether the telling may be left to a cycle that follows at once: there are no victims, and people were
    told a moment ago.
    """
    return not is_disputed(plan) and time.monotonic() < _due


def tell(decided: Decided, applied: Applied | None) -> int | None:
    """Write what the plan tells and announce what of it is new; return the number of the cycle it is stored with.

    `applied` is what became of its decisions, None where it has none: such a plan is stored where it tells something
    new, or a minute has passed; else None is returned. Raises `LostTurn` where another process has decided since.
    """
    global _last, _due  # noqa: PLW0603 - one per process
    began = time.monotonic()
    picture, plan = decided.picture, decided.plan
    before, shown, changes = _before(), _shown_by(plan), upkeep(picture, plan)
    if applied is None and before is not None and not changes and not _is_new(decided, shown, before):
        last_cycle.keep(LastCycle.of(before.number, before.began_at, plan, picture.snapshot))
        return None
    number = _write(decided, applied, changes)
    promises.told(plan.waits)
    _last = _Last(number, picture.taken_at, shown)
    moved = applied is not None and applied.decisions > 0
    _announce(before.shown if before else None, shown, moved=moved)
    _due = time.monotonic() + max(TOLD_EVERY_SECONDS, RESTS * (time.monotonic() - began))
    return number


def forget() -> None:
    """Have the next plan be told whatever was told before."""
    global _last, _due
    _last, _due = None, 0.0


def _before() -> _Last | None:
    """Return the last cycle that anybody told of, where this process did (1 query)."""
    newest = Cycle.objects.exclude(plan=b"").order_by("-number").values_list("number", flat=True).first()
    return _last if _last is not None and _last.number == newest else None


def _is_new(decided: Decided, shown: _Shown, before: _Last) -> bool:
    """Return whether something else than before is told of waiting workloads, or it is a minute ago."""
    return shown != before.shown or decided.picture.taken_at - before.began_at >= IDLE_STORED_EVERY


def _shown_by(plan: engine.Plan) -> _Shown:
    found: dict[str | None, list[tuple[Any, ...]]] = {}
    for wait in plan.waits:
        why = wait.reason
        numbers = (why.code, why.asked_milli, why.available_milli, why.limit_milli)
        found.setdefault(wait.pool, []).append((wait.workload, wait.position, *numbers))
    for kept in plan.reservations:
        found.setdefault(kept.pool, []).append((kept.workload, kept.nodes))
    return _Shown(found, tuple(plan.teams))


def _write(decided: Decided, applied: Applied | None, changes: Upkeep) -> int:
    """Store charges and reasons that differ, end what is given up, and keep what the plan tells for those who ask why;
    return the cycle's number.
    """
    picture, plan = decided.picture, decided.plan
    # Before the transaction: nothing waits for the compression, and this process does something else meanwhile.
    with ThreadPoolExecutor(max_workers=1) as beside:
        encoded = beside.submit(encode_snapshot, picture.snapshot) if _keeps_snapshot(decided) else None
        vouchers = signature(plan) if encoded else {}
        content = stored_plan.tell(plan, picture.snapshot)
        packed = stored_plan.pack(content)
    snapshot = encoded.result() if encoded else b""
    with transaction.atomic():
        if applied is None:
            applied = record(decided, fence(picture.cycle))
        else:
            _hold_turn(applied.number)
        failed = _upkeep(changes)
        Cycle.objects.filter(number=applied.number).update(
            figures={**applied.figures, **figures(decided), "failed": failed, **vouchers},
            plan=packed,
            snapshot=snapshot,
        )
        if failed:
            live.ring()
    last_cycle.keep(LastCycle(applied.number, picture.taken_at, lambda: content))
    return applied.number


def _hold_turn(cycle: int) -> None:
    """Keep others from deciding until this is written; raise `LostTurn` if one has."""
    clock = Clock.objects.select_for_update(no_key=True).filter(pk=1, cycle=cycle)
    if clock.values_list("cycle", flat=True).first() is None:
        raise LostTurn(f"Somebody else has applied a plan since cycle {cycle}.")


def _keeps_snapshot(decided: Decided) -> bool:
    """Return whether the snapshot is stored, with what vouches for a replay of it.

    A snapshot is large, and what it explains is in the events: it is kept to replay what may be disputed, where
    there are victims, and now and then.
    """
    at = decided.picture.taken_at
    recent = Cycle.objects.filter(began_at__gt=at - SNAPSHOT_STORED_EVERY, began_at__lte=at)
    return is_disputed(decided.plan) or not recent.exclude(snapshot=b"").exists()


def _upkeep(changes: Upkeep) -> int:
    """Write what a plan changes without deciding anything; return how many were given up."""
    lifecycle.recharge(changes.charges)
    lifecycle.set_reasons(changes.reasons)
    if not changes.failures:
        return 0
    return len(lifecycle.fail_waiting(changes.failures, by=SCHEDULER, at=timezone.now()))


def figures(decided: Decided) -> dict[str, Any]:
    """Return what is kept of a plan to be read without replaying it, beside its decisions."""
    plan = decided.plan
    return {
        "waiting": dict(Counter(wait.reason.code.value for wait in plan.waits)),
        "pools": [asdict(pool) for pool in plan.pools],
        "teams": [asdict(team) for team in plan.teams],
        "findings": [asdict(finding) for finding in plan.findings],
        "left_aside": [asdict(row) for row in decided.picture.left_aside],
    }


def _announce(before: _Shown | None, after: _Shown, *, moved: bool) -> None:
    """Announce what is new: the figures of teams and pools, and the queues that read differently."""
    queues, queues_before = after.queues, before.queues if before else {}
    differing = {pool for pool in {*queues, *queues_before} if queues.get(pool) != queues_before.get(pool)}
    # A workload in no pool's queue stands below each of them.
    everywhere = None in differing
    slugs = dict(Pool.objects.values_list("id", "slug"))
    concerned = sorted(slug for key, slug in slugs.items() if everywhere or str(key) in differing)
    changed = moved or before is None or before.teams != after.teams
    pages = ("overview", "teams", "pools") if changed else ("overview",) if concerned else ()
    live.announce(*pages, *(f"queue:{slug}" for slug in concerned))
