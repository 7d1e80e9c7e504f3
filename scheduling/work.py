"""The open workloads of a picture, kept from one reading to the next: only what differs is turned into objects.

Their rows, attempts and placements are compared as the database sent them. What a workload asks for
(`scheduling.asked`) is read only where its version was raised by more than the steps of its status: every change of
what it asks raises it too.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count

from agentlink.models import Hold, Placement
from scheduling import asked, fleet, translate
from scheduling.asked import NOTHING, Asked
from scheduling.columns import ids, json_of, milliseconds_of, texts
from scheduling.engine import types as engine
from scheduling.fleet import At, Columns, Fleet
from scheduling.picture import Known, LeftAside
from scheduling.translate import Circumstances
from workloads.models import Attempt, Dependency, EndReason, Phase, Status, Workload
from workloads.models.workload import OPEN

PREEMPTIONS_COUNTED = timedelta(hours=24)

Rows = Mapping[str, Columns]
"""Rows by the id of their workload."""
Lying = Mapping[str, Sequence[Columns]]
"""Where the pods of attempts lie, by attempt: attempt, device, pod index, share, hold."""


@dataclass(frozen=True, slots=True)
class Work:
    """The open workloads, as they were read and what was made of them, by id; `stopping` is what is being stopped.

    `workloads` has those that can be read, `known` all.
    """

    open: Rows = field(default_factory=dict)
    attempts: Rows = field(default_factory=dict)
    lying: Set[Columns] = frozenset()
    around: Mapping[str, Circumstances] = field(default_factory=dict)
    asked: Mapping[str, Asked] = field(default_factory=dict)
    known: Mapping[str, Known] = field(default_factory=dict)
    workloads: Mapping[str, engine.Workload] = field(default_factory=dict)
    stopping: tuple[engine.Workload, ...] = ()

    @property
    def problems(self) -> list[LeftAside]:
        """Return what of them cannot be read."""
        return [each.problem for each in self.asked.values() if each.problem is not None]


def read(before: Work, nodes: Fleet, now: datetime) -> Work:
    """Return the open workloads as the tables have them now (at most 8 queries)."""
    attempts = _attempts()
    placed = {each[1]: each for each in attempts if each[6] is None}
    lying, around, rows = _lying(), _circumstances(now), _open()
    other = (
        _differing(before.open, rows)
        | _differing(before.attempts, placed)
        | _differing(before.around, around)
    )
    moved = {row[0] for row in lying ^ before.lying}
    other |= {key for key, attempt in placed.items() if attempt[0] in moved}
    leaving = {row[0] for row in lying if row[4] == Hold.LEAVING}
    lie = _by_attempt(lying, leaving.union(placed[key][0] for key in other if key in placed))
    at = _places(nodes, lie)
    known, workloads = dict(before.known), dict(before.workloads)
    asks = _asks(before, rows, other)
    for key in other:
        workloads.pop(key, None)
        if key not in rows:
            known.pop(key, None)
            continue
        attempt, asking = placed.get(key), asks[key]
        known[key] = _known(rows[key], attempt, asking)
        if attempt is not None or asking.problem is None:
            workloads[key] = _workload(asking, around.get(key, NOTHING), attempt, lie, at)
    stopping = _stopping([each for each in attempts if each[0] in leaving], lie, at)
    return Work(rows, placed, lying, around, asks, known, workloads, stopping)


def _open() -> Rows:
    """Return the open workloads: id, version, status, reason (1 query)."""
    found = Workload.objects.filter(status__in=OPEN).order_by()
    return {row[0]: row for row in found.values_list(*ids("id"), "version", "status", "reason_code")}


def _attempts() -> list[Columns]:
    """Return the attempts whose pods may still hold devices: id, workload, pool, allocation, three times, number,
    phase (1 query).
    """
    found = Attempt.objects.filter(released_at__isnull=True).order_by()
    times = ("running_at", "checkpointed_at", "ended_at")
    columns: Columns = (*ids("id", "workload_id", "pool_id"), *texts("allocation", *times), "number", "phase")
    return list(found.values_list(*columns))


def _lying() -> Set[Columns]:
    """Return where pods lie, or are to lie: attempt, device, pod index, share, hold (1 query)."""
    found = Placement.objects.exclude(hold=Hold.RELEASED).order_by()
    return set(found.values_list(*ids("attempt_id", "device_id"), "pod_index", "share_milli", "hold"))


def _circumstances(now: datetime) -> dict[str, Circumstances]:
    """Return what dependencies and recent preemptions mean for each workload that has any (2 queries)."""
    needed: dict[str, set[str]] = defaultdict(set)
    pending = Dependency.objects.filter(workload__status=Status.PENDING).order_by()
    for workload, status in pending.values_list(*ids("workload_id"), "needs__status"):
        needed[workload].add(status)
    recent = Attempt.objects.filter(
        end_reason=EndReason.PREEMPTED, ended_at__gt=now - PREEMPTIONS_COUNTED, workload__status__in=OPEN
    )
    counted = recent.order_by().values("workload_id").annotate(n=Count("id")).values_list("workload_id", "n")
    counts = {str(workload): count for workload, count in counted}
    return {
        workload: Circumstances(dependency_on(needed.get(workload, set())), counts.get(workload, 0))
        for workload in needed.keys() | counts.keys()
    }


def dependency_on(needed: set[str]) -> engine.Dependency:
    """Return what the statuses of those it needs mean: one that ended otherwise than Completed spoils it."""
    left = needed - {Status.COMPLETED}
    if not left:
        return engine.Dependency.NONE
    return engine.Dependency.WAITING if left <= set(OPEN) else engine.Dependency.FAILED


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """Return the keys under which something else stands now, or nothing any more."""
    return {key for key, value in now.items() if before.get(key) != value} | (before.keys() - now.keys())


def _by_attempt(lying: Iterable[Columns], wanted: Set[str]) -> Lying:
    """Return where the pods of these attempts lie."""
    found: dict[str, list[Columns]] = defaultdict(list)
    for row in lying:
        if row[0] in wanted:
            found[row[0]].append(row)
    return found


def _places(nodes: Fleet, lie: Lying) -> Mapping[str, At]:
    """Return where all devices are that somebody lies on (1 query where one is of no node that is there)."""
    elsewhere = fleet.places_of({row[1] for rows in lie.values() for row in rows} - nodes.at.keys())
    return {**nodes.at, **elsewhere} if elsewhere else nodes.at


def _asks(before: Work, rows: Rows, other: Collection[str]) -> Mapping[str, Asked]:
    """Return what all open workloads ask for; `other` are those in which something is other than before (1 query)."""
    found = dict(before.asked)
    for key in other:
        if key not in rows or not _asks_the_same(before, rows[key]):
            found.pop(key, None)
    found.update(asked.read([key for key in other if key in rows and key not in found], of=len(rows)))
    return found


def _asks_the_same(before: Work, row: Columns) -> bool:
    """Return whether nothing that it asks has changed: its version is the same, or was raised only by the steps that
    its status has taken since.
    """
    key, version, status, _ = row
    if key not in before.open:
        return False
    _, version_before, status_before, _ = before.open[key]
    steps = OPEN.index(status) - OPEN.index(status_before)
    stays = before.asked[key].stays_when_admitted
    return version == version_before or (version == version_before + steps and stays)


def _known(row: Columns, attempt: Columns | None, asking: Asked) -> Known:
    _, version, status, reason_code = row
    return Known(
        id=asking.id,
        version=version,
        status=Status(status),
        reason_code=reason_code,
        fail_if_impossible=asking.fail_if_impossible,
        attempt_id=None if attempt is None else UUID(attempt[0]),
        allocation=[] if attempt is None else json_of(attempt[3]),
    )


def _workload(
    asking: Asked, around: Circumstances, attempt: Columns | None, lie: Lying, at: Mapping[str, At]
) -> engine.Workload:
    workload = asking.workload
    if around is not NOTHING:
        workload = replace(workload, dependency=around.dependency, preemptions_24h=around.preemptions_24h)
    if attempt is None:
        return workload
    return _placed(workload, attempt, [row for row in lie.get(attempt[0], ()) if row[4] != Hold.LEAVING], at)


def _placed(
    workload: engine.Workload, attempt: Columns, lying: Iterable[Columns], at: Mapping[str, At]
) -> engine.Workload:
    """Return a workload as its attempt has it."""
    _, _, pool, _, running_at, checkpointed_at, _, _, phase = attempt
    return replace(
        workload,
        status=translate.PHASES[Phase(phase)],
        pool=pool,
        placements=translate.placements((pod, *at[device], share) for _, device, pod, share, _ in lying),
        started_at=milliseconds_of(running_at),
        checkpointed_at=milliseconds_of(checkpointed_at),
    )


def _stopping(attempts: Sequence[Columns], lie: Lying, at: Mapping[str, At]) -> tuple[engine.Workload, ...]:
    """Return what is being stopped, whole attempts or pods given up by a gang, each as a row of its own (1 query)."""
    wanted = asked.read([attempt[1] for attempt in attempts])
    return tuple(
        replace(
            _placed(
                wanted[attempt[1]].workload,
                attempt,
                [row for row in lie[attempt[0]] if row[4] == Hold.LEAVING],
                at,
            ),
            id=translate.stopping_id(attempt[1], attempt[7]),
            status=engine.Status.STOPPING,
        )
        for attempt in attempts
    )
