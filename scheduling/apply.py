"""Writing a plan into the tables: all that still stands of it in one transaction, or nothing.

The transaction begins with the fence: raising the clock from the number the picture was taken at. Whoever
comes second has lost his turn. The number of queries does not depend on the number of decisions, but for the
batches in which a database takes rows, and a few for each gang that grows or shrinks.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from agentlink import assignments
from agentlink.assignments import NewAssignment
from chamber import live
from scheduling import narrate, turn
from scheduling.codec import encode_snapshot
from scheduling.decide import Decided
from scheduling.engine import types as engine
from scheduling.models import Clock, Cycle
from scheduling.settle import Standing, as_json, decisions_of, parts, settle, upkeep
from scheduling.signature import signature
from scheduling.tally import Tally, promises
from scheduling.told import pack, tell
from teams.actors import Actor
from workloads import lifecycle
from workloads.models import Attempt, Workload
from workloads.models.workload import RESERVED_FROM

logger = logging.getLogger(__name__)

SCHEDULER = Actor.system("scheduler")
SNAPSHOT_STORED_EVERY = timedelta(seconds=10)


class LostTurn(Exception):  # noqa: N818 - an outcome, not a fault
    """Another process applied a plan since the picture was taken: nothing of this one was written."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a plan."""

    number: int
    decisions: int
    left_out: int
    failed: int


def fence(cycle: int) -> int:
    """Take the turn after `cycle` and return its number; raise `LostTurn` where somebody else took it."""
    if Clock.objects.filter(pk=1, cycle=cycle).update(cycle=F("cycle") + 1) == 0:
        raise LostTurn(f"Somebody else has applied a plan since cycle {cycle}.")
    return cycle + 1


def apply(decided: Decided, *, piecemeal: bool = False) -> Applied:
    """Write what still stands of the plan, and the cycle's record; raise `LostTurn` with nothing written.

    `piecemeal`: each part that depends on no other is written by itself, and what the database refuses is left
    out; for the plan that could not be written as a whole.
    """
    packed = _packed(decided)  # before the transaction: nobody waits for the compression
    with transaction.atomic():
        number = fence(decided.picture.cycle)
        writing = _Writing(decided, number)
        standing = settle(decided.plan, writing.unchanged(piecemeal=piecemeal))
        undone = writing.write_parts(standing) if piecemeal else writing.write(standing)
        failed = writing.upkeep(standing.starts)
        applied = Applied(number, standing.decisions - undone, standing.left_out + undone, failed)
        _record(decided, applied, writing.tally, packed)
        if applied.decisions or standing.left_out or applied.failed:
            # A next cycle may do more: the preempted join the queue, who changed meanwhile is looked at again.
            live.ring()
    return applied


class _Packed(NamedTuple):
    """What is stored of a cycle: what its plan tells; its snapshot with what vouches for a replay, or neither."""

    told: bytes
    snapshot: bytes
    signature: dict[str, str]


def _packed(decided: Decided) -> _Packed:
    """Return what is stored of the plan, and of the snapshot: nothing, but where somebody yields and now and then.

    A snapshot is large, and what it explains is in the events; it is kept to replay what somebody may dispute.
    """
    plan, snapshot, at = decided.plan, decided.picture.snapshot, decided.picture.taken_at
    since = at - SNAPSHOT_STORED_EVERY
    disputed = bool(plan.preemptions or plan.shrinks)
    if (
        disputed
        or not Cycle.objects.filter(began_at__gt=since, began_at__lte=at).exclude(snapshot=b"").exists()
    ):
        return _Packed(pack(tell(plan, snapshot)), encode_snapshot(snapshot), signature(plan))
    return _Packed(pack(tell(plan, snapshot)), b"", {})


def _record(decided: Decided, applied: Applied, tally: Tally, packed: _Packed) -> None:
    """Store the cycle with its figures, what its plan tells, and the snapshot from which it can be replayed."""
    took = timezone.now() - decided.picture.taken_at
    Cycle.objects.create(
        number=applied.number,
        began_at=decided.picture.taken_at,
        took_ms=max(0, round(took.total_seconds() * 1000)),
        decide_ms=decided.decide_ms,
        ran_by=turn.me(),
        figures=figures(decided, applied) | {"tally": tally.as_json()} | packed.signature,
        plan=packed.told,
        snapshot=packed.snapshot,
        decisions=applied.decisions,
        left_out=applied.left_out,
    )


