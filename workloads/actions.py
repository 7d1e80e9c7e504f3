"""What people do to workloads that are there: cancel, hold, release, requeue; one or many."""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import transaction
from django.db.models import Case, F, Value, When
from django.utils import timezone

from chamber import live, logs
from chamber.errors import Conflict, NotAllowed, NotVisible, Refusal, no_such
from chamber.transactions import keep
from teams.actors import Actor
from teams.models import Team
from teams.permissions import Permission, may
from workloads import auditing, lifecycle
from workloads.credentials import usable
from workloads.lifecycle.journal import Journal
from workloads.lifecycle.status import lock
from workloads.models import EventKind, Status, Workload, WorkloadArray
from workloads.reasons import REFUSED

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User

OF_ENDED_JOBS = frozenset({"job-ended", "job-deleted"})
"""Why workloads are cancelled whose Jobs were made with kubectl."""
OWNER_ANNOTATION = "chamber.internal/owner"


def may_control(by: Actor, workload: Workload) -> bool:
    """Return whether the actor may cancel, hold, release and requeue it: its owner while they may submit to its
    team, and whoever manages the team's workloads. Team and owner should be loaded, and whether it was adopted.
    """
    return by.user is None or is_controlled_by(by.user, workload)


def is_controlled_by(user: "User | AnonymousUser", workload: Workload) -> bool:
    """Return whether somebody may cancel, hold, release and requeue it, as `may_control` has it."""
    if may(user, Permission.MANAGE_WORKLOADS, workload.team):
        return True
    if not may(user, Permission.SUBMIT, workload.team):
        return False
    return workload.owner_id == user.pk or (user.pk is not None and auditing.named_owner(workload) == user.pk)


def _require_control(by: Actor, workload: Workload) -> None:
    if may_control(by, workload):
        return
    if by.user is None or not may(by.user, Permission.VIEW_WORKLOADS, workload.team):
        raise no_such("workload", workload.slug)
    if getattr(workload, "adopted_job", None) is not None:
        raise NotAllowed(
            f"{workload.slug} was made with kubectl. It may be changed here by whom its Job names in the annotation "
            f"{OWNER_ANNOTATION}, and by who manages workloads in {workload.team.name}."
        )
    raise NotAllowed(
        f"{workload.slug} belongs to {workload.owner.get_username()}: "
        f"only its owner and who manages workloads in {workload.team.name} may change it."
    )


def cancel(*, by: Actor, workload: Workload) -> None:
    """End an open workload as Cancelled and have its pods stopped; a `Conflict` where it has already ended."""
    _require_control(by, workload)
    with logs.bind(workload=workload.slug), transaction.atomic():
        if not _do("cancel", [workload.pk], by):
            raise _too_late(workload, "cancelled")


def requeue(*, by: Actor, workload: Workload) -> None:
    """Put an ended workload back in the queue; a `Conflict` where it has not ended, its team was archived, or it came
    from a Job that cannot run again.
    """
    _require_control(by, workload)
    if _is_over_for_good(workload):
        raise Conflict(f"{workload.slug} cannot run again: {_last_words(workload)}")
    with logs.bind(workload=workload.slug), transaction.atomic():
        if not _of_active_teams([workload]):
            raise Conflict(f"{workload.team.name} was archived: nothing of it is run any more.")
        if problem := usable.problems([workload.pk]).get(workload.pk):
            raise Conflict(f"{workload.slug} cannot run again as it is. {problem}", code=usable.CODE)
        if not _do("requeue", [workload.pk], by):
            raise _too_late(workload, "requeued")


def hold(*, by: Actor, workload: Workload) -> None:
    """Keep a Pending workload from starting until it is released; a `Conflict` where it is not waiting."""
    _require_control(by, workload)
    with logs.bind(workload=workload.slug), transaction.atomic():
        if not _do("hold", [workload.pk], by):
            raise _too_late(workload, "held")


def release(*, by: Actor, workload: Workload) -> None:
    """Let a held workload start again; a `Conflict` where it is not held."""
    _require_control(by, workload)
    with logs.bind(workload=workload.slug), transaction.atomic():
        if not _do("release", [workload.pk], by):
            raise _too_late(workload, "released")


def hand_over(*, by: Actor, ids: Collection[UUID], to: "User") -> set[UUID]:
    """Make somebody else the owner of those of these workloads that are open; return which were.

    Whoever takes them over has to be one who may submit to each one's team. Who may hand them over, callers say.
    """
    with transaction.atomic():
        rows = [row for row in lock(ids).values() if row.is_open]
        teams = Team.objects.filter(pk__in={row.team_id for row in rows}).order_by("path")
        refused = [team.name for team in teams if not may(to, Permission.SUBMIT, team)]
        if refused:
            raise Refusal(
                f"{to.get_username()} may not submit workloads in {', '.join(refused)}, where some of these are; "
                "name somebody who may, or give them a role there first.",
                field="to",
            )
        auditing.record(by=by, act="hand-over", ids=[row.pk for row in rows], heir=to.get_username())
        owned = Workload.objects.filter(pk__in=[row.pk for row in rows])
        before = dict(owned.values_list("pk", "owner__username"))
        owned.update(owner=to, version=F("version") + 1)
        WorkloadArray.objects.filter(members__in=owned).update(owner=to)
        journal = Journal(by=by, at=timezone.now(), rows=rows)
        for row in rows:
            journal.add(row, EventKind.NOTE, f"Handed over from {before[row.pk]} to {to.get_username()}.")
        journal.write()
        live.announce(f"owner:{to.pk}")
    return {row.pk for row in rows}


