"""Reading what one cycle looks at; what has not changed since this process read last is not made anew.

Of each open workload the version is read, and the rest of its row only where that is another one: every change of
what it asks raises it. Of attempts, placements and nodes the columns are read and compared as the database sent them.
A reading that remembers nothing gives the same picture.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count

from agentlink.models import Hold, Placement
from scheduling import fleet, translate, typical
from scheduling.columns import ids, json_of, milliseconds_of, texts
from scheduling.engine import types as engine
from scheduling.fleet import UNREADABLE, At, Columns, Fleet
from scheduling.models import Clock
from scheduling.picture import Known, LeftAside, Picture
from scheduling.translate import Circumstances, Row
from scheduling.typical import Typical
from scheduling.usage import decayed_usage
from teams.models import Fairness, Pool, PoolPolicy, Share, Team
from workloads.models import Attempt, Dependency, EndReason, Phase, Status, Workload
from workloads.models.workload import OPEN

logger = logging.getLogger(__name__)

PREEMPTIONS_COUNTED = timedelta(hours=24)
ASKED = (
    "id", "team_id", "priority", "pods", "min_pods", "gpu_milli", "gpu_memory_mib", "cpu_milli", "memory_mib",
    "gpu_types", "node_selector", "tolerations", "partition", "topology_required", "topology_preferred",
    "pool_choice", "time_limit_seconds", "on_preemption", "submitted_at", "held", "backoff_until",
)  # fmt: skip
FREE_FORM: dict[str, Any] = {"gpu_types": [], "node_selector": {}, "tolerations": [], "pool_choice": []}
"""Columns whose content no constraint vouches for, with what stands in for a content that cannot be read."""
ASKED_BY_ID_UP_TO = 10_000
ASKED_BY_ID_PART = 0.5
"""If more of the rows are new, or so large a part of them, all open ones are read rather than those named by their
ids."""
TREE = ("id", "name", "parent_id", "bursting_priority", "burst_limit_percent", "maximum_milli")
SHARES = ("team_id", "pool_id", "reservation_milli", "maximum_milli")

NOTHING = Circumstances()
NOWHERE: list[Columns] = []
Lying = Mapping[str, list[Columns]]
"""Where the pods of attempts lie: pod index, device, share."""
Seen = tuple[Columns, Columns | None, list[Columns], Circumstances]
Tree = tuple[Sequence[Any], Sequence[Any]]
"""The rows of teams, and of their shares."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a workload of some version asks for, as the engine takes it while nothing else is known of it."""

    version: int
    workload: engine.Workload
    fail_if_impossible: bool
    problem: LeftAside | None


@dataclass(frozen=True, slots=True)
class _Row:
    """An open workload as it was read, and what was made of it."""

    seen: Seen
    asked: _Asked
    known: Known
    workload: engine.Workload | None


@dataclass(frozen=True, slots=True)
class Memory:
    """What a reading leaves to the next one."""

    rows: Mapping[str, _Row] = field(default_factory=dict)
    fleet: Fleet = field(default_factory=Fleet)
    tree: Tree = ((), ())
    teams: tuple[engine.Team, ...] = ()
    typical: Typical = field(default_factory=Typical)


