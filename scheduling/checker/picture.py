"""Snapshot and plan laid over each other: what becomes of every workload."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from scheduling.checker.hierarchy import Hierarchy, Quotas
from scheduling.checker.violation import BrokenRule, Violation, broken
from scheduling.engine.model.plan import Allocation, Plan, Preemption, Reason, Shrink, Start
from scheduling.engine.model.snapshot import PLACED, OpenStatus, PodPlacement, Snapshot, WorkloadInfo


class Action(StrEnum):
    """What a plan can do with a workload."""

    START = "start"
    GROW = "grow"
    KEEP = "keep"
    SHRINK = "shrink"
    PREEMPT = "preempt"
    WAIT = "wait"
    END = "end"


PLACED_ACTIONS = frozenset({Action.GROW, Action.KEEP, Action.SHRINK, Action.PREEMPT})
ACTIONS = {
    OpenStatus.PENDING: frozenset({Action.START, Action.WAIT, Action.END}),
    OpenStatus.STOPPING: frozenset({Action.KEEP}),
    **dict.fromkeys(PLACED, PLACED_ACTIONS),
}


@dataclass(frozen=True, slots=True)
class Fate:
    """One workload under the plan: the pods it keeps, those it gets, those it gives up."""

    workload: WorkloadInfo
    action: Action
    pool: str | None
    kept: tuple[PodPlacement, ...] = ()
    new: tuple[PodPlacement, ...] = ()
    lost: tuple[PodPlacement, ...] = ()
    allocation: tuple[Allocation, ...] = ()
    reason: Reason | None = None

    @property
    def at_its_turn(self) -> tuple[PodPlacement, ...]:
        """What a newcomer gets when its turn comes: its minimum. The rest of a start's pods is growth."""
        pods = sorted(self.new, key=lambda pod: pod.pod_index)
        return tuple(pods[: self.workload.min_pods]) if self.action is Action.START else ()

    @property
    def grown(self) -> tuple[PodPlacement, ...]:
        """What it gets of what is idle when all turns are over."""
        return tuple(pod for pod in self.new if pod not in self.at_its_turn)

    @property
    def allocated(self) -> bool:
        """Whether it counts against its team after the plan."""
        return bool(self.kept or self.new) and self.workload.status is not OpenStatus.STOPPING

    @property
    def before_milli(self) -> int:
        """What counted against its team before the plan."""
        return milli_of(self.workload.placements) if self.workload.status in PLACED else 0

    @property
    def after_milli(self) -> int:
        """What counts against its team after the plan."""
        return milli_of((*self.kept, *self.new)) if self.allocated else 0


def milli_of(pods: tuple[PodPlacement, ...]) -> int:
    """What these pods hold."""
    return sum(pod.milli for pod in pods)


def malformed(snapshot: Snapshot, plan: Plan) -> Iterator[Violation]:
    """What makes a plan unreadable: a workload twice or not at all, an act that its status forbids, unknown rows."""
    workloads = {workload.id: workload for workload in snapshot.workloads}
    pools = {pool.id for pool in snapshot.pools}
    nodes = {node.id: node for node in snapshot.nodes}
    found: dict[str, list[Action]] = {id_: [] for id_ in workloads}
    for action, rows in _rows(plan):
        for id_ in rows:
            if id_ in found:
                found[id_].append(action)
            else:
                yield broken(BrokenRule.UNKNOWN_ROW, f"{id_} is none of the workloads.", workload=id_)
    for id_, actions in found.items():
        workload = workloads[id_]
        if not actions and workload.status is not OpenStatus.PENDING and workload.pool not in pools:
            continue
        if len(actions) != 1:
            text = f"{id_} stands {len(actions)} times in the plan."
            yield broken(BrokenRule.NOT_ONCE, text, workload=id_)
        for action in set(actions) - ACTIONS[workload.status]:
            text = f"{id_} is {workload.status}: {action} is nothing for it."
            yield broken(BrokenRule.WRONG_ACTION, text, workload=id_)
    placed = [(row.workload, row.placements) for row in plan.starts]
    placed += [(row.workload, row.placements) for row in plan.grows]
    for id_, placements in placed:
        for pod in placements:
            devices = {device.index for device in nodes[pod.node].devices} if pod.node in nodes else set()
            if not devices.issuperset(share.index for share in pod.devices):
                text = f"{id_} is placed on devices of {pod.node} that are not there."
                yield broken(BrokenRule.UNKNOWN_ROW, text, workload=id_, node=pod.node)


