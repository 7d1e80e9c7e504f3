"""What one cycle looks at: the tables as one picture, read in a constant number of queries.

Only open workloads and attempts whose pods may still hold devices are read, both by partial indexes, so no
picture grows with history. Beside the engine's snapshot stand versions and ids that applying needs.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, TypeVar
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Count

from agentlink.models import Device, Hold, Node, Placement
from scheduling import translate
from scheduling.engine import types as engine
from scheduling.models import Clock
from scheduling.translate import Circumstances, Row
from scheduling.usage import decayed_usage
from teams.models import Fairness, Pool, Share, Team
from workloads.models import Attempt, Dependency, EndReason, Phase, Status, Workload
from workloads.models.workload import OPEN

logger = logging.getLogger(__name__)
In = TypeVar("In")
Out = TypeVar("Out")

PREEMPTIONS_COUNTED = timedelta(hours=24)
ASKED = (
    "id", "team_id", "priority", "pods", "min_pods", "gpu_milli", "gpu_memory_mib", "cpu_milli", "memory_mib",
    "gpu_types", "node_selector", "tolerations", "partition", "topology_required", "topology_preferred",
    "pool_choice", "time_limit_seconds", "on_preemption", "submitted_at", "held", "backoff_until",
)  # fmt: skip
FREE_FORM: dict[str, Any] = {"gpu_types": [], "node_selector": {}, "tolerations": [], "pool_choice": []}
"""Columns whose content no constraint vouches for, with what stands in for a content that cannot be read."""

Lying = Mapping[UUID, tuple[engine.PodPlacement, ...]]
"""Where the pods of attempts lie; an attempt without any has an empty tuple."""

UNREADABLE = (ValueError, TypeError, KeyError, AttributeError)


@dataclass(frozen=True, slots=True)
class Known:
    """An open workload's row when the picture was taken; applying checks that `version` still holds."""

    id: UUID
    version: int
    status: Status
    reason_code: str
    fail_if_impossible: bool
    attempt_id: UUID | None
    allocation: list[Any]


@dataclass(frozen=True, slots=True)
class Place:
    """A device's row, and the cluster it is in."""

    device_id: UUID
    cluster_id: UUID


@dataclass(frozen=True, slots=True)
class LeftAside:
    """A row that could not be read; the rest is decided without it."""

    kind: str
    id: str
    problem: str


@dataclass(frozen=True, slots=True)
class Picture:
    """The engine's snapshot, and what stands beside it in the tables.

    `rows` is keyed by the id of open workloads, `devices` by node id and device index.
    """

    cycle: int
    taken_at: datetime
    snapshot: engine.Snapshot
    rows: Mapping[str, Known]
    devices: Mapping[tuple[str, int], Place]
    left_aside: tuple[LeftAside, ...] = ()

    @property
    def now(self) -> int:
        """The moment of the picture as the engine counts it."""
        return translate.milliseconds(self.taken_at) or 0


def take(now: datetime) -> Picture:
    """Return the picture of this moment (13 queries, and one more where a pool's fairness is by usage)."""
    Clock.objects.get_or_create(pk=1)
    with _one_moment():
        return _Reading(now).picture()


@contextmanager
def _one_moment() -> Iterator[None]:
    """Have all queries inside see one state of the tables, whoever commits meanwhile."""
    outermost = not connection.in_atomic_block
    with transaction.atomic():
        if outermost and connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


