"""The open workloads of a picture, kept from one reading to the next: only what differs is turned into objects.

Their rows, attempts and placements are compared as the database sent them, by whole lines: what follows costs by what
has changed, not by how much there is. What a workload asks for (`requests`) is read only where its version was raised
by more than the steps of its status: every change of what it asks raises it too.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Count, F, QuerySet

from agentlink.models import Hold, Placement
from scheduling import engine
from scheduling.reading import cluster_nodes, data_sets, requests, translate
from scheduling.reading.cluster_nodes import ID, At, Fleet
from scheduling.reading.picture import KnownWorkload, LeftAside
from scheduling.reading.requests import NOTHING, RequestRow
from scheduling.reading.rows import Lines, Quoted, as_lines, ids, json_of, milliseconds_of, or_empty, texts
from scheduling.reading.translate import Circumstances
from workloads import needs
from workloads.models import Attempt, Dependency, EndReason, Phase, Status, Workload
from workloads.models.workload import OPEN
from workloads.needs import NeedOutcome

PREEMPTIONS_COUNTED = timedelta(hours=24)
STEPS: dict[str, int] = {status.value: number for number, status in enumerate(OPEN)}
"""How many steps from its submission a status is."""

Row = list[str]
"""The columns of a line."""
Rows = Mapping[str, Row]
"""Rows by their first column."""
Lying = Mapping[str, Sequence[Row]]
"""Where the pods of attempts lie, by attempt: attempt, device, pod index, share, hold."""


@dataclass(frozen=True, slots=True)
class OpenWorkloads:
    """The open workloads, as they were read and what was made of them, by id; `stopping` is what is being stopped.

    `seen` are the lines of open workloads, of attempts and of where their pods lie. `workloads` has those that can be
    read, `known` all.
    """

    seen: tuple[Lines, Lines, Lines] = (frozenset(), frozenset(), frozenset())
    open: Rows = field(default_factory=dict)
    attempts: Rows = field(default_factory=dict)
    around: Mapping[str, Circumstances] = field(default_factory=dict)
    asked: Mapping[str, RequestRow] = field(default_factory=dict)
    known: Mapping[str, KnownWorkload] = field(default_factory=dict)
    workloads: Mapping[str, engine.WorkloadInfo] = field(default_factory=dict)
    stopping: tuple[engine.WorkloadInfo, ...] = ()

    @property
    def problems(self) -> list[LeftAside]:
        """Return what of them cannot be read."""
        return [each.problem for each in self.asked.values() if each.problem is not None]


class OpenRows(NamedTuple):
    """The open workloads' lines and rows, and the rows that came or went since they were read before."""

    lines: Lines
    rows: Rows
    stepped: list[Row]


def opened(before: OpenWorkloads, lines: Lines) -> OpenRows:
    """Return the open workloads of these lines, compared with those before."""
    return OpenRows(lines, *_brought_up_to(lines, before.seen[0], before.open))


def read(
    before: OpenWorkloads, opened: OpenRows, present: Lines, lying: Lines, *, nodes: Fleet, now: datetime
) -> OpenWorkloads:
    """Return the open workloads as the tables have them now: `present` are the attempts, `lying` where their pods lie
    (at most 6 queries, 9 where data is mounted).
    """
    seen, rows, stepped = (opened.lines, present, lying), opened.rows, opened.stepped
    attempts, went_on = _brought_up_to(present, before.seen[1], before.attempts)
    around = _circumstances(now)
    placed = {each[1]: each for each in attempts.values() if not each[6]}
    moved = {line[:ID] for line in lying ^ before.seen[2]}
    other = _differing(before.around, around)
    other |= {row[0] for row in stepped}
    other |= {row[1] for row in went_on if not row[6]}
    other |= {attempts[key][1] for key in moved if key in attempts and not attempts[key][6]}
    leaving = {line[:ID] for line in lying if line.endswith(Hold.LEAVING)}
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
    stopping = _stopping([attempts[key] for key in leaving if key in attempts], asks, lie, at)
    return OpenWorkloads(seen, rows, attempts, around, asks, known, workloads, stopping)