class _Found(NamedTuple):
    """What a locked workload's row says: its version, and what the tally tells of a start."""

    version: int
    status_since: datetime
    priority: int
    job_class: str


class _Writing:
    """One plan being written, in the caller's transaction."""

    def __init__(self, decided: Decided, number: int) -> None:
        self.picture, self.plan, self.number = decided.picture, decided.plan, number
        self.names = narrate.Names.of(self.picture.snapshot)
        self.placements = {workload.id: workload.placements for workload in self.picture.snapshot.workloads}
        self.at = timezone.now()
        self.found: dict[UUID, _Found] = {}
        self.tally = Tally()

    def unchanged(self, *, piecemeal: bool) -> Callable[[str], bool]:
        """Lock the rows that the plan is about, those who yield and their clusters among them; return which of those
        that it changes are still as the picture has them (at most 3 queries).

        All of each kind at once, in the order in which everybody locks (ADR 5). Where workloads only start, and all
        together, their clusters are left to `assign_many`: what agents report waits for that lock.
        """
        plan, rows = self.plan, self.picture.rows
        changing = {decision.workload for decision in decisions_of(plan)}
        ids = [rows[key].id for key in changing | {preemption.by for preemption in plan.preemptions}]
        wanted = Workload.objects.select_for_update().filter(pk__in=ids)
        fields = ("version", "status_since", "priority", "job_class")
        self.found = {key: _Found(*row) for key, *row in wanted.order_by("pk").values_list("pk", *fields)}
        if piecemeal or plan.preemptions or plan.shrinks or plan.grows:
            assignments.lock_clusters(self._clusters(changing))
        versions = {key: found.version for key, found in self.found.items()}
        same = {key for key in changing if versions.get(rows[key].id) == rows[key].version}
        return same.__contains__

    def _clusters(self, changing: Collection[str]) -> set[UUID]:
        """Return the clusters where these workloads lie or are to lie."""
        placed: list[engine.Start | engine.Grow] = [*self.plan.starts, *self.plan.grows]
        lying = [pod for decision in placed for pod in decision.placements]
        lying += [pod for key in changing for pod in self.placements[key]]
        devices = (self.picture.devices.get((pod.node, pod.devices[0].index)) for pod in lying)
        return {device.cluster_id for device in devices if device is not None}

    def write(self, standing: Standing) -> int:
        """Write all of it; return how many decisions could not be."""
        self.yields(standing)
        admitted = self.starts(standing.starts)
        undone = len(standing.starts) - len(admitted) + self.grows(standing.grows)
        self.count(admitted, standing.preemptions)
        return undone

    def write_parts(self, standing: Standing) -> int:
        """Write each part by itself; return how many decisions could not be."""
        undone = 0
        for part in parts(standing):
            try:
                with transaction.atomic():
                    undone += self.write(part)
            except LostTurn:
                raise
            except Exception:
                logger.exception(
                    "This part of plan %s cannot be written and is left out: %s", self.number, part
                )
                undone += part.decisions
        return undone

    def yields(self, standing: Standing) -> None:
        """Preempt and shrink."""
        orders = [self._order(preemption) for preemption in standing.preemptions]
        if orders and len(lifecycle.preempt_many(orders, by=SCHEDULER, at=self.at)) < len(orders):
            raise LostTurn("A workload that was to be preempted changed while its row was locked.")
        for shrink in standing.shrinks:
            self._shrink(shrink)

    def starts(self, starts: Sequence[engine.Start]) -> list[engine.Start]:
        """Admit who starts, and send where their pods lie to the clusters; return those for whom it could be done."""
        if not starts:
            return []
        admissions = [self._admission(start) for start in starts]
        attempts = lifecycle.admit_many(admissions, by=SCHEDULER, at=self.at)
        admitted = [(start, attempts.get(self.picture.rows[start.workload].id)) for start in starts]
        assignments.assign_many([self._assignment(start, attempt) for start, attempt in admitted if attempt])
        return [start for start, attempt in admitted if attempt]

    def grows(self, grows: Sequence[engine.Grow]) -> int:
        """Add pods to gangs; return to how many it could not be done."""
        undone = 0
        for grow in grows:
            attempt_id = self.picture.rows[grow.workload].attempt_id
            if attempt_id is None or not assignments.add_pods(attempt_id, self._pods(grow.placements)):
                undone += 1
                continue
            milli = sum(pod.milli for pod in (*self.placements[grow.workload], *grow.placements))
            self._resize(attempt_id, milli, grow.allocation, narrate.grown(grow, self.names))
        return undone

    def count(self, starts: Iterable[engine.Start], preemptions: Iterable[engine.Preemption]) -> None:
        """Add what was written to the cycle's tally."""
        for start in starts:
            found = self.found[self.picture.rows[start.workload].id]
            self.tally.started(
                start,
                waited_seconds=(self.at - found.status_since).total_seconds(),
                reserved=found.priority >= RESERVED_FROM,
                job_class=found.job_class,
            )
            late_seconds = promises.late_seconds(start.workload, self.at)
            if late_seconds is not None:
                self.tally.promised(late_seconds)
        for preemption in preemptions:
            self.tally.preempted(preemption)

    def upkeep(self, starts: Sequence[engine.Start]) -> int:
        """Store charges and reasons that differ, and end who is given up; return how many ended."""
        changes = upkeep(self.picture, self.plan)
        lifecycle.recharge(changes.charges)
        rows = self.picture.rows
        waiting = {rows[start.workload].id: start.reason.code.value for start in starts if start.reason}
        lifecycle.set_reasons(changes.reasons | waiting)
        if not changes.failures:
            return 0
        return len(lifecycle.fail_waiting(changes.failures, by=SCHEDULER, at=self.at))

    def _order(self, preemption: engine.Preemption) -> lifecycle.PreemptionOrder:
        row = self.picture.rows[preemption.workload]
        return lifecycle.PreemptionOrder(
            workload_id=row.id,
            version=row.version,
            message=preemption.reason.message,
            by_workload_id=self.picture.rows[preemption.by].id,
            rule=preemption.rule.value,
            level=self.names.level(preemption.level),
            data={
                "cycle": self.number,
                "gpus_milli": preemption.milli,
                "lost_gpu_ms": preemption.lost_gpu_ms,
            },
        )

    def _shrink(self, shrink: engine.Shrink) -> None:
        row = self.picture.rows[shrink.workload]
        if row.attempt_id is None:
            return
        left = [pod for pod in self.placements[shrink.workload] if pod.pod_index not in shrink.pods]
        assignments.remove_pods(row.attempt_id, shrink.pods)
        self._resize(row.attempt_id, sum(pod.milli for pod in left), shrink.allocation, shrink.reason.message)

    def _resize(
        self, attempt_id: UUID, milli: int, allocation: Sequence[engine.Allocation], message: str
    ) -> None:
        lifecycle.resize(
            attempt_id,
            gpus_milli=milli,
            allocation=as_json(allocation),
            message=message,
            by=SCHEDULER,
            at=self.at,
            data={"cycle": self.number},
        )

    def _admission(self, start: engine.Start) -> lifecycle.Admission:
        row, promised = self.picture.rows[start.workload], promises.of(start.workload)
        data = {"cycle": self.number, "nodes": sorted({pod.node for pod in start.placements})}
        return lifecycle.Admission(
            workload_id=row.id,
            version=row.version,
            pool_id=UUID(start.pool),
            allocation=as_json(start.allocation),
            gpus_milli=sum(pod.milli for pod in start.placements),
            message=narrate.started(start, self.names),
            data=data | {"eta": promised.isoformat()} if promised else data,
        )

    def _assignment(self, start: engine.Start, attempt: Attempt) -> NewAssignment:
        first = start.placements[0]
        place = self.picture.devices[first.node, first.devices[0].index]
        return NewAssignment(
            attempt_id=attempt.pk,
            cluster_id=place.cluster_id,
            placements=self._pods(start.placements),
        )

    def _pods(self, placements: Iterable[engine.PodPlacement]) -> list[tuple[int, UUID, int]]:
        """Return (pod index, device, share) of each device share."""
        devices = self.picture.devices
        return [
            (pod.pod_index, devices[pod.node, share.index].device_id, share.milli)
            for pod in placements
            for share in pod.devices
        ]


def figures(decided: Decided, applied: Applied) -> dict[str, Any]:
    """Return what is kept of a cycle to be read without replaying it."""
    plan = decided.plan
    return {
        "starts": len(plan.starts),
        "grows": len(plan.grows),
        "shrinks": len(plan.shrinks),
        "preemptions": len(plan.preemptions),
        "failed": applied.failed,
        "waiting": dict(Counter(wait.reason.code.value for wait in plan.waits)),
        "pools": [asdict(pool) for pool in plan.pools],
        "teams": [asdict(team) for team in plan.teams],
        "findings": [asdict(finding) for finding in plan.findings],
        "left_aside": [asdict(row) for row in decided.picture.left_aside],
    }