def _is_over_for_good(workload: Workload) -> bool:
    """Return whether a workload came from a Job that has ended or is not there any more. Whether it was adopted should
    be loaded.
    """
    return workload.reason_code in OF_ENDED_JOBS and getattr(workload, "adopted_job", None) is not None


def _last_words(workload: Workload) -> str:
    """Return how it ended, and what to do."""
    told = (str(workload.reason.get(key, "")) for key in ("message", "next_step"))
    return " ".join(filter(None, told))


def _of_active_teams(workloads: Iterable[Workload]) -> list[Workload]:
    """Return those whose team is not archived, and keep it so until the transaction ends."""
    teams = Team.objects.filter(pk__in={workload.team_id for workload in workloads})
    keep(teams)
    active = set(teams.active().values_list("pk", flat=True))
    return [workload for workload in workloads if workload.team_id in active]


def _too_late(workload: Workload, wanted: str) -> Refusal:
    """Return why an act came to nothing, from the row as it is now."""
    now = Workload.objects.filter(pk=workload.pk).first()
    if now is None:
        return NotVisible(f"{workload.slug} ended so long ago that it is not kept any more.")
    if not now.is_open:
        return Conflict(f"{now.slug} has ended already ({now.get_status_display()}), so it was not {wanted}.")
    state = "held" if now.held else now.get_status_display()
    needs = {
        "requeued": "only what has ended can be requeued",
        "held": "only what waits and is not held can be held",
        "released": "only what is held can be released",
        "cancelled": "try again",
    }
    return Conflict(f"{now.slug} is {state}: {needs[wanted]}.")


def _set_held(ids: Iterable[UUID], *, held: bool, by: Actor, at: datetime) -> set[UUID]:
    """Hold or release Pending workloads; return the ids of those for which it was a change."""
    rows = [row for row in lock(ids).values() if row.status == Status.PENDING and row.held is not held]
    waiting = Workload.objects.filter(pk__in=[row.pk for row in rows], status=Status.PENDING, held=not held)
    code = "held" if held else ""
    changes: dict[str, Any] = {"held": held, "reason_code": code, "reason": {}, "version": F("version") + 1}
    if not held:  # what may be mended now needs no pause; one after a failed attempt stays
        refused = When(reason__kind=REFUSED, then=Value(None))
        changes["backoff_until"] = Case(refused, default=F("backoff_until"))
    if waiting.update(**changes) != len(rows):
        raise Conflict("Some of the workloads changed meanwhile; nothing was done.")
    journal = Journal(by=by, at=at, rows=rows)
    for row in rows:
        kind, word = (EventKind.HELD, "Held") if held else (EventKind.RELEASED, "Released")
        # Whoever releases it has mended what it was refused for: that is counted anew.
        data = {"status": row.status, **({} if held else {"anew": True})}
        journal.add(row, kind, f"{word}.", data=data)
    journal.write(ring=True)
    return {row.pk for row in rows}


BULK: dict[str, Callable[[Collection[UUID], Actor, datetime], set[UUID]]] = {
    "cancel": lambda ids, by, at: lifecycle.cancel_many(ids, by=by, at=at),
    "requeue": lambda ids, by, at: lifecycle.requeue_many(ids, by=by, at=at),
    "hold": lambda ids, by, at: _set_held(ids, held=True, by=by, at=at),
    "release": lambda ids, by, at: _set_held(ids, held=False, by=by, at=at),
}
"""What is done to those of some workloads whose state allows it. Who may do it, and what the audit trail tells of it,
callers say; they hold the transaction.
"""
BULK_ACTS = tuple(BULK)


def act_on_many(*, by: Actor, act: str, workloads: Sequence[Workload]) -> set[UUID]:
    """Do one of `BULK_ACTS` to those of the workloads that the actor controls and whose state allows it.

    Returns the ids of those it was done to; the others are left as they are. A constant number of queries, and one for
    each that is somebody else's.
    """
    theirs = [workload for workload in workloads if may_control(by, workload)]
    with transaction.atomic():
        if act == "requeue":
            theirs = [each for each in _of_active_teams(theirs) if not _is_over_for_good(each)]
            spoilt = usable.problems(each.pk for each in theirs)
            theirs = [each for each in theirs if each.pk not in spoilt]
        return _do(act, {workload.pk for workload in theirs}, by)


def cancel_all(*, by: Actor, ids: Collection[UUID]) -> set[UUID]:
    """Cancel those of these workloads that are open; return which were. Who may cancel them, callers say."""
    with transaction.atomic():
        return _do("cancel", ids, by)


def _do(act: str, ids: Collection[UUID], by: Actor) -> set[UUID]:
    """Do it to those whose state allows it, with a row of the audit trail for each of somebody else's; return which."""
    done = BULK[act](ids, by, timezone.now())
    auditing.record(by=by, act=act, ids=done)
    return done
