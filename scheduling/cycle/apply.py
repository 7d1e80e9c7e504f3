"""Writing a plan's decisions into the tables: all that still stand in one transaction, or nothing.

The transaction begins with the fence: raising the clock from the number the picture was taken at. Whoever
comes second has lost its turn. The number of queries does not depend on the number of decisions, but for the
batches in which a database takes rows, and a few for each gang that grows or shrinks.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from agentlink import assignments
from agentlink.assignments import ClusterReleased, NewAssignment
from chamber import live
from scheduling import engine
from scheduling.cycle import lease
from scheduling.cycle.decide import Decided
from scheduling.cycle.still_valid import ValidDecisions, as_json, decisions_of, parts, settle
from scheduling.cycle.totals import CycleTally, promises
from scheduling.explain import plan_text
from scheduling.models import Clock, Cycle
from scheduling.reading import device_sharing
from teams.actors import Actor
from workloads import lifecycle
from workloads.models import Workload

logger = logging.getLogger(__name__)

SCHEDULER = Actor.system("scheduler")


class LostTurn(Exception):  # noqa: N818 - an outcome, not a fault
    """Another process applied a plan since the picture was taken: nothing of this one was written."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a plan's decisions. `figures` are those that are stored with the cycle so far."""

    number: int
    decisions: int = 0
    left_out: int = 0
    figures: Mapping[str, Any] = field(default_factory=dict)


def fence(cycle: int) -> int:
    """Take the turn after `cycle` and return its number; raise `LostTurn` if another process took it."""
    if Clock.objects.filter(pk=1, cycle=cycle).update(cycle=F("cycle") + 1) == 0:
        raise LostTurn(f"Somebody else has applied a plan since cycle {cycle}.")
    return cycle + 1


def apply(decided: Decided, *, piecemeal: bool = False) -> Applied:
    """Write what still stands of the decisions, and the cycle's record; raise `LostTurn` with nothing written.

    `piecemeal`: each part that depends on no other is written by itself, and what the database refuses is left
    out; for the plan that could not be written as a whole.
    """
    with transaction.atomic():
        number = fence(decided.picture.cycle)
        writing = _Writing(decided, number)
        unchanged = writing.unchanged(piecemeal=piecemeal)
        waits = device_sharing.to_wait(decided.plan, decided.picture.snapshot)
        standing = settle(decided.plan, lambda workload: workload not in waits and unchanged(workload))
        undone = writing.write_parts(standing) if piecemeal else writing.write(standing)
        applied = record(
            decided, number, standing.decisions - undone, standing.left_out + undone, tally=writing.tally
        )
        if applied.decisions or standing.left_out:
            # A next cycle may do more: victims join the queue, and what changed meanwhile is looked at again.
            live.ring()
    return applied


def record(
    decided: Decided, number: int, decisions: int = 0, left_out: int = 0, *, tally: CycleTally | None = None
) -> Applied:
    """Store a cycle with what it decided and what became of that; `scheduling.cycle.tell` adds what its plan tells."""
    plan, began_at = decided.plan, decided.picture.taken_at
    figures = {
        "starts": len(plan.starts),
        "grows": len(plan.grows),
        "shrinks": len(plan.shrinks),
        "preemptions": len(plan.preemptions),
        "tally": tally.as_json() if tally else [],
    }
    Cycle.objects.create(
        number=number,
        began_at=began_at,
        took_ms=max(0, round((timezone.now() - began_at).total_seconds() * 1000)),
        decide_ms=decided.decide_ms,
        ran_by=lease.me(),
        figures=figures,
        plan=b"",
        snapshot=b"",
        decisions=decisions,
        left_out=left_out,
    )
    return Applied(number, decisions, left_out, figures)


