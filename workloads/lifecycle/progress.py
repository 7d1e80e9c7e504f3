"""The way of attempts that go well, many at once: pods created, running, completed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from teams.actors import Actor
from workloads.lifecycle.journal import Journal
from workloads.lifecycle.status import change_status, lock
from workloads.lifecycle.steps import end_attempts, note_status, stop
from workloads.models import Attempt, EndReason, Phase, Status, Workload

STEPS = (Status.STARTING, Status.RUNNING, Status.COMPLETED)
FROM = {Status.STARTING: Status.QUEUED, Status.RUNNING: Status.STARTING, Status.COMPLETED: Status.RUNNING}
MESSAGES = {
    Status.STARTING: "Its pods are being created.",
    Status.RUNNING: "All its pods run.",
    Status.COMPLETED: "Completed.",
}


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
    workloads = Attempt.objects.filter(pk__in=by_attempt, ended_at__isnull=True).values_list(
        "workload", flat=True
    )
    rows = [row for row in lock(workloads).values() if row.attempt_id in by_attempt]
    journal = Journal(by=by, at=max([at, *(row.status_since for row in rows)]))
    attempts = {row.pk: row.attempt for row in rows if row.attempt is not None}
    moved: set[UUID] = set()
    for step in STEPS:
        goals = {row.pk: by_attempt[attempts[row.pk].pk].goal for row in rows}
        chosen = [
            row
            for row in rows
            if row.status == FROM[step] and STEPS.index(goals[row.pk]) >= STEPS.index(step)
        ]
        if not chosen:
            continue
        _write_times([(attempts[row.pk], by_attempt[attempts[row.pk].pk]) for row in chosen], step)
        if step is Status.COMPLETED:
            _complete(chosen, by_attempt, attempts, at=journal.at)
        else:
            change_status(chosen, step, at=journal.at, reason_code="")
        for row in chosen:
            data = {"exit_code": 0} if step is Status.COMPLETED else None
            note_status(journal, row, MESSAGES[step], number=attempts[row.pk].number, data=data)
            moved.add(attempts[row.pk].pk)
    ended = [attempts[row.pk].pk for row in rows if row.status == Status.COMPLETED]
    journal.write(ring=bool(ended))
    stop(ended, at=journal.at)
    return moved


def _write_times(pairs: Sequence[tuple[Attempt, Progress]], step: Status) -> None:
    """Store phase and time of the step in the attempts, each its own."""
    if step is Status.COMPLETED:
        return
    for attempt, progress in pairs:
        created = max(progress.created_at, attempt.queued_at)
        if step is Status.STARTING:
            attempt.phase, attempt.starting_at = Phase.STARTING, created
        else:
            attempt.phase = Phase.RUNNING
            attempt.running_at = max(
                progress.running_at or progress.created_at, attempt.starting_at or created
            )
    fields = ["phase", "starting_at" if step is Status.STARTING else "running_at"]
    Attempt.objects.bulk_update([attempt for attempt, _ in pairs], fields)


def _complete(
    rows: Sequence[Workload], told: dict[UUID, Progress], attempts: dict[UUID, Attempt], *, at: datetime
) -> None:
    end_attempts(rows, EndReason.COMPLETED, {}, at=at, exit_code=0)
    for row in rows:
        attempt = attempts[row.pk]
        completed = told[attempt.pk].completed_at or at
        attempt.ended_at = min(at, max(completed, attempt.running_at or completed))
    Attempt.objects.bulk_update([attempts[row.pk] for row in rows], ["ended_at"])
    change_status(rows, Status.COMPLETED, at=at, reason_code="", reason={})