def open_lines() -> QuerySet[Workload]:
    """Return the open workloads as lines: id, version, status, reason."""
    found = Workload.objects.filter(status__in=OPEN)
    return as_lines(found, *ids("id"), F("version"), F("status"), Quoted(F("reason_code")))


def attempt_lines() -> QuerySet[Attempt]:
    """Return the attempts whose pods may still hold devices as lines: id, workload, pool, allocation, three times,
    number, phase, end reason, which an open one has that was displaced.
    """
    found = Attempt.objects.filter(released_at__isnull=True)
    times = or_empty("running_at", "checkpointed_at", "ended_at")
    last = (F("number"), F("phase"), F("end_reason"))
    columns = (*ids("id", "workload_id", "pool_id"), *texts("allocation"), *times, *last)
    return as_lines(found, *columns)


def lying_lines() -> QuerySet[Placement]:
    """Return where pods lie, or are to lie, as lines: attempt, device, pod index, share, hold."""
    found = Placement.objects.exclude(hold=Hold.RELEASED)
    return as_lines(found, *ids("attempt_id", "device_id"), F("pod_index"), F("share_milli"), F("hold"))


def _brought_up_to(now: Lines, before: Lines, rows: Rows) -> tuple[Rows, list[Row]]:
    """Return the rows of these lines, from those of the lines before, and the ones that came or went: only they are
    split.
    """
    gone = [line.split("\t") for line in before - now]
    come = [line.split("\t") for line in now - before]
    there = dict(rows)
    for row in gone:
        del there[row[0]]
    there.update((row[0], row) for row in come)
    return there, gone + come


def _circumstances(now: datetime) -> dict[str, Circumstances]:
    """Return what dependencies, recent preemptions and data mean for each workload that has any (3 queries, 1 more
    where some start after arrays, 3 more where data is mounted).
    """
    needed: dict[str, set[NeedOutcome]] = defaultdict(set)
    pending = Dependency.objects.filter(workload__status=Status.PENDING).order_by()
    after_arrays: list[tuple[str, str, UUID]] = []
    rows = pending.values_list(*ids("workload_id"), "kind", "needs__status", "needs_array")
    for workload, kind, status, array in rows:
        if array is None:
            needed[workload].add(needs.outcome(kind, (status,)))
        else:
            after_arrays.append((workload, kind, array))
    statuses = needs.statuses_of({array for _, _, array in after_arrays})
    outcomes = {
        (kind, array): needs.outcome(kind, statuses[array])
        for kind, array in {row[1:] for row in after_arrays}
    }
    for workload, kind, array in after_arrays:
        needed[workload].add(outcomes[kind, array])
    recent = Attempt.objects.filter(
        end_reason=EndReason.PREEMPTED, ended_at__gt=now - PREEMPTIONS_COUNTED, workload__status__in=OPEN
    )
    counted = recent.order_by().values("workload_id").annotate(n=Count("id")).values_list("workload_id", "n")
    counts = {str(workload): count for workload, count in counted}
    data = data_sets.of_open()
    return {
        workload: Circumstances(
            dependency_on(needed.get(workload, set())), counts.get(workload, 0), data.get(workload, ())
        )
        for workload in needed.keys() | counts.keys() | data.keys()
    }


def dependency_on(needed: Collection[NeedOutcome]) -> engine.DependencyState:
    """Return what all that it needs means together: what will never be met spoils it."""
    if NeedOutcome.NEVER in needed:
        return engine.DependencyState.FAILED
    return engine.DependencyState.WAITING if NeedOutcome.WAITING in needed else engine.DependencyState.NONE


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """Return the keys under which something else stands now, or nothing any more."""
    return {key for key, value in now.items() if before.get(key) != value} | (before.keys() - now.keys())


def _by_attempt(lying: Lines, wanted: Set[str]) -> Lying:
    """Return where the pods of these attempts lie."""
    found: dict[str, list[Row]] = defaultdict(list)
    for line in lying:
        if line[:ID] in wanted:
            found[line[:ID]].append(line.split("\t"))
    return found


