"""Who waits at the end: positions, reasons, start reservations, and nobody who would fit (sections 4, 6 and 9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from scheduling.checker.board import Board
from scheduling.checker.eligible import Admission, wishes_of
from scheduling.checker.picture import Action, Fate, Picture
from scheduling.checker.room import domain_of, lies_on_slices, sorts_of
from scheduling.checker.turns import Turns
from scheduling.checker.violation import BrokenRule, Violation, broken
from scheduling.engine.model.plan import ReasonCode, ReasonKind, StartReservation, Wait
from scheduling.engine.model.snapshot import OpenStatus, PodPlacement, Queueing, WorkloadInfo

KINDS = {
    ReasonCode.POOL_PAUSED: ReasonKind.ADMIN,
    ReasonCode.CLUSTER_OFFLINE: ReasonKind.ADMIN,
    ReasonCode.BURSTING_DISABLED: ReasonKind.ADMIN,
    ReasonCode.HELD: ReasonKind.CHANGE,
    ReasonCode.DEPENDENCY_FAILED: ReasonKind.CHANGE,
    ReasonCode.NO_MATCHING_GPU_TYPE: ReasonKind.CHANGE,
    ReasonCode.NO_MATCHING_NODES: ReasonKind.CHANGE,
    ReasonCode.LARGER_THAN_ANY_NODE: ReasonKind.CHANGE,
    ReasonCode.LARGER_THAN_POOL: ReasonKind.CHANGE,
    ReasonCode.TOPOLOGY_IMPOSSIBLE: ReasonKind.CHANGE,
    ReasonCode.EXCEEDS_RESERVATION: ReasonKind.CHANGE,
    ReasonCode.EXCEEDS_CEILING: ReasonKind.CHANGE,
}
"""Who can do something about it; all others are for time to solve."""
PLACE_CODES = frozenset(
    {
        ReasonCode.BEHIND_RESERVATION,
        ReasonCode.WAITING_FOR_TOPOLOGY,
        ReasonCode.FRAGMENTED,
        ReasonCode.WAITING_FOR_GPUS,
    }
)
NOBODY = frozenset[str]()


def broken_kinds(picture: Picture) -> Iterator[Violation]:
    """Reasons whose kind is not that of their code, or that say nothing."""
    for fate in picture.fates.values():
        reason = fate.reason
        if reason is not None and reason.kind is not KINDS.get(reason.code, ReasonKind.WAIT):
            text = f"{fate.workload.id} is told {reason.code} as {reason.kind}."
            yield broken(BrokenRule.REASON, text, workload=fate.workload.id)
        if reason is not None and not (reason.message and reason.next_step):
            text = f"{fate.workload.id} is told {reason.code} without a sentence or a next step."
            yield broken(BrokenRule.REASON, text, workload=fate.workload.id)
    for start in picture.plan.starts:
        told = start.reason is not None and start.reason.code is ReasonCode.WAITING_FOR_VICTIMS
        if told != start.waits_for_victims:
            text = f"{start.workload} starts with the reason {start.reason and start.reason.code}."
            yield broken(BrokenRule.REASON, text, workload=start.workload)


def broken_waiting(
    picture: Picture, admission: Admission, boards: dict[str, Board], turns: Turns
) -> Iterator[Violation]:
    """Every rule that is broken for those who wait when everything is carried out; ``boards`` are as before the
    plan."""
    turn = {workload.id: at for at, workload in enumerate(turns.order)}
    for pool, board in boards.items():
        queue = [wait for wait in picture.plan.waits if wait.pool == pool and wait.position is not None]
        yield from _positions(board, queue, turn)
        best_effort = board.pool.policy.queueing is Queueing.BEST_EFFORT_FIFO
        idle = best_effort or (turns.told and turns.heads[pool] is None)
        yield from End(picture, admission, board, queue).broken(idle=idle)


def _positions(board: Board, queue: list[Wait], turn: dict[str, int]) -> Iterator[Violation]:
    """Positions count from 1, in the order in which the turns came."""
    numbers = [wait.position for wait in queue]
    if numbers != list(range(1, len(queue) + 1)):
        yield broken(BrokenRule.POSITION, f"The positions are {numbers}.", pool=board.pool.id)
    known = [wait.workload for wait in queue if wait.workload in turn]
    for first, second in pairwise(known):
        if turn[first] > turn[second]:
            text = f"{first} stands before {second} in the queue of {board.pool.id}, which comes before it."
            yield broken(BrokenRule.ORDER, text, workload=first, workload2=second)


class End:
    """One pool when the plan is carried out."""

    def __init__(self, picture: Picture, admission: Admission, board: Board, queue: list[Wait]) -> None:
        self._picture = picture
        self._admission = admission
        self._board = board
        self._queue = queue
        self._policy = board.pool.policy
        found = [row for row in picture.plan.reservations if row.pool == board.pool.id]
        self._fitting: dict[tuple[object, ...], bool] = {}
        self._reservation: StartReservation | None = found[0] if found else None

    def broken(self, *, idle: bool) -> Iterator[Violation]:
        """What is wrong with the queue as it stays, and, where nothing is kept for anybody (``idle``), with what
        nobody grew into."""
        self._board.settle()
        waiting = [self._picture.workloads[wait.workload] for wait in self._queue]
        allowed = [each for each in waiting if self._allowed(each)]
        yield from self._head(allowed)
        for wait, workload in zip(self._queue, waiting, strict=True):
            yield from self._reason(wait, workload)
            yield from self._in_hours(workload, wait.eta.earliest)
        if self._policy.queueing is Queueing.STRICT_FIFO:
            allowed = allowed[:1]
        for workload in allowed:
            yield from self._fits(workload)
        if idle and not allowed and not self._board.pool.paused:
            self._board.grow()
            for fate in self._board.book.fates:
                yield from self._grows(fate)

    def _allowed(self, workload: WorkloadInfo) -> bool:
        return self._board.quota_allows(workload, self._board.asked(workload))

    def _head(self, allowed: list[WorkloadInfo]) -> Iterator[Violation]:
        """Under backfill the first one who lacks only a place has the start reservation, nobody else has one."""
        row, backfill = self._reservation, self._policy.queueing is Queueing.BACKFILL
        if row is None:
            if allowed and backfill:
                text = f"{allowed[0].id} lacks only a place in {self._board.pool.id}, but nothing is kept for it."
                yield broken(BrokenRule.START_RESERVATION, text, workload=allowed[0].id)
            return
        # Who comes after the head may have used up what its quota allowed it at its turn, but nobody before it.
        order = [wait.workload for wait in self._queue]
        before = order[: order.index(row.workload)] if row.workload in order else order
        ahead = [each.id for each in allowed if each.id in before]
        if not backfill or row.workload not in order or ahead:
            text = f"{row.workload} has the start reservation of {self._board.pool.id}, instead of {ahead}."
            yield broken(BrokenRule.START_RESERVATION, text, workload=row.workload)
        if row.at is not None and row.at < self._picture.now:
            text = f"{row.workload} is promised a start in the past."
            yield broken(BrokenRule.START_RESERVATION, text, workload=row.workload)
        yield from self._in_hours(self._picture.workloads[row.workload], row.at)

    def _in_hours(self, workload: WorkloadInfo, at: int | None) -> Iterator[Violation]:
        """Nobody is promised a start in hours that keep it out."""
        if at is not None and self._admission.is_shut_out(self._board.pool, workload, at):
            text = f"{workload.id} is to start at {at}, in peak hours of {self._board.pool.id}."
            yield broken(BrokenRule.PEAK_HOURS, text, workload=workload.id)

    def _fits(self, workload: WorkloadInfo) -> Iterator[Violation]:
        """Nobody waits who fits without keeping the head waiting."""
        row, barred = self._reservation, NOBODY
        if row is not None and row.workload != workload.id and not self._in_time(workload, row):
            barred = frozenset(row.nodes)
        board, level = self._board, workload.topology.required
        key = (workload.min_pods, bool(barred), *wishes_of(workload))
        if key not in self._fitting:
            most = board.later.most(board.pool, workload, level, barred)
            self._fitting[key] = most >= workload.min_pods
        if self._fitting[key]:
            text = f"{workload.id} waits in {board.pool.id}, although it fits beside everybody else."
            yield broken(BrokenRule.PASSED_OVER, text, workload=workload.id, pool=board.pool.id)

    def _in_time(self, workload: WorkloadInfo, row: StartReservation) -> bool:
        limit = workload.time_limit_ms
        limit = self._policy.default_time_limit_ms if limit is None else limit
        return limit is not None and row.at is not None and self._picture.now + limit <= row.at

    def _reason(self, wait: Wait, workload: WorkloadInfo) -> Iterator[Violation]:
        """The reason is true at the end of the plan, with its numbers."""
        code, asked = wait.reason.code, self._board.asked(workload)
        short = workload.reserved and self._board.charging.available(workload.team) < asked
        passed = bool(self._board.ceilings_passed(workload, asked, Counter()))
        true = {
            ReasonCode.WAITING_FOR_RESERVATION: short,
            ReasonCode.WAITING_FOR_CEILING: passed,
            ReasonCode.WAITING_FOR_TOPOLOGY: workload.topology.required is not None,
        }.get(code, code in PLACE_CODES)
        if code is ReasonCode.BEHIND_RESERVATION and self._policy.queueing is Queueing.BEST_EFFORT_FIFO:
            true = False
        if not true:
            text = f"{workload.id} is told {code}, which is not so."
            yield broken(BrokenRule.REASON, text, workload=workload.id)
        if wait.reason.asked_milli != asked:
            text = f"{workload.id} asks for {asked}, its reason says {wait.reason.asked_milli}."
            yield broken(BrokenRule.REASON, text, workload=workload.id)

    def _grows(self, fate: Fate) -> Iterator[Violation]:
        """Where nobody waits for a place, nobody lacks a pod for which there is an idle one."""
        workload, board = fate.workload, self._board
        pods = (*fate.kept, *fate.new)
        wants = fate.allocated and len(pods) < workload.pods and fate.action is not Action.SHRINK
        if workload.status in (OpenStatus.PENDING, OpenStatus.QUEUED) and board.now.short(workload, pods):
            wants = False  # Somebody still holds what it was given first.
        fit = self._admission.fit(board.pool, workload) if wants else None
        if fit is None or not fit.pod_milli or not board.quota_allows(workload, fit.pod_milli):
            return
        if board.now.most(board.pool, workload, None, self._outside(workload, pods)) >= 1:
            text = (
                f"{workload.id} has {len(pods)} of {workload.pods} pods, although one more fits on idle GPUs."
            )
            yield broken(BrokenRule.PASSED_OVER, text, workload=workload.id, pool=board.pool.id)

    def _outside(self, workload: WorkloadInfo, pods: tuple[PodPlacement, ...]) -> frozenset[str]:
        """The nodes that are not in the one domain in which its pods lie, or would give a gang that has GPUs slices."""
        board, level = self._board, workload.topology.required
        there = [board.now.nodes.get(pod.node) for pod in pods]
        domains = {domain_of(board.pool, node, level) if node else None for node in there}
        if len(domains) != 1:
            return frozenset(board.now.nodes)
        sliced = True in sorts_of(board.now.nodes, pods)
        return frozenset(
            node.id
            for node in board.now.nodes.values()
            if None in domains
            or domain_of(board.pool, node, level) not in domains
            or lies_on_slices(workload, node) not in (None, sliced)
        )