class _Writing:
    """One plan being written, in the caller's transaction."""

    def __init__(self, decided: Decided, number: int) -> None:
        self.picture, self.plan, self.number = decided.picture, decided.plan, number
        self.names = plan_text.PlanNames.of(self.picture.snapshot)
        self.pools = {pool.id: UUID(pool.id) for pool in self.picture.snapshot.pools}
        self.placements = {workload.id: workload.placements for workload in self.picture.snapshot.workloads}
        self.at = timezone.now()
        self.starting: dict[UUID, lifecycle.Row] = {}
        self.yielding: dict[UUID, Workload] = {}
        self.waited_since: dict[UUID, datetime] = {}
        self.tally = CycleTally()

    def unchanged(self, *, piecemeal: bool) -> Callable[[str], bool]:
        """Lock the rows that the plan is about, victims and their clusters among them; return which of those
        that it changes are still as the picture has them (at most 4 queries).

        All of each kind at once, in the order in which all locks are taken (ADR 5). Where workloads only start, and all
        together, their clusters are left to `assign_many`: what agents report waits for that lock. The victims of a
        preemption are read once more, as a whole; the preemptor is one row, whose events are counted on.
        """
        plan, rows = self.plan, self.picture.rows
        changing = {decision.workload for decision in decisions_of(plan)}
        about = {key for preemption in plan.preemptions for key in (preemption.workload, preemption.by)}
        locked = lifecycle.lock_waiting(rows[key].id for key in changing | about)
        self.waited_since = {key: row.waits_since for key, row in locked.items()}
        versions = {key: row.version for key, row in locked.items()}
        self.yielding = lifecycle.lock(rows[key].id for key in about) if about else {}
        self.starting = {**locked, **self.yielding}
        if piecemeal or plan.preemptions or plan.shrinks or plan.grows:
            assignments.lock_clusters(self._clusters(changing))
        same = {key for key in changing if versions.get(rows[key].id) == rows[key].version}
        return same.__contains__

    def _clusters(self, changing: Collection[str]) -> set[UUID]:
        """Return the clusters where these workloads lie or are to lie."""
        placed: list[engine.Start | engine.Grow] = [*self.plan.starts, *self.plan.grows]
        lying = [pod for decision in placed for pod in decision.placements]
        lying += [pod for key in changing for pod in self.placements[key]]
        devices = (self.picture.devices.get((pod.node, pod.devices[0].index)) for pod in lying)
        return {device.cluster_id for device in devices if device is not None}

    def write(self, standing: ValidDecisions) -> int:
        """Write all of it; return how many decisions could not be."""
        self.yields(standing)
        admitted = self.starts(standing.starts)
        undone = len(standing.starts) - len(admitted) + self.grows(standing.grows)
        self.tally.include(self._tally_of(admitted, standing.preemptions))
        return undone

    def write_parts(self, standing: ValidDecisions) -> int:
        """Write each part by itself; return how many decisions could not be."""
        undone = 0
        for part in parts(standing):
            try:
                with transaction.atomic():
                    undone += self.write(part)
            except LostTurn:
                raise
            except ClusterReleased as released:
                logger.info("A part of plan %s is left out. %s", self.number, released)
                undone += part.decisions
            except Exception:
                logger.exception(
                    "This part of plan %s cannot be written and is left out: %s", self.number, part
                )
                undone += part.decisions
        return undone

    def yields(self, standing: ValidDecisions) -> None:
        """Preempt and shrink."""
        orders = [self._order(preemption) for preemption in standing.preemptions]
        if orders and len(lifecycle.preempt_many(orders, by=SCHEDULER, at=self.at, rows=self.yielding)) < len(
            orders
        ):
            raise LostTurn("A workload that was to be preempted changed while its row was locked.")
        for shrink in standing.shrinks:
            self._shrink(shrink)

    def starts(self, starts: Sequence[engine.Start]) -> list[engine.Start]:
        """Admit what starts, and send the placement of its pods to the clusters; return those where that was done."""
        if not starts:
            return []
        admissions = [self._admission(start) for start in starts]
        attempts = lifecycle.admit_many(admissions, by=SCHEDULER, at=self.at, rows=self.starting)
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
            self._resize(attempt_id, milli, grow.allocation, plan_text.grown(grow, self.names))
        return undone

    def _tally_of(
        self, starts: Iterable[engine.Start], preemptions: Iterable[engine.Preemption]
    ) -> CycleTally:
        """Return the sums of these decisions."""
        tally = CycleTally()
        for start in starts:
            row = self.starting[self.picture.rows[start.workload].id]
            tally.started(
                start,
                waited_seconds=(self.at - self.waited_since[row.pk]).total_seconds(),
                reserved=row.is_reserved,
                job_class=row.job_class,
            )
            late_seconds = promises.late_seconds(start.workload, self.at)
            if late_seconds is not None:
                tally.promised(late_seconds)
        for preemption in preemptions:
            tally.preempted(preemption)
        return tally

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

    def _admission(self, start: engine.Start) -> lifecycle.PlannedStart:
        row, promised = self.picture.rows[start.workload], promises.of(start.workload)
        data = {"cycle": self.number, "nodes": sorted({pod.node for pod in start.placements})}
        return lifecycle.PlannedStart(
            workload_id=row.id,
            version=row.version,
            pool_id=self.pools[start.pool],
            allocation=as_json(start.allocation),
            gpus_milli=sum(pod.milli for pod in start.placements),
            message=plan_text.started(start, self.names),
            data=data | {"eta": promised.isoformat()} if promised else data,
            reason_code=start.reason.code.value if start.reason else "",
        )

    def _assignment(self, start: engine.Start, attempt: lifecycle.OpenedAttempt) -> NewAssignment:
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
