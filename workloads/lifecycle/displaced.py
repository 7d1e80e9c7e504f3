"""Attempts that end through no doing of their workload: it goes back to the queue with its original place, free of
charge.

A displaced attempt is open until no pod of it is left, or an admin gives its cluster up; its cause is noted as soon as
it is known. `MOST_IN_A_ROW` such ends in a row, each within `ROW_WITHIN` of the last, end the workload.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from chamber.bulk import update_each
from teams.actors import Actor
from workloads import reasons
from workloads.lifecycle.failures import backoff
from workloads.lifecycle.journal import Journal
from workloads.lifecycle.status import change_status
from workloads.lifecycle.steps import Pair, lock_open_many, stop, to_pending
from workloads.models import Attempt, EndReason, EventKind, Phase, Status, Workload

MOST_IN_A_ROW = 10
ROW_WITHIN = timedelta(days=1)
TOO_OFTEN = "displaced-too-often"
ROW_ENDS = "row_ends"
"""In the detail of the attempt that ended its workload: the next one begins a new row."""
PAUSED = frozenset({"registry-unreachable"})
"""Causes that would most likely still be there at once."""
NOTED = ("end_reason", "end_detail")
ENDED = (*NOTED, "phase", "ended_at")


@dataclass(frozen=True, slots=True)
class Displacement:
    """What took an attempt's pods away, as its cluster tells. `gone`: none of them is left."""

    attempt_id: UUID
    code: str
    message: str
    ended_at: datetime
    gone: bool = True


def displace_many(told: Sequence[Displacement], *, by: Actor, at: datetime) -> set[UUID]:
    """End attempts of which no pod is left, and make their workloads Pending; note of the others what happened to
    them. Return the attempts that ended.

    The cause that was noted first stays. Nothing is counted as a retry or a requeue.
    """
    causes = {one.attempt_id: one for one in told}
    pairs = lock_open_many(causes)
    journal = Journal(by=by, at=at, rows=[row for row, _ in pairs])
    new = [(row, attempt) for row, attempt in pairs if not attempt.end_reason]
    for row, attempt in new:
        one = causes[attempt.pk]
        attempt.end_reason = EndReason.DISPLACED
        attempt.end_detail = {"code": one.code, "message": one.message, "at": one.ended_at.isoformat()}
        if not one.gone:
            message = f"{one.message} It returns to the queue once its pods are known to be gone."
            journal.add(row, EventKind.NOTE, message, attempt_number=attempt.number, data={"code": one.code})
    update_each([attempt for _, attempt in new], NOTED)
    over = [(row, attempt) for row, attempt in pairs if causes[attempt.pk].gone]
    end_displaced(over, journal)
    journal.write(ring=bool(over))
    ended = [attempt.pk for _, attempt in over]
    stop(ended, at=journal.at)
    return set(ended)


def end_displaced(pairs: Sequence[Pair], journal: Journal) -> None:
    """End locked workloads' attempts whose cause is noted: back to the queue, or Failed after too many in a row.

    They end when it is recorded; when they were displaced is noted with the cause. Callers write the journal and stop
    the pods.
    """
    if not pairs:
        return
    rows_before = _causes_before([row.pk for row, _ in pairs], since=journal.at - ROW_WITHIN)
    back: list[Pair] = []
    failed: list[Pair] = []
    for row, attempt in pairs:
        attempt.phase, attempt.ended_at = Phase.OVER, journal.at
        spent = len(rows_before.get(row.pk, ())) + 1 >= MOST_IN_A_ROW
        (failed if spent else back).append((row, attempt))
        if spent:
            attempt.end_detail = {**attempt.end_detail, ROW_ENDS: True}
    update_each([attempt for _, attempt in pairs], ENDED)
    _fail(failed, rows_before, journal)
    _return(back, rows_before, journal)


