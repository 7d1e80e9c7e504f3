"""What a plan does to workloads: admit, preempt, grow and shrink, tell why they wait, give up."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Case, F, Max, OuterRef, Subquery, Value, When
from django.utils import timezone

from chamber.bulk import insert_each, update_each
from chamber.ids import new_ids
from chamber.words import count
from teams.actors import Actor
from teams.models import Team
from workloads import dependencies, needs, reasons
from workloads.lifecycle.displaced import end_displaced
from workloads.lifecycle.journal import Journal, ShownOn, announce
from workloads.lifecycle.status import Row, change_status, lock
from workloads.lifecycle.steps import end_attempts, lock_open, stop, to_pending
from workloads.models import Attempt, EndReason, EventKind, OnPreemption, Phase, Status, Workload
from workloads.models.workload import ADMITTED
from workloads.quantities import gpus_text

OPENED = (
    "id", "workload", "number", "pool", "allocation", "gpus_milli", "phase", "queued_at", "end_reason", "end_detail",
    "created_at",
)  # fmt: skip
"""What is written of an attempt when it is opened; the rest is not known yet."""


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """One start of a plan. `version` is the workload's when the snapshot was taken, `reason_code` says why it does not
    run at once, if it does not.
    """

    workload_id: UUID
    version: int
    pool_id: UUID
    allocation: list[dict[str, Any]]
    gpus_milli: int
    message: str
    data: dict[str, Any] = field(default_factory=dict)
    reason_code: str = ""


class OpenedAttempt(NamedTuple):
    """An attempt that was opened by an admission."""

    pk: UUID
    workload_id: UUID
    number: int


@dataclass(frozen=True, slots=True)
class PreemptionOrder:
    """One preemption of a plan. `message` may be read by whoever sees the victim, so it names no foreign
    workload.

    `by_workload_id` is the one that gets the GPUs, `rule` which case of the rules allowed it, `level` the
    team where
    the two branches of the tree part.
    """

    workload_id: UUID
    version: int
    message: str
    by_workload_id: UUID | None = None
    rule: str = ""
    level: str = ""
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WaitingFailure:
    """A workload that waits and never will run: a dependency failed, its deadline passed, or it can never fit and asked
    to be told. `cancels`: it ends as Cancelled.
    """

    workload_id: UUID
    version: int
    code: str
    message: str
    next_step: str = ""
    cancels: bool = False


def admit_many(
    admissions: Sequence[PlannedStart], *, by: Actor, at: datetime, rows: Mapping[UUID, Row] | None = None
) -> dict[UUID, OpenedAttempt]:
    """Make Pending workloads Queued, each with a new attempt; return the attempts by workload id.

    Left out are those that changed since the snapshot: another version, not Pending any more, held. `rows` are theirs
    where the caller has locked them already.
    """
    if rows is None:
        rows = lock(admission.workload_id for admission in admissions)
    chosen = [
        (admission, row)
        for admission in admissions
        if (row := rows.get(admission.workload_id)) is not None
        and (row.version, row.status, row.held) == (admission.version, Status.PENDING, False)
    ]
    if not chosen:
        return {}
    journal = Journal(by=by, at=at, rows=[row for _, row in chosen])
    at = journal.at
    attempts = _open([order for order, _ in chosen], at)
    # In no order: a subquery would sort by that of its model, which is one more table.
    opened = Attempt.objects.filter(workload=OuterRef("pk"), ended_at__isnull=True).order_by()
    change_status(
        [row for _, row in chosen],
        Status.QUEUED,
        at=at,
        attempt=Subquery(opened.values("pk")[:1]),
        pool=Subquery(opened.values("pool")[:1]),
        reason_code=_reason_codes(order for order, _ in chosen),
        reason={},
        backoff_until=None,
    )
    for order, row in chosen:
        attempt = attempts[row.pk]
        row.attempt_id, row.pool_id = attempt.pk, order.pool_id
        journal.add_change(row, order.message, number=attempt.number, data=order.data)
    journal.write()
    return attempts


def _reason_codes(orders: Iterable[PlannedStart]) -> Case | Value:
    """Return what is written as the reason of each of these: most have none."""
    by_code: dict[str, list[UUID]] = {}
    for order in orders:
        if order.reason_code:
            by_code.setdefault(order.reason_code, []).append(order.workload_id)
    cases = [When(pk__in=ids, then=Value(code)) for code, ids in sorted(by_code.items())]
    return Case(*cases, default=Value("")) if cases else Value("")


def _open(orders: Sequence[PlannedStart], at: datetime) -> dict[UUID, OpenedAttempt]:
    """Add an attempt for each admission; return them by workload id."""
    numbers = _last_numbers([order.workload_id for order in orders])
    attempts = {
        order.workload_id: OpenedAttempt(key, order.workload_id, numbers.get(order.workload_id, 0) + 1)
        for order, key in zip(orders, new_ids(len(orders)), strict=True)
    }
    created_at, nothing = timezone.now(), dict[str, Any]()
    rest = (Phase.QUEUED, at, "", nothing, created_at)
    rows = (
        (*attempts[order.workload_id], order.pool_id, order.allocation, order.gpus_milli, *rest)
        for order in orders
    )
    insert_each(Attempt, OPENED, rows)
    return attempts


def _last_numbers(ids: list[UUID]) -> dict[UUID, int]:
    numbered = Attempt.objects.filter(workload__in=ids).order_by().values("workload")
    return dict(numbered.annotate(last=Max("number")).values_list("workload", "last"))


def preempt_many(
    orders: Sequence[PreemptionOrder], *, by: Actor, at: datetime, rows: Mapping[UUID, Workload] | None = None
) -> set[UUID]:
    """End the attempts of admitted workloads as preempted; return the ids of those it was done to.

    They go back to Pending, where they may and have requeues left, with their place in the queue; else they
    end as
    Preempted with a reason. The workloads that get the GPUs have an event too. Left out: who changed
    meanwhile. `rows` are theirs where the caller has locked them already.
    """
    # Who is a victim of two is preempted once, for the first of them.
    orders = list({order.workload_id: order for order in reversed(orders)}.values())[::-1]
    concerned = {order.workload_id for order in orders} | {
        o.by_workload_id for o in orders if o.by_workload_id
    }
    rows = lock(concerned) if rows is None else {key: row for key, row in rows.items() if key in concerned}
    chosen = [
        (order, row)
        for order in orders
        if (row := rows.get(order.workload_id)) is not None
        and row.version == order.version
        and row.status in ADMITTED
    ]
    if not chosen:
        return set()
    teams = Team.objects.in_bulk({row.team_id for row in rows.values()})
    for row in rows.values():
        row.team = teams[row.team_id]
    journal = Journal(by=by, at=at, rows=rows.values())
    at = journal.at
    # Whoever was displaced already only goes at once instead of when its pods are known to be gone.
    displaced = [(row, row.attempt) for _, row in chosen if row.attempt and row.attempt.end_reason]
    end_displaced(displaced, journal)
    gone = {row.pk for row, _ in displaced}
    chosen = [(order, row) for order, row in chosen if row.pk not in gone]
    details = {row.attempt_id: _told(order, rows) for order, row in chosen if row.attempt_id}
    attempts = end_attempts([row for _, row in chosen], EndReason.PREEMPTED, details, at=at)
    change_status([row for _, row in chosen], Status.PREEMPTED, at=at, reason_code="preempted", reason={})
    for order, row in chosen:
        number, detail = attempts[row.pk].number, _told(order, rows)
        journal.add_change(row, order.message, number=number, data=detail)
    _note_beneficiaries(chosen, attempts, rows, journal)
    _return_or_stay(chosen, rows, journal, at=at)
    journal.write(ring=True)
    stop([attempt.pk for attempt in (*attempts.values(), *(one for _, one in displaced))], at=at)
    return gone | {row.pk for _, row in chosen}


def _told(order: PreemptionOrder, rows: Mapping[UUID, Workload]) -> dict[str, Any]:
    """Return what is kept of a preemption with the victim; foreign workloads by id only."""
    detail: dict[str, Any] = {
        "message": order.message,
        "rule": order.rule,
        "level": order.level,
        **order.data,
    }
    winner = rows.get(order.by_workload_id) if order.by_workload_id else None
    if winner is not None:
        detail |= {"by": str(winner.pk), "by_team": winner.team.name, "by_priority": winner.priority}
    return detail


def _note_beneficiaries(
    chosen: Sequence[tuple[PreemptionOrder, Workload]],
    attempts: Mapping[UUID, Attempt],
    rows: Mapping[UUID, Workload],
    journal: Journal,
) -> None:
    for winner_id in dict.fromkeys(order.by_workload_id for order, _ in chosen):
        winner = rows.get(winner_id) if winner_id else None
        if winner is None:
            continue
        victims = [(order, row) for order, row in chosen if order.by_workload_id == winner_id]
        milli = sum(attempts[row.pk].gpus_milli for _, row in victims)
        teams = ", ".join(sorted({row.team.name for _, row in victims}))
        noun = "workload" if len(victims) == 1 else "workloads"
        told = [
            {
                "workload": str(row.pk),
                "team": row.team.name,
                "priority": row.priority,
                "gpus_milli": attempts[row.pk].gpus_milli,
                "rule": order.rule,
                "level": order.level,
            }
            for order, row in victims
        ]
        message = f"Preempted {len(victims)} elastic {noun} with {gpus_text(milli)} of {teams}."
        journal.add(winner, EventKind.PREEMPTED_OTHERS, message, data={"victims": told})


def _return_or_stay(
    chosen: Sequence[tuple[PreemptionOrder, Workload]],
    rows: Mapping[UUID, Workload],
    journal: Journal,
    *,
    at: datetime,
) -> None:
    back = [
        row
        for _, row in chosen
        if row.on_preemption == OnPreemption.REQUEUE and row.requeues < row.max_requeues
    ]
    if back:
        to_pending(back, at=at, requeues=F("requeues") + 1)
    returned = {row.pk for row in back}
    for row in back:
        row.requeues += 1
        left = row.max_requeues - row.requeues
        journal.add_change(row, f"Back in the queue with its original place; {count(left, 'requeue')} left.")
    stay = [(order, row) for order, row in chosen if row.pk not in returned]
    for order, row in stay:
        code = "preempted" if row.on_preemption == OnPreemption.STOP else "too-many-requeues"
        spent = (
            f" It was requeued {count(row.requeues, 'time')}, as often as it may be."
            if code == "too-many-requeues"
            else ""
        )
        winner = rows.get(order.by_workload_id) if order.by_workload_id else None
        reason = reasons.WorkloadEnd(
            code,
            order.message + spent,
            kind="ended",
            by=f"a workload of {winner.team.name}" if winner else "",
            rule=order.rule,
            level=order.level,
        )
        row.reason_code, row.reason = code, reason.as_json()
    if stay:
        update_each([row for _, row in stay], ["reason_code", "reason"])


def resize(
    attempt_id: UUID,
    *,
    gpus_milli: int,
    allocation: list[dict[str, Any]],
    message: str,
    by: Actor,
    at: datetime,
    data: Mapping[str, Any] | None = None,
) -> bool:
    """Note that a running gang has grown or shrunk; False where the attempt is over."""
    row = lock_open(attempt_id)
    if row is None or row.attempt is None:
        return False
    kind = EventKind.GREW if gpus_milli > row.attempt.gpus_milli else EventKind.SHRANK
    Attempt.objects.filter(pk=attempt_id).update(gpus_milli=gpus_milli, allocation=allocation)
    journal = Journal(by=by, at=at, rows=[row])
    journal.add(row, kind, message, attempt_number=row.attempt.number, data=data)
    journal.write(ring=kind == EventKind.SHRANK)
    return True


def recharge(allocations: Mapping[UUID, list[dict[str, Any]]]) -> None:
    """Store anew what open attempts are charged to; the charges are worked out in every cycle and are no event.

    Waits for nobody: an attempt that somebody is changing keeps its charge until the next cycle.
    """
    free = Attempt.objects.select_for_update(skip_locked=True).filter(
        pk__in=allocations, ended_at__isnull=True
    )
    changed = [
        Attempt(pk=attempt_id, allocation=allocations[attempt_id])
        for attempt_id in free.order_by("pk").values_list("pk", flat=True)
    ]
    update_each(changed, ["allocation"])


def set_reasons(codes: Mapping[UUID, str]) -> None:
    """Store why workloads wait, where the code has changed; versions stay, since nothing that a plan reads
    changes.

    Waits for nobody: a workload that somebody is changing gets its reason in the next cycle.
    """
    if not codes:
        return
    waiting = Workload.objects.filter(pk__in=codes, status__in=(Status.PENDING, Status.QUEUED)).order_by("pk")
    by_code: dict[str, list[ShownOn]] = {}
    free = waiting.select_for_update(skip_locked=True)
    for code, *columns in free.values_list("reason_code", *ShownOn._fields):
        row = ShownOn(*columns)
        if code != codes[row.pk]:
            by_code.setdefault(codes[row.pk], []).append(row)
    for code, rows in sorted(by_code.items()):
        Workload.objects.filter(pk__in=[row.pk for row in rows]).update(reason_code=code)
    announce(row for rows in by_code.values() for row in rows)


def fail_waiting(failures: Sequence[WaitingFailure], *, by: Actor, at: datetime) -> set[UUID]:
    """End Pending workloads as Failed, or Cancelled, with their reasons; return the ids of those it was done to.

    Waits for nobody: a workload that somebody is changing is left to the next cycle. So is one that fails for what it
    starts after, where that may come after all by now.
    """
    rows = lock((failure.workload_id for failure in failures), skip_locked=True)
    chosen = [
        (failure, row)
        for failure in failures
        if (row := rows.get(failure.workload_id)) is not None
        and (row.version, row.status) == (failure.version, Status.PENDING)
    ]
    after = [row.pk for failure, row in chosen if failure.code == dependencies.FAILED]
    needed, others = dependencies.failed(after), needs.never(after)
    # What they start after may have been put back in the queue since the snapshot.
    spoilt = {row.pk for _, row in chosen} - (set(after) - needed.keys() - others.keys())
    chosen = [pair for pair in chosen if pair[1].pk in spoilt]
    journal = Journal(by=by, at=at, rows=[row for _, row in chosen])
    for status, cancels in ((Status.FAILED, False), (Status.CANCELLED, True)):
        change_status([row for each, row in chosen if each.cancels is cancels], status, at=journal.at)
    for failure, row in chosen:
        kind = "cancelled" if failure.cancels else "failed"
        reason = reasons.WorkloadEnd(failure.code, failure.message, kind, failure.next_step)
        if row.pk in needed:
            reason = _of_dependencies(row, needed[row.pk])
        elif row.pk in others:
            reason = _of_ends(row, others[row.pk])
        row.reason_code, row.reason = failure.code, reason.as_json()
        journal.add_change(row, reason.message)
    if chosen:
        update_each([row for _, row in chosen], ["reason_code", "reason"])
    journal.write(ring=True)
    return {row.pk for _, row in chosen}


def _of_ends(row: Workload, never: Sequence[needs.UnmetNeed]) -> reasons.WorkloadEnd:
    """Return why one ended that starts after arrays, or after other ends than completed, one of which will not come."""
    names = [need.slug if need.team.pk == row.team_id else f"of {need.team.name}" for need in never]
    steps = [need.step(name) for need, name in zip(never, names, strict=True) if need.kind == needs.AFTER_OK]
    again = f"{'. '.join(steps)}. Then requeue this one (chamber requeue {row.slug})." if steps else ""
    return reasons.WorkloadEnd(
        dependencies.FAILED,
        " ".join(need.sentence(name) for need, name in zip(never, names, strict=True)),
        next_step=again or "Nothing: it was to run only if that ended otherwise.",
    )


def _of_dependencies(row: Workload, needed: Sequence[Workload]) -> reasons.WorkloadEnd:
    """Return why one ended that starts after these; those of other teams are not for all its readers to know, and those
    of other owners not for its own to requeue.
    """
    known = [other for other in needed if other.team_id == row.team_id]
    names = [other.slug if other in known else f"a workload of {other.team.name}" for other in needed]
    own = [other.slug for other in known if other.owner_id == row.owner_id]
    again = dependencies.requeue(own, others=len(needed) - len(own))
    return reasons.WorkloadEnd(
        dependencies.FAILED,
        dependencies.sentence(needed, names),
        next_step=f"{again}. Then requeue this one (chamber requeue {row.slug}).",
    )