class Reading:
    """One reading of the tables, step by step; `left` is what it leaves to the next."""

    def __init__(self, now: datetime, before: Memory) -> None:
        self.now, self.before, self.left = now, before, before
        self.left_aside: list[LeftAside] = []

    def picture(self) -> Picture:
        """Read everything."""
        cycle = Clock.objects.values_list("cycle", flat=True).get(pk=1)
        pools = list(Pool.objects.all())
        rules = {pool.pk: self._rules(pool) for pool in pools}
        by_usage = {key: read for key, read in rules.items() if read and read.fairness is Fairness.USAGE}
        usage = decayed_usage(by_usage, self.now) if by_usage else {}
        tree, teams = self._teams(usage)
        nodes = fleet.read(self.before.fleet)
        attempts = self._attempts()
        staying, leaving, at = self._placements(nodes)
        rows = self._rows({each[1]: each for each in attempts if each[6] is None}, staying, at)
        asked = typical.read(self.before.typical, self.now)
        self.left = Memory(rows, nodes, tree, teams, asked)
        self.left_aside += nodes.problems
        self.left_aside += [row.asked.problem for row in rows.values() if row.asked.problem is not None]
        workloads = (
            *(row.workload for row in rows.values() if row.workload is not None),
            *self._stopping([each for each in attempts if each[0] in leaving], leaving, at),
        )
        snapshot = engine.Snapshot(translate.pools(pools, rules, asked), teams, nodes.nodes, workloads)
        known = {key: row.known for key, row in rows.items()}
        return Picture(cycle, self.now, snapshot, known, nodes.devices, tuple(self.left_aside))

    def _rules(self, pool: Pool) -> PoolPolicy | None:
        try:
            return pool.rules
        except UNREADABLE as error:
            self.left_aside.append(_problem("pool", str(pool.pk), error))
            return None

    def _teams(self, usage: Mapping[tuple[str, str], int]) -> tuple[Tree, tuple[engine.Team, ...]]:
        """Return the tree's rows and what they mean; what they meant before where nothing changed and usage plays no
        part.
        """
        shares = Share.objects.filter(team__archived_at__isnull=True).order_by("pk")
        tree = (
            list(Team.objects.values_list(*TREE, named=True)),
            list(shares.values_list(*SHARES, named=True)),
        )
        if not usage and tree == self.before.tree:
            return self.before.tree, self.before.teams
        teams = translate.teams(*tree, usage)
        return ((), ()) if usage else tree, teams

    def _attempts(self) -> list[Columns]:
        """Return the attempts whose pods may still hold devices: id, workload, pool, allocation, three times, number,
        phase.
        """
        found = Attempt.objects.filter(released_at__isnull=True).order_by()
        times = ("running_at", "checkpointed_at", "ended_at")
        columns: Columns = (
            *ids("id", "workload_id", "pool_id"),
            *texts("allocation", *times),
            "number",
            "phase",
        )
        return list(found.values_list(*columns))

    def _placements(self, nodes: Fleet) -> tuple[Lying, Lying, Mapping[str, At]]:
        """Return where pods lie by attempt, those that stay or are to come and those that are being stopped, and
        where the devices are.
        """
        staying: dict[str, list[Columns]] = defaultdict(list)
        leaving: dict[str, list[Columns]] = defaultdict(list)
        found = Placement.objects.exclude(hold=Hold.RELEASED).order_by()
        columns: Columns = (*ids("attempt_id", "device_id"), "pod_index", "share_milli", "hold")
        for attempt, device, pod, share, hold in found.values_list(*columns):
            (leaving if hold == Hold.LEAVING else staying)[attempt].append((pod, device, share))
        lying = {device for rows in (*staying.values(), *leaving.values()) for _, device, _ in rows}
        elsewhere = fleet.places_of(lying - nodes.at.keys())
        return staying, leaving, {**nodes.at, **elsewhere} if elsewhere else nodes.at

    def _circumstances(self) -> dict[str, Circumstances]:
        """Return what dependencies and recent preemptions mean for each workload that has any."""
        needed: dict[str, set[str]] = defaultdict(set)
        pending = Dependency.objects.filter(workload__status=Status.PENDING).order_by()
        for workload, status in pending.values_list(*ids("workload_id"), "needs__status"):
            needed[workload].add(status)
        recent = Attempt.objects.filter(
            end_reason=EndReason.PREEMPTED,
            ended_at__gt=self.now - PREEMPTIONS_COUNTED,
            workload__status__in=OPEN,
        )
        counted = (
            recent.order_by().values("workload_id").annotate(n=Count("id")).values_list("workload_id", "n")
        )
        counts = {str(workload): count for workload, count in counted}
        return {
            workload: Circumstances(dependency_on(needed.get(workload, set())), counts.get(workload, 0))
            for workload in needed.keys() | counts.keys()
        }

    def _rows(self, attempts: Mapping[str, Columns], staying: Lying, at: Mapping[str, At]) -> dict[str, _Row]:
        """Return the open workloads, by id; `attempts` are their open ones, by workload."""
        before, circumstances = self.before.rows, self._circumstances()
        found = Workload.objects.filter(status__in=OPEN).order_by()
        light = list(found.values_list(*ids("id"), "version", "status", "reason_code"))
        new = [row[0] for row in light if (was := before.get(row[0])) is None or was.asked.version != row[1]]
        asked = self._asked(new, of=len(light))
        rows: dict[str, _Row] = {}
        for row in light:
            key = row[0]
            attempt = attempts.get(key)
            lying = NOWHERE if attempt is None else staying.get(attempt[0], NOWHERE)
            seen = (row, attempt, lying, circumstances.get(key, NOTHING))
            was = before.get(key)
            if was is None or was.seen != seen:
                rows[key] = _row(seen, asked.get(key) or before[key].asked, at)
            else:
                rows[key] = was
        return rows

    def _asked(self, new: Sequence[str], *, of: int | None = None) -> dict[str, _Asked]:
        """Return what these workloads ask for (1 query, none for no workload); where they are many `of` so many open
        ones, what all of those ask for.
        """
        if not new:
            return {}
        few = of is None or len(new) <= min(ASKED_BY_ID_UP_TO, of * ASKED_BY_ID_PART)
        some = {"pk__in": [UUID(key) for key in new]} if few else {"status__in": OPEN}
        rows = Workload.objects.filter(**some).order_by().values(*ASKED, "version", "fail_if_impossible")
        return {str(row["id"]): _asked_by(row) for row in rows}

    def _stopping(
        self, attempts: Sequence[Columns], leaving: Lying, at: Mapping[str, At]
    ) -> list[engine.Workload]:
        """Return what is being stopped, whole attempts or pods given up by a gang, each as a row of its own."""
        asked = self._asked([attempt[1] for attempt in attempts])
        return [
            replace(
                _placed(asked[attempt[1]].workload, attempt, leaving[attempt[0]], at),
                id=translate.stopping_id(attempt[1], attempt[7]),
                status=engine.Status.STOPPING,
            )
            for attempt in attempts
        ]


