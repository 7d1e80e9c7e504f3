"""Running the engine again on what a stored cycle looked at: whether it decides the same, and what differs."""

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from chamber.errors import NotVisible, Refusal
from scheduling import engine
from scheduling.checker import Violation, check
from scheduling.cycle.codec import decode_snapshot
from scheduling.cycle.fingerprint import digest, engine_version
from scheduling.engine import schedule
from scheduling.explain import stored_plan
from scheduling.models import Cycle
from scheduling.reading.translate import milliseconds, moment
from workloads.models import Event, EventKind

APPLYING_TAKES_AT_MOST = timedelta(minutes=10)
"""Events of a cycle are looked for so long after it began."""

FIGURES = {
    "reservations": "start reservation",
    "pools": "figures of a pool",
    "teams": "figures of a team",
}
"""What a plan tells beside the workloads that wait, and how it is named in a difference."""

Decisions = Mapping[str, str]
"""What became of each workload that a cycle changed: start, preempt, grow, shrink."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A cycle decided once more.

    `engine_then` is empty where it was not recorded. `whole` says that whole plans were compared, byte for byte; else
    what the plan tells people, and the decisions that were applied. `error_then` and `error_now` are what the engine
    failed with. `violations` is None where the check was not asked for.
    """

    cycle: int
    began_at: datetime
    engine_then: str
    engine_now: str
    error_then: str
    error_now: str
    whole: bool
    same: bool
    differences: tuple[str, ...]
    decisions: Mapping[str, int]
    violations: tuple[Violation, ...] | None = None

    @property
    def other_engine(self) -> bool:
        """Whether another version of the engine decided then, as far as is known."""
        return bool(self.engine_then) and self.engine_then != self.engine_now


def replay(number: int | None, *, verify: bool = False) -> Replay:
    """Decide a stored cycle again, the newest that can be where no number is given; nothing is written.

    With `verify`, the independent checker looks at the plan of now. Raises `NotVisible` for a cycle that is not stored,
    and `Refusal` for one whose snapshot was not kept or cannot be read.
    """
    cycle = _stored(number)
    snapshot, now = _snapshot_of(cycle), milliseconds(cycle.began_at) or 0
    try:
        plan = schedule(snapshot, now)
    except Exception as error:
        return _failed(cycle, repr(error))
    recorded = cycle.figures.get("plan_sha256", "")
    same = bool(recorded) and digest(plan) == recorded
    differences = () if same else tuple(_differences(cycle, plan, snapshot))
    if not recorded:
        same = not differences
    return Replay(
        cycle=cycle.number,
        began_at=cycle.began_at,
        engine_then=cycle.figures.get("engine", ""),
        engine_now=engine_version(),
        error_then=cycle.figures.get("error", ""),
        error_now="",
        whole=bool(recorded),
        same=same,
        differences=differences,
        decisions={
            "starts": len(plan.starts),
            "preemptions": len(plan.preemptions),
            "grows": len(plan.grows),
            "shrinks": len(plan.shrinks),
            "waits": len(plan.waits),
        },
        violations=check(snapshot, plan, now) if verify else None,
    )


def _stored(number: int | None) -> Cycle:
    cycles = Cycle.objects.order_by("-number")
    if number is None:
        newest = cycles.exclude(snapshot=b"").first()
        if newest is None:
            raise NotVisible(
                "No stored cycle has a snapshot yet: the first is kept with the first cycle that decides."
            )
        return newest
    found = cycles.filter(number=number).first()
    if found is not None:
        return found
    oldest, newest = cycles.last(), cycles.first()
    if oldest is None or newest is None:
        raise NotVisible(f"There is no cycle {number}: none is stored yet.")
    raise NotVisible(f"There is no cycle {number}: stored are some of {oldest.number} to {newest.number}.")


def _snapshot_of(cycle: Cycle) -> engine.Snapshot:
    if not cycle.snapshot:
        kept = Cycle.objects.exclude(snapshot=b"").values_list("number", flat=True)
        before = kept.filter(number__lt=cycle.number).order_by("-number").first()
        after = kept.filter(number__gt=cycle.number).order_by("number").first()
        near = " and ".join(str(each) for each in (before, after) if each is not None)
        raise Refusal(
            f"The snapshot of cycle {cycle.number} was not kept: it is where somebody had to yield, where the engine "
            f"failed, and else every ten seconds. {f'The nearest with one: {near}.' if near else 'No cycle has one.'}"
        )
    try:
        return decode_snapshot(cycle.snapshot)
    except (ValueError, zlib.error) as error:
        raise Refusal(
            f"The snapshot of cycle {cycle.number} cannot be read: another release wrote it, or it is damaged "
            f"({str(error).splitlines()[0]})."
        ) from error