def _return(pairs: Sequence[Pair], before: Mapping[UUID, Sequence[str]], journal: Journal) -> None:
    """Make the workloads Pending; after the first of a row, or where the cause will last, after a pause."""
    to_pending([row for row, _ in pairs], at=journal.at)
    paused: list[Workload] = []
    for row, attempt in pairs:
        code, message = attempt.end_detail["code"], attempt.end_detail["message"]
        count = len(before.get(row.pk, ())) + 1
        failures = count - (code not in PAUSED)
        text = f"{message} Back in the queue with its original place; no retry or requeue is spent."
        data: dict[str, Any] = {"code": code, "displaced": count}
        if failures:
            row.backoff_until = journal.at + backoff(failures)
            data["backoff_until"] = row.backoff_until.isoformat()
            text += f" It is tried again in {backoff(failures).seconds} s at the earliest."
            paused.append(row)
        if count > 1:
            text += f" It was displaced {count} times in a row; after {MOST_IN_A_ROW} it ends as Failed."
        journal.add_change(row, text, number=attempt.number, data=data)
    update_each(paused, ["backoff_until"])


def _fail(pairs: Sequence[Pair], before: Mapping[UUID, Sequence[str]], journal: Journal) -> None:
    change_status([row for row, _ in pairs], Status.FAILED, at=journal.at)
    for row, attempt in pairs:
        causes = [*before.get(row.pk, ()), attempt.end_detail["message"]]
        message = f"It was displaced {len(causes)} times in a row within a day: {_listed(causes)}"
        reason = reasons.WorkloadEnd(TOO_OFTEN, message)
        row.reason_code, row.reason = reason.code, reason.as_json()
        data = {"code": reason.code, "causes": causes}
        journal.add_change(row, message, number=attempt.number, data=data)
    update_each([row for row, _ in pairs], ["reason_code", "reason"])


def _listed(causes: Iterable[str]) -> str:
    """Return the sentences in the order in which they came first, each with how often it came."""
    counted = Counter(causes)
    return " ".join(f"{n} times: {text}" if n > 1 else text for text, n in counted.items())


def _causes_before(ids: Collection[UUID], *, since: datetime) -> dict[UUID, list[str]]:
    """Return why the latest attempts of these workloads were displaced, oldest first, as far as no other end lies
    between (one query). Who was refused, or lost before a pod existed, never began and is passed over.
    """
    over = Attempt.objects.filter(workload__in=ids, ended_at__gt=since).order_by("workload", "-number")
    found: dict[UUID, list[str]] = {}
    broken: set[UUID] = set()
    columns = ("workload", "end_reason", "end_detail", "starting_at")
    for workload, end_reason, detail, starting_at in over.values_list(*columns):
        if workload in broken or end_reason == EndReason.REFUSED:
            continue
        if end_reason == EndReason.LOST and starting_at is None:
            continue
        if end_reason not in (EndReason.DISPLACED, EndReason.LOST) or detail.get(ROW_ENDS):
            broken.add(workload)
            continue
        found.setdefault(workload, []).insert(0, str(detail.get("message", "")))
    return found


def lost(attempt_ids: Iterable[UUID], *, at: datetime, by: Actor, message: str, code: str = "lost") -> int:
    """End those of the attempts that are open, in a cluster that was given up, or let go of; return how many.

    What had pods there is displaced; what waited for devices goes back as if it had not been admitted. Their devices
    stay taken until the cluster reports the pods gone, if it ever does.
    """
    pairs = lock_open_many(set(attempt_ids))
    if not pairs:
        return 0
    journal = Journal(by=by, at=at, rows=[row for row, _ in pairs])
    with_pods = [(row, attempt) for row, attempt in pairs if row.status != Status.QUEUED]
    without = [(row, attempt) for row, attempt in pairs if row.status == Status.QUEUED]
    for _, attempt in pairs:
        attempt.end_reason, attempt.end_detail = EndReason.LOST, {"code": code, "message": message}
    end_displaced(with_pods, journal)
    for _, attempt in without:
        attempt.phase, attempt.ended_at = Phase.OVER, journal.at
    update_each([attempt for _, attempt in without], ENDED)
    to_pending([row for row, _ in without], at=journal.at)
    for row, attempt in without:
        journal.add_change(row, f"{message} Back in the queue.", number=attempt.number)
    journal.write(ring=True)
    stop([attempt.pk for _, attempt in pairs], at=journal.at)
    return len(pairs)