def _places(nodes: Fleet, lie: Lying) -> Mapping[str, At]:
    """Return where all devices are that pods hold (1 query where one is of no node that is there)."""
    elsewhere = cluster_nodes.places_of({row[1] for rows in lie.values() for row in rows} - nodes.at.keys())
    return {**nodes.at, **elsewhere} if elsewhere else nodes.at


def _asks(before: OpenWorkloads, rows: Rows, other: Collection[str]) -> Mapping[str, RequestRow]:
    """Return what all open workloads ask for; `other` are those in which something is other than before (1 query)."""
    found = dict(before.asked)
    for key in other:
        if key not in rows or not _asks_the_same(before, rows[key]):
            found.pop(key, None)
    found.update(requests.read([key for key in other if key in rows and key not in found], of=len(rows)))
    return found


def _asks_the_same(before: OpenWorkloads, row: Row) -> bool:
    """Return whether nothing that it asks has changed: its version is the same, or was raised only by the steps that
    its status has taken since.
    """
    key, version, status, _ = row
    if key not in before.open:
        return False
    _, version_before, status_before, _ = before.open[key]
    steps = STEPS[status] - STEPS[status_before]
    stays = before.asked[key].stays_when_admitted
    return version == version_before or (int(version) == int(version_before) + steps and stays)


def _known(row: Row, attempt: Row | None, asking: RequestRow) -> KnownWorkload:
    _, version, status, reason_code = row
    return KnownWorkload(
        id=asking.id,
        version=int(version),
        status=Status(status),
        reason_code=json_of(reason_code),
        fail_if_impossible=asking.fail_if_impossible,
        attempt_id=None if attempt is None else UUID(attempt[0]),
        allocation=[] if attempt is None else json_of(attempt[3]),
    )


def _workload(
    asking: RequestRow, around: Circumstances, attempt: Row | None, lie: Lying, at: Mapping[str, At]
) -> engine.WorkloadInfo:
    workload = asking.workload
    if around is not NOTHING:
        workload = replace(
            workload,
            dependency=around.dependency,
            preemptions_24h=around.preemptions_24h,
            data=around.data,
        )
    if attempt is None:
        return workload
    return _placed(workload, attempt, [row for row in lie.get(attempt[0], ()) if row[4] != Hold.LEAVING], at)


def _placed(
    workload: engine.WorkloadInfo, attempt: Row, lying: Iterable[Row], at: Mapping[str, At]
) -> engine.WorkloadInfo:
    """Return a workload as its attempt has it. One that was displaced neither grows nor shrinks: it only waits for its
    pods to be known to be gone.
    """
    _, _, pool, _, running_at, checkpointed_at, ended_at, _, phase, end_reason = attempt
    placements = translate.placements(
        (int(pod), *at[device], int(share)) for _, device, pod, share, _ in lying
    )
    if end_reason and not ended_at:
        pods = max(1, len(placements))
        workload = replace(workload, pods=pods, min_pods=pods)
    return replace(
        workload,
        status=translate.PHASES[Phase(phase)],
        pool=pool,
        placements=placements,
        started_at=milliseconds_of(running_at),
        checkpointed_at=milliseconds_of(checkpointed_at),
    )


def _stopping(
    attempts: Sequence[Row], asks: Mapping[str, RequestRow], lie: Lying, at: Mapping[str, At]
) -> tuple[engine.WorkloadInfo, ...]:
    """Return what is being stopped, whole attempts or pods given up by a gang, each as a row of its own (1 query where
    it is of a workload that has ended).
    """
    ended = requests.read([attempt[1] for attempt in attempts if attempt[1] not in asks])
    wanted = {attempt[1]: asks.get(attempt[1]) or ended[attempt[1]] for attempt in attempts}
    return tuple(
        replace(
            _placed(
                wanted[attempt[1]].workload,
                attempt,
                [row for row in lie[attempt[0]] if row[4] == Hold.LEAVING],
                at,
            ),
            id=translate.stopping_id(attempt[1], int(attempt[7])),
            status=engine.OpenStatus.STOPPING,
        )
        for attempt in attempts
    )