def _failed(cycle: Cycle, error: str) -> Replay:
    """Return the replay of a cycle on which the engine fails now; the same where it failed so then."""
    then = cycle.figures.get("error", "")
    return Replay(
        cycle=cycle.number,
        began_at=cycle.began_at,
        engine_then=cycle.figures.get("engine", ""),
        engine_now=engine_version(),
        error_then=then,
        error_now=error,
        whole=True,
        same=error == then,
        differences=() if error == then else (f"The engine fails now: {error}",),
        decisions={},
    )


def _differences(cycle: Cycle, plan: engine.Plan, snapshot: engine.Snapshot) -> Iterator[str]:
    """Yield what the plan of now has otherwise than what was stored and applied, one sentence each."""
    if cycle.figures.get("error"):
        yield f"The engine failed then ({cycle.figures['error']}) and decides now."
        return
    yield from _of_decisions(_applied(cycle), _decided(plan), partly=cycle.left_out > 0)
    try:
        before = stored_plan.unpack(cycle.plan)
    except (ValueError, zlib.error):
        yield "What the plan told then is damaged and is not compared."
        return
    if before is None:
        yield "What the plan told then is stored in the form of another release and is not compared."
        return
    yield from _of_told(before, json.loads(json.dumps(stored_plan.tell(plan, snapshot))))


def _applied(cycle: Cycle) -> Decisions:
    """Return what was applied in the cycle, from the workloads' events (1 query)."""
    kinds = {EventKind.STATUS: "", EventKind.GREW: "grow", EventKind.SHRANK: "shrink"}
    words = {"queued": "start", "preempted": "preempt"}
    events = Event.objects.filter(
        kind__in=kinds,
        at__gte=cycle.began_at,
        at__lte=cycle.began_at + APPLYING_TAKES_AT_MOST,
        data__cycle=cycle.number,
    )
    found = {}
    for workload, kind, data in events.values_list("workload_id", "kind", "data"):
        word = kinds[EventKind(kind)] or words.get(data.get("status", ""))
        if word:
            found[str(workload)] = word
    return found


def _decided(plan: engine.Plan) -> Decisions:
    return {
        **{start.workload: "start" for start in plan.starts},
        **{grow.workload: "grow" for grow in plan.grows},
        **{shrink.workload: "shrink" for shrink in plan.shrinks},
        **{preemption.workload: "preempt" for preemption in plan.preemptions},
    }


def _of_decisions(then: Decisions, now: Decisions, *, partly: bool) -> Iterator[str]:
    """Yield the workloads of which something else is decided; `partly`: not all that was decided then was applied."""
    for workload in sorted(then.keys() | now.keys()):
        was, does = then.get(workload, "nothing"), now.get(workload, "nothing")
        if was != does and not (partly and was == "nothing"):
            yield f"Workload {workload}: {was} was applied then, {does} is decided now."


def _of_told(then: stored_plan.Json, now: stored_plan.Json) -> Iterator[str]:
    """Yield what people would be told otherwise: which workloads wait where and why, start reservations, figures."""
    waits, waited = stored_plan.Waits.of(now), stored_plan.Waits.of(then)
    for workload in sorted(waits.places.keys() | waited.places.keys()):
        was, does = _wait(waited.get(workload)), _wait(waits.get(workload))
        if was != does:
            yield f"Workload {workload}: told {was} then, {does} now."
    for part, what in FIGURES.items():
        before, after = ({_row(row) for row in side[part]} for side in (then, now))
        yield from (f"Only then, {what}: {row}." for row in sorted(before - after))
        yield from (f"Only now, {what}: {row}." for row in sorted(after - before))


def _wait(wait: engine.Wait | None) -> str:
    if wait is None:
        return "nothing"
    starts = moment(wait.eta.earliest)
    when = f"starts at {starts:%Y-%m-%d %H:%M:%S}" if starts else "start not known"
    return f"{wait.reason.code} (position {wait.position}, {when}: {wait.reason.message})"


def _row(row: list[Any]) -> str:
    return ", ".join(str(value) for value in row)
