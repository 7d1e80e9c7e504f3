"""The way of attempts that go well, many at once: pods created, running, completed."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from chamber.bulk import update_each
from chamber.words import plural
from teams.actors import Actor
from workloads.lifecycle.journal import Journal
from workloads.lifecycle.status import change_status, lock
from workloads.lifecycle.steps import stop
from workloads.models import Attempt, EndReason, EventKind, Phase, Status, Workload
from workloads.quantities import gpus_text

STEPS = (Status.QUEUED, Status.STARTING, Status.RUNNING, Status.COMPLETED)
MESSAGES = {
    Status.STARTING: "Its pods are being created.",
    Status.RUNNING: "All its pods run.",
    Status.COMPLETED: "Completed.",
}
PLACED = ("pk", "placed_pods")
WRITTEN = ("phase", "starting_at", "running_at", "ended_at", "released_at", "end_reason", "exit_code")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an attempt has come, and when: what was reached without being told was reached at the next known time.

    `gone`: it completed, and no pod of it is left.
    """

    attempt_id: UUID
    created_at: datetime
    running_at: datetime | None = None
    completed_at: datetime | None = None
    gone: bool = False

    @property
    def goal(self) -> Status:
        """Return the status that this leads to."""
        if self.completed_at is not None:
            return Status.COMPLETED
        return Status.STARTING if self.running_at is None else Status.RUNNING


def progress_many(told: Sequence[Progress], *, by: Actor, at: datetime) -> set[UUID]:
    """Take admitted workloads forward, each step with its event; return the attempts that came further.

    Attempts that are over, or as far already, stay as they are. What is recorded is recorded `at`; the attempts keep
    the times that were told. A row that takes several steps is written once.
    """
    by_attempt = {progress.attempt_id: progress for progress in told}
    of_open = Attempt.objects.filter(pk__in=by_attempt, ended_at__isnull=True)
    locked = lock(of_open.values_list("workload", flat=True)).values()
    together: dict[tuple[tuple[Status, ...], bool], list[_Move]] = defaultdict(list)
    for row in locked:
        if row.attempt is not None and row.attempt.pk in by_attempt:
            move = _Move(row, row.attempt, by_attempt[row.attempt.pk])
            if move.steps:
                together[move.steps, move.told.gone].append(move)
    moves = [move for same in together.values() for move in same]
    placed = _placed_pods(moves)
    journal = Journal(by=by, at=at, rows=[move.row for move in moves])
    for (steps, gone), same in together.items():
        _change([move.row for move in same], steps, gone=gone, at=journal.at)
        for move in same:
            move.tell(steps, journal, placed.get(move.row.pk))
    update_each([move.attempt for move in moves], WRITTEN)
    ended = [move.attempt.pk for move in moves if move.attempt.ended_at is not None]
    journal.write(ring=bool(ended))
    left = {move.attempt.pk for move in moves if move.attempt.released_at is not None}
    stop(ended, at=journal.at, gone=left)
    return {move.attempt.pk for move in moves}


def _placed_pods(moves: "Sequence[_Move]") -> dict[UUID, int]:
    """Return how many pods those have that come to run and may have fewer than they ask for (1 query, none without
    any).
    """
    ids = [move.row.pk for move in moves if Status.RUNNING in move.steps and not move.row.is_gang]
    if not ids:
        return {}
    counted = Workload.objects.filter(pk__in=ids).order_by().with_placed_pods()
    return {pk: placed for pk, placed in counted.values_list(*PLACED) if placed}


def _change(rows: Sequence[Workload], steps: Sequence[Status], *, gone: bool, at: datetime) -> None:
    """Take rows that stand at one status all the steps."""
    *through, to = steps
    columns: dict[str, Any] = {"reason": {}} if to is Status.COMPLETED else {}
    change_status(rows, to, at=at, through=through, further_events=int(gone), reason_code="", **columns)


@dataclass(frozen=True, slots=True)
class _Move:
    """A locked workload, its open attempt, and how far that has come."""

    row: Workload
    attempt: Attempt
    told: Progress

    @property
    def steps(self) -> tuple[Status, ...]:
        """Return the statuses that lead from where it stands to what was told."""
        stands = STEPS.index(Status(self.row.status))
        return STEPS[stands + 1 : STEPS.index(self.told.goal) + 1]

    def tell(self, steps: Sequence[Status], journal: Journal, placed: int | None) -> None:
        """Note the steps, which the row has taken, in the attempt and in the journal. `placed`: how many pods it has,
        where these may be fewer than it asks for.
        """
        number = self.attempt.number
        for step in steps:
            self._write(step, at=journal.at)
            data = {"exit_code": 0} if step is Status.COMPLETED else None
            message = MESSAGES[step]
            if step is Status.RUNNING and placed is not None and placed < self.row.pods:
                message = f"{placed} of its {self.row.pods} pods {plural(placed, 'runs', 'run')}."
            journal.add_change(self.row, message, number=number, data=data, status=step)
        if self.told.gone:
            self.attempt.released_at = journal.at
            journal.add_counted(self.row, EventKind.DEVICES_FREED, freed(self.attempt), number=number)

    def _write(self, step: Status, *, at: datetime) -> None:
        """Note phase and time of the step in the attempt, in the order in which times must stand."""
        attempt, told = self.attempt, self.told
        if step is Status.STARTING:
            attempt.phase, attempt.starting_at = Phase.STARTING, max(told.created_at, attempt.queued_at)
        elif step is Status.RUNNING:
            attempt.phase = Phase.RUNNING
            attempt.running_at = max(
                told.running_at or told.created_at, attempt.starting_at or told.created_at
            )
        else:
            completed = told.completed_at or at
            attempt.phase, attempt.end_reason, attempt.exit_code = Phase.OVER, EndReason.COMPLETED, 0
            attempt.ended_at = min(at, max(completed, attempt.running_at or completed))


def freed(attempt: Attempt) -> str:
    """Return the sentence that an attempt's devices are free."""
    gpus = f"{gpus_text(attempt.gpus_milli)} free"
    return f"Its pods are gone: {gpus}." if attempt.starting_at else f"No pod is left: {gpus}."