def _rows(plan: Plan) -> Iterator[tuple[Action, list[str]]]:
    yield Action.START, [row.workload for row in plan.starts]
    yield Action.GROW, [row.workload for row in plan.grows]
    yield Action.KEEP, [row.workload for row in plan.keeps]
    yield Action.SHRINK, [row.workload for row in plan.shrinks]
    yield Action.PREEMPT, [row.workload for row in plan.preemptions]
    yield Action.WAIT, [row.workload for row in plan.waits]
    yield Action.END, [row.workload for row in plan.expiries]


class Picture:
    """A snapshot and a well-formed plan for it, indexed."""

    def __init__(self, snapshot: Snapshot, plan: Plan, now: int) -> None:
        self.snapshot = snapshot
        self.plan = plan
        self.now = now
        self.workloads = {workload.id: workload for workload in snapshot.workloads}
        self.nodes = {node.id: node for node in snapshot.nodes}
        self.pools = {pool.id: pool for pool in snapshot.pools}
        self.hierarchy = Hierarchy(snapshot.teams)
        self.quotas = {pool: Quotas(self.hierarchy, pool) for pool in self.pools}
        self.starts = {start.workload: start for start in plan.starts}
        self.fates = {fate.workload.id: fate for fate in self._read()}

    def _read(self) -> Iterator[Fate]:
        plan, workloads = self.plan, self.workloads
        for start in plan.starts:
            workload = workloads[start.workload]
            yield Fate(
                workload,
                Action.START,
                start.pool,
                new=start.placements,
                allocation=start.allocation,
                reason=start.reason,
            )
        for grow in plan.grows:
            workload = workloads[grow.workload]
            yield Fate(
                workload,
                Action.GROW,
                grow.pool,
                workload.placements,
                grow.placements,
                allocation=grow.allocation,
            )
        for keep in plan.keeps:
            workload = workloads[keep.workload]
            yield Fate(
                workload,
                Action.KEEP,
                keep.pool,
                workload.placements,
                allocation=keep.allocation,
                reason=keep.reason,
            )
        for shrink in plan.shrinks:
            yield _shrunk(workloads[shrink.workload], shrink)
        for gone in plan.preemptions:
            workload = workloads[gone.workload]
            yield Fate(workload, Action.PREEMPT, gone.pool, lost=workload.placements, reason=gone.reason)
        for wait in plan.waits:
            yield Fate(workloads[wait.workload], Action.WAIT, wait.pool, reason=wait.reason)
        for expiry in plan.expiries:
            yield Fate(workloads[expiry.workload], Action.END, None, reason=expiry.reason)

    def in_pool(self, pool: str) -> list[Fate]:
        """Those that have, get or lose something in a pool, by id."""
        return sorted(
            (fate for fate in self.fates.values() if fate.pool == pool and fate.action is not Action.WAIT),
            key=lambda fate: fate.workload.id,
        )

    def guests(self, pool: str) -> list[WorkloadInfo]:
        """Those of other pools who lie on nodes that are this one's by now."""
        there = {node.id for node in self.nodes.values() if node.pool == pool}
        return [
            workload
            for workload in self.workloads.values()
            if workload.pool in self.pools
            and workload.pool != pool
            and any(pod.node in there for pod in workload.placements)
        ]

    def taken(self, start: Start) -> list[Preemption | Shrink]:
        """The rows of those who go, or shrink, for a newcomer first of all."""
        rows: list[Preemption | Shrink] = [*self.plan.preemptions, *self.plan.shrinks]
        return [row for row in rows if row.workload in start.victims]


def _shrunk(workload: WorkloadInfo, shrink: Shrink) -> Fate:
    kept = tuple(pod for pod in workload.placements if pod.pod_index not in shrink.pods)
    lost = tuple(pod for pod in workload.placements if pod.pod_index in shrink.pods)
    return Fate(
        workload,
        Action.SHRINK,
        shrink.pool,
        kept,
        lost=lost,
        allocation=shrink.allocation,
        reason=shrink.reason,
    )
