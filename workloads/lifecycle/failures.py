"""Attempts that do not go well, many at once: failed, and refused by their cluster; both may be tried again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import F

from chamber.bulk import update_each
from chamber.words import count
from teams.actors import Actor
from workloads import reasons
from workloads.lifecycle.journal import Journal
from workloads.lifecycle.refusals import MOST_LASTING, InARow, in_a_row
from workloads.lifecycle.status import change_status
from workloads.lifecycle.steps import lock_open_many, stop, to_pending
from workloads.models import Attempt, EndReason, Phase, Status, Workload

FIRST_BACKOFF = timedelta(seconds=10)
LONGEST_BACKOFF = timedelta(minutes=10)
NOT_RETRIED = frozenset({"time-limit"})
"""Failures that would only happen again."""
WRITTEN = ("phase", "ended_at", "end_reason", "exit_code", "end_detail")


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt failed, as its cluster tells; `ended_at` is when."""

    attempt_id: UUID
    exit_code: int | None
    ended_at: datetime
    reason_code: str = ""
    message: str = ""


def backoff(failures: int) -> timedelta:
    """Return how long to wait after this many failures: 10 s, doubled each time, 10 min at most."""
    doublings = min(failures - 1, 16)
    return min(FIRST_BACKOFF * int(2**doublings), LONGEST_BACKOFF)


def finish_many(ended: Sequence[Ended], *, by: Actor, at: datetime) -> set[UUID]:
    """Make workloads Failed, and Pending again while they have retries; return the attempts that were not over.

    What is recorded is recorded `at`; the attempts keep the times that were told.
    """
    told = {one.attempt_id: one for one in ended}
    pairs = lock_open_many(told)
    journal = Journal(by=by, at=at, rows=[row for row, _ in pairs])
    change_status([row for row, _ in pairs], Status.FAILED, at=journal.at, failures=F("failures") + 1)
    again: list[Workload] = []
    reason_of: dict[UUID, reasons.WorkloadEnd] = {}
    for row, attempt in pairs:
        one = told[attempt.pk]
        reason = reason_of[row.pk] = reasons.of_failure(one.exit_code, one.reason_code, one.message)
        began = attempt.running_at or attempt.starting_at or attempt.queued_at
        _end(attempt, EndReason.FAILED, reason.as_json(), at=min(journal.at, max(one.ended_at, began)))
        attempt.exit_code = one.exit_code
        row.reason_code, row.reason = reason.code, reason.as_json()
        data = {"exit_code": one.exit_code, "code": reason.code}
        journal.add_change(row, reason.message, number=attempt.number, data=data)
        if row.failures < row.max_retries and reason.code not in NOT_RETRIED:
            again.append(row)
        row.failures += 1
    update_each([row for row, _ in pairs], ["reason_code", "reason"])
    to_pending(again, at=journal.at)
    for row in again:
        row.backoff_until = journal.at + backoff(row.failures)
        seconds, left = (row.backoff_until - journal.at).seconds, row.max_retries - row.failures
        message = (
            f"Tried again in {seconds} s at the earliest; {count(left, 'retry', 'retries')} left after that."
        )
        journal.add_change(row, message, data={"backoff_until": row.backoff_until.isoformat()})
        row.reason = reason_of[row.pk].as_json()
    update_each(again, ["backoff_until", "reason"])
    return _written([attempt for _, attempt in pairs], journal)


def refuse_many(
    refusals: Mapping[UUID, reasons.WorkloadEnd],
    *,
    by: Actor,
    at: datetime,
    most: Mapping[UUID, int] | None = None,
) -> set[UUID]:
    """Put back in the queue, after a pause, what clusters could not take, by attempt with the reason; return the
    attempts that were not over and did not run.

    It costs no retry: nothing of the workloads ran. Each refusal doubles the pause, so that nobody spins. What is
    refused lastingly is put on hold after `MOST_LASTING` of them in a row: only what changes elsewhere can help. So is,
    for whatever reason, the workload of an attempt in `most` after so many refusals in a row.
    """
    pairs = [(row, attempt) for row, attempt in lock_open_many(refusals) if row.status != Status.RUNNING]
    journal = Journal(by=by, at=at, rows=[row for row, _ in pairs])
    before = in_a_row(row.pk for row, _ in pairs)
    to_pending([row for row, _ in pairs], at=journal.at)
    for row, attempt in pairs:
        refusal, times = refusals[attempt.pk], before.get(row.pk, InARow(0, 0, 0))
        lasts = refusal.code in reasons.LASTING
        _end(attempt, EndReason.REFUSED, refusal.as_json(), at=journal.at)
        row.backoff_until, row.reason = journal.at + backoff(times.refused + 1), refusal.as_json()
        bound = (most or {}).get(attempt.pk, times.staying + 2)
        lasted = lasts and times.lasting + 1 >= MOST_LASTING
        row.held = row.held or lasted or times.staying + 1 >= bound
        held = f" {_on_hold(row, times.refused + 1, refusal.code)}" if row.held else ""
        journal.add_change(
            row, f"{refusal.message}{held}", number=attempt.number, data={"code": refusal.code}
        )
    update_each([row for row, _ in pairs], ["backoff_until", "reason", "held"])
    return _written([attempt for _, attempt in pairs], journal)


def _on_hold(row: Workload, refusals: int, code: str) -> str:
    until = reasons.held_until(code)
    return f"Put on hold after {count(refusals, 'refusal')} in a row: {until} (chamber release {row.slug})."


def _end(attempt: Attempt, reason: EndReason, detail: dict[str, str], *, at: datetime) -> None:
    attempt.phase, attempt.ended_at, attempt.end_reason, attempt.end_detail = Phase.OVER, at, reason, detail


def _written(attempts: Sequence[Attempt], journal: Journal) -> set[UUID]:
    """Store the attempts' ends and the events, have the pods stopped, and return the attempts' ids."""
    update_each(attempts, WRITTEN)
    journal.write(ring=True)
    stop([attempt.pk for attempt in attempts], at=journal.at)
    return {attempt.pk for attempt in attempts}
