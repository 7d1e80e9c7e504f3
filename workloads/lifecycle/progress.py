"""The way of attempts that go well, many at once: pods created, running, completed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from chamber.bulk import update_each
from teams.actors import Actor
from workloads.lifecycle.journal import Journal
from workloads.lifecycle.status import change_status, lock
from workloads.lifecycle.steps import stop
from workloads.models import Attempt, EndReason, Phase, Status, Workload

STEPS = (Status.STARTING, Status.RUNNING, Status.COMPLETED)
FROM = {Status.STARTING: Status.QUEUED, Status.RUNNING: Status.STARTING, Status.COMPLETED: Status.RUNNING}
MESSAGES = {
    Status.STARTING: "Its pods are being created.",
    Status.RUNNING: "All its pods run.",
    Status.COMPLETED: "Completed.",
}
WRITTEN = ("phase", "starting_at", "running_at", "ended_at", "end_reason", "exit_code")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an attempt has come, and when: what was reached without being told was reached at the next known time."""

    attempt_id: UUID
    created_at: datetime
    running_at: datetime | None = None
    completed_at: datetime | None = None

    @property
    def goal(self) -> Status:
        """Return the status that this leads to."""
        if self.completed_at is not None:
            return Status.COMPLETED
        return Status.STARTING if self.running_at is None else Status.RUNNING


def progress_many(told: Sequence[Progress], *, by: Actor, at: datetime) -> set[UUID]:
    """Take admitted workloads forward, step by step, each with its event; return the attempts that came further.

    Attempts that are over, or as far already, stay as they are. What is recorded is recorded `at`; the attempts keep
    the times that were told.
    """
    by_attempt = {progress.attempt_id: progress for progress in told}
    of_open = Attempt.objects.filter(pk__in=by_attempt, ended_at__isnull=True)
    locked = lock(of_open.values_list("workload", flat=True)).values()
    moves = [
        _Move(row, row.attempt, by_attempt[row.attempt.pk])
        for row in locked
        if row.attempt is not None and row.attempt.pk in by_attempt
    ]
    journal = Journal(by=by, at=at, rows=[move.row for move in moves])
    moved: dict[UUID, Attempt] = {}
    for step in STEPS:
        chosen = [move for move in moves if move.takes(step)]
        if not chosen:
            continue
        reason: dict[str, Any] = {"reason": {}} if step is Status.COMPLETED else {}
        change_status([move.row for move in chosen], step, at=journal.at, reason_code="", **reason)
        for move in chosen:
            move.write(step, at=journal.at)
            data = {"exit_code": 0} if step is Status.COMPLETED else None
            journal.add_change(move.row, MESSAGES[step], number=move.attempt.number, data=data)
            moved[move.attempt.pk] = move.attempt
    update_each(moved.values(), WRITTEN)
    ended = [attempt.pk for attempt in moved.values() if attempt.ended_at is not None]
    journal.write(ring=bool(ended))
    stop(ended, at=journal.at)
    return set(moved)


@dataclass(frozen=True, slots=True)
class _Move:
    """A locked workload, its open attempt, and how far that has come."""

    row: Workload
    attempt: Attempt
    told: Progress

    def takes(self, step: Status) -> bool:
        """Return whether this step comes next, and was told."""
        return self.row.status == FROM[step] and STEPS.index(self.told.goal) >= STEPS.index(step)

    def write(self, step: Status, *, at: datetime) -> None:
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