def _asked_by(row: Row) -> _Asked:
    """Return what a workload asks for. What it holds counts even where some of that cannot be read."""
    problem = None
    try:
        workload = translate.workload(row, NOTHING)
    except UNREADABLE as error:
        problem = _problem("workload", str(row["id"]), error)
        workload = translate.workload({**row, **FREE_FORM}, NOTHING)
    return _Asked(row["version"], workload, row["fail_if_impossible"], problem)


def _row(seen: Seen, asked: _Asked, at: Mapping[str, At]) -> _Row:
    (key, version, status, reason_code), attempt, lying, around = seen
    workload = asked.workload
    if around is not NOTHING:
        workload = replace(workload, dependency=around.dependency, preemptions_24h=around.preemptions_24h)
    if attempt is not None:
        workload = _placed(workload, attempt, lying, at)
    known = Known(
        id=UUID(key),
        version=version,
        status=Status(status),
        reason_code=reason_code,
        fail_if_impossible=asked.fail_if_impossible,
        attempt_id=None if attempt is None else UUID(attempt[0]),
        allocation=[] if attempt is None else json_of(attempt[3]),
    )
    waits_unread = attempt is None and asked.problem is not None
    return _Row(seen, asked, known, None if waits_unread else workload)


def _placed(
    workload: engine.Workload, attempt: Columns, lying: Sequence[Columns], at: Mapping[str, At]
) -> engine.Workload:
    """Return a workload as its attempt has it."""
    _, _, pool, _, running_at, checkpointed_at, _, _, phase = attempt
    return replace(
        workload,
        status=translate.PHASES[Phase(phase)],
        pool=pool,
        placements=translate.placements((pod, *at[device], share) for pod, device, share in lying),
        started_at=milliseconds_of(running_at),
        checkpointed_at=milliseconds_of(checkpointed_at),
    )


def _problem(kind: str, key: str, error: Exception) -> LeftAside:
    """Return a note on what cannot be read, and log it."""
    logger.error("The %s %s cannot be read and is left aside: %r", kind, key, error)
    return LeftAside(kind, key, repr(error))


def dependency_on(needed: set[str]) -> engine.Dependency:
    """Return what the statuses of those it needs mean: one that ended otherwise than Completed spoils it."""
    left = needed - {Status.COMPLETED}
    if not left:
        return engine.Dependency.NONE
    return engine.Dependency.WAITING if left <= set(OPEN) else engine.Dependency.FAILED