class _Reading:
    """One reading of the tables, step by step."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.left_aside: list[LeftAside] = []
        self.devices: dict[tuple[str, int], Place] = {}

    def picture(self) -> Picture:
        """Read everything."""
        cycle = Clock.objects.values_list("cycle", flat=True).get(pk=1)
        pools = list(Pool.objects.all())
        shares = Share.objects.filter(team__archived_at__isnull=True)
        rules = {pool.pk: self._try("pool", pool.pk, attrgetter("rules"), pool) for pool in pools}
        by_usage = {key: read for key, read in rules.items() if read and read.fairness is Fairness.USAGE}
        usage = decayed_usage(by_usage, self.now) if by_usage else {}
        teams = translate.teams(Team.objects.all(), shares, usage)
        nodes = self._nodes()
        workloads, rows = self._workloads()
        snapshot = engine.Snapshot(translate.pools(pools, rules, workloads), teams, nodes, workloads)
        return Picture(cycle, self.now, snapshot, rows, self.devices, tuple(self.left_aside))

    def _nodes(self) -> tuple[engine.Node, ...]:
        devices: dict[UUID, list[Row]] = defaultdict(list)
        present = {"gone_at__isnull": True, "pool__isnull": False}
        fields = ("id", "node_id", "index", "gpu_type", "memory_mib", "foreign", "node__cluster_id")
        for device in Device.objects.filter(
            **{f"node__{key}": value for key, value in present.items()}
        ).values(*fields):
            devices[device["node_id"]].append(device)
            place = Place(device["id"], device["node__cluster_id"])
            self.devices[str(device["node_id"]), device["index"]] = place
        found = Node.objects.filter(**present).values(
            "id", "name", "pool_id", "cluster_id", "cluster__connected", "cpu_milli", "memory_mib",
            "labels", "taints", "partition", "ready", "cordoned", "sharing",
        )  # fmt: skip
        read = [
            self._try("node", row["id"], lambda row: translate.node(row, devices[row["id"]]), row)
            for row in found
        ]
        return tuple(node for node in read if node is not None)

    def _workloads(self) -> tuple[tuple[engine.Workload, ...], dict[str, Known]]:
        lying, leaving = self._placements()
        attempts = self._attempts()
        open_attempts = {row["workload_id"]: row for row in attempts if row["ended_at"] is None}
        circumstances = self._circumstances()
        read: list[engine.Workload | None] = []
        rows: dict[str, Known] = {}
        of_open = (*ASKED, "version", "status", "reason_code", "fail_if_impossible", "attempt_id")
        for row in Workload.objects.filter(status__in=OPEN).order_by().values(*of_open):
            attempt = open_attempts.get(row["id"])
            rows[str(row["id"])] = _known(row, attempt)
            around = circumstances.get(row["id"], Circumstances())
            if attempt is None:
                read.append(self._waiting(row, around))
            else:
                read.append(self._placed(row, attempt, lying[attempt["id"]], around))
        read += self._stopping([row for row in attempts if leaving[row["id"]]], leaving)
        return tuple(workload for workload in read if workload is not None), rows

    def _placements(self) -> tuple[Lying, Lying]:
        """Return where pods lie by attempt: those that stay or are to come, and those that are being stopped."""
        staying: dict[UUID, list[Row]] = defaultdict(list)
        leaving: dict[UUID, list[Row]] = defaultdict(list)
        fields = ("attempt_id", "pod_index", "share_milli", "hold", "device__node_id", "device__index")
        for row in Placement.objects.exclude(hold=Hold.RELEASED).order_by().values(*fields):
            (leaving if row["hold"] == Hold.LEAVING else staying)[row["attempt_id"]].append(row)
        return _lying(staying), _lying(leaving)

    def _attempts(self) -> list[Row]:
        fields = ("id", "number", "workload_id", "phase", "pool_id", "allocation")
        times = ("running_at", "checkpointed_at", "ended_at")
        return list(Attempt.objects.filter(released_at__isnull=True).order_by().values(*fields, *times))

    def _circumstances(self) -> dict[UUID, Circumstances]:
        """Return what dependencies and recent preemptions mean for each workload that has any."""
        needed: dict[UUID, set[str]] = defaultdict(set)
        pending = Dependency.objects.filter(workload__status=Status.PENDING)
        for workload, status in pending.values_list("workload_id", "needs__status"):
            needed[workload].add(status)
        recent = Attempt.objects.filter(
            end_reason=EndReason.PREEMPTED,
            ended_at__gt=self.now - PREEMPTIONS_COUNTED,
            workload__status__in=OPEN,
        )
        counts = dict(
            recent.order_by().values("workload_id").annotate(n=Count("id")).values_list("workload_id", "n")
        )
        return {
            workload: Circumstances(_dependency(needed.get(workload, set())), counts.get(workload, 0))
            for workload in needed.keys() | counts.keys()
        }

    def _waiting(self, row: Row, around: Circumstances) -> engine.Workload | None:
        return self._try("workload", row["id"], lambda row: translate.workload(row, around), row)

    def _placed(
        self, row: Row, attempt: Row, lying: tuple[engine.PodPlacement, ...], around: Circumstances
    ) -> engine.Workload | None:
        """Return a workload with an attempt. What it holds counts even where what it asks cannot be read."""
        base = self._waiting(row, around) or translate.workload({**row, **FREE_FORM}, around)
        return replace(
            base,
            status=translate.PHASES[Phase(attempt["phase"])],
            pool=str(attempt["pool_id"]),
            placements=lying,
            started_at=translate.milliseconds(attempt["running_at"]),
            checkpointed_at=translate.milliseconds(attempt["checkpointed_at"]),
        )

    def _stopping(self, attempts: list[Row], leaving: Lying) -> list[engine.Workload | None]:
        """Return what is being stopped, whole attempts or pods given up by a gang, each as a row of its own."""
        theirs = Workload.objects.filter(attempts__in=[attempt["id"] for attempt in attempts])
        asked = {row["id"]: row for row in theirs.order_by().values(*ASKED)}
        read = []
        for attempt in attempts:
            row = asked[attempt["workload_id"]]
            placed = self._placed(row, attempt, leaving[attempt["id"]], Circumstances())
            name = translate.stopping_id(attempt["workload_id"], attempt["number"])
            read.append(placed and replace(placed, id=name, status=engine.Status.STOPPING))
        return read

    def _try(self, kind: str, key: UUID, read: Callable[[In], Out], source: In) -> Out | None:
        """Return what `read` makes of the source; None, and a note, where it cannot be read."""
        try:
            return read(source)
        except UNREADABLE as error:
            logger.error("The %s %s cannot be read and is left aside: %r", kind, key, error)
            self.left_aside.append(LeftAside(kind, str(key), repr(error)))
            return None


def _lying(found: Mapping[UUID, list[Row]]) -> Lying:
    return defaultdict(tuple, {attempt: translate.placements(rows) for attempt, rows in found.items()})


def _known(row: Row, attempt: Row | None) -> Known:
    return Known(
        id=row["id"],
        version=row["version"],
        status=Status(row["status"]),
        reason_code=row["reason_code"],
        fail_if_impossible=row["fail_if_impossible"],
        attempt_id=row["attempt_id"],
        allocation=[] if attempt is None else attempt["allocation"],
    )


def dependency_of(slugs: Sequence[str]) -> engine.Dependency:
    """Return what the workloads of these slugs mean for one that needs them (1 query, none for no slug)."""
    if not slugs:
        return engine.Dependency.NONE
    return _dependency(set(Workload.objects.filter(slug__in=slugs).values_list("status", flat=True)))


def _dependency(needed: set[str]) -> engine.Dependency:
    """Return what the statuses of those it needs mean: one that ended otherwise than Completed spoils it."""
    left = needed - {Status.COMPLETED}
    if not left:
        return engine.Dependency.NONE
    return engine.Dependency.WAITING if left <= set(OPEN) else engine.Dependency.FAILED
