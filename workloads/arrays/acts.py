"""What people do to all members of an array at once: cancel, hold, release, and try failed ones again."""

from collections.abc import Collection
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from chamber import logs
from chamber.errors import Conflict, NotAllowed, no_such
from chamber.transactions import keep
from chamber.words import count
from teams import audit
from teams.actors import Actor
from teams.models import Team
from teams.permissions import Permission, may
from workloads import actions
from workloads.credentials import usable
from workloads.models import Status, Workload, WorkloadArray
from workloads.models.workload import OPEN
from workloads.querysets import WorkloadQuerySet

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User

RETRY = "retry"
ACTS = {"cancel": "cancel", "hold": "hold", "release": "release", RETRY: "requeue"}
"""What may be done to an array, and what each of its members then has done to it."""
DONE = {"cancel": "Cancelled", "hold": "Held", "release": "Released", RETRY: "Requeued"}
AUDITED = {
    "cancel": "array.cancelled",
    "hold": "array.held",
    "release": "array.released",
    RETRY: "array.retried",
}
NONE_LEFT = {
    "cancel": "has no member that is open, so none was cancelled",
    "hold": "has no member that waits and is not held, so none was held",
    "release": "has no member that is held, so none was released",
    RETRY: "has no member that failed, so none was requeued",
}


def is_controlled_by(user: "User | AnonymousUser", array: WorkloadArray) -> bool:
    """Return whether somebody may act on all members: its owner while they may submit to its team, and whoever manages
    the team's workloads. Its team must be loaded.
    """
    if may(user, Permission.MANAGE_WORKLOADS, array.team):
        return True
    return array.owner_id == user.pk and may(user, Permission.SUBMIT, array.team)


def concerned(array: WorkloadArray, act: str) -> WorkloadQuerySet:
    """Return the members to which it can be done, as they stand now.

    After a hand-over those that had ended are still of the one who left, and are not run again in that one's name.
    """
    members = Workload.objects.filter(array=array, owner=array.owner_id).order_by()
    if act == "cancel":
        return members.filter(status__in=OPEN)
    if act == RETRY:
        return members.filter(status=Status.FAILED)
    return members.filter(status=Status.PENDING, held=act == "release")


def act_on(*, by: Actor, array: WorkloadArray, act: str) -> int:
    """Do one of `ACTS` to all members whose status allows it; return to how many.

    A `Conflict` where there is none. One transaction, and one row of the audit trail where the array is somebody
    else's; each member has its event. The array's team and owner must be loaded.
    """
    _require_control(by, array)
    with logs.bind(array=array.slug), transaction.atomic():
        if act == RETRY:
            _require_active(array.team)
        ids = _usable(array, act, concerned(array, act).values_list("pk", flat=True))
        done = actions.BULK[ACTS[act]](ids, by, timezone.now())
        if not done:
            raise Conflict(f"{array.slug} {NONE_LEFT[act]}.")
        if by.user is not None and by.user.pk != array.owner_id:
            told = {"owner": array.owner.get_username(), "members": len(done)}
            audit.record(by=by, action=AUDITED[act], target=array, team=array.team, after=told)
    return len(done)


def sentence(array: WorkloadArray, act: str, done: int) -> str:
    """Return what was done, with how many of how many."""
    return f"{DONE[act]} {done:,} of {count(array.size, 'member')} of {array.name}."


def _require_control(by: Actor, array: WorkloadArray) -> None:
    if by.user is None or is_controlled_by(by.user, array):
        return
    if not may(by.user, Permission.VIEW_WORKLOADS, array.team):
        raise no_such("array", array.slug)
    raise NotAllowed(
        f"{array.slug} belongs to {array.owner.get_username()}: only its owner and who manages workloads in "
        f"{array.team.name} may change it."
    )


def _require_active(team: Team) -> None:
    """Refuse to run anything of an archived team, and keep the team as it is until the transaction ends."""
    rows = Team.objects.filter(pk=team.pk)
    keep(rows)
    if not rows.active().exists():
        raise Conflict(f"{team.name} was archived: nothing of it is run any more.")


def _usable(array: WorkloadArray, act: str, ids: Collection[UUID]) -> set[UUID]:
    """Return those of the members that may be handed what they name; a `Conflict` where none may."""
    wanted = set(ids)
    if act != RETRY or not wanted:
        return wanted
    spoilt = usable.problems(wanted)
    if spoilt.keys() >= wanted:
        raise Conflict(
            f"{array.slug} cannot run again as it is. {next(iter(spoilt.values()))}", code=usable.CODE
        )
    return wanted - spoilt.keys()
