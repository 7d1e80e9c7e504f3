"""Rows of the audit trail for what people and service accounts do to workloads of others.

What they do to their own is told by the workload's events alone.
"""

from collections.abc import Collection
from uuid import UUID

from teams import audit
from teams.actors import Actor
from teams.models import Team
from workloads.models import Workload

WRITTEN_OF = ("slug", "owner__username", "owner__is_active", "team__path", "adopted_job__named_owner")
"""The last is a column of a room above, reached by the name of the relation."""

DONE = {
    "cancel": "workload.cancelled",
    "requeue": "workload.requeued",
    "hold": "workload.held",
    "release": "workload.released",
    "hand-over": "workload.handed-over",
}
"""How the trail calls each act."""


def record(*, by: Actor, act: str, ids: Collection[UUID], heir: str = "") -> None:
    """Add a row for each of these workloads that is not the actor's own, with its owner, and whose it becomes.

    Call it in the act's transaction, before its owner changes: one query, and one for each row. Parts of Chamber and
    agents act for nobody, and are told by the events.
    """
    if by.user is None or not ids:
        return
    rows = Workload.objects.filter(pk__in=ids).exclude(owner=by.user).order_by("pk")
    for row in rows.select_related("owner", "team", "adopted_job").only(*WRITTEN_OF):
        if named_owner(row) == by.user.pk:
            continue
        team: Team = row.team
        owner = {"owner": row.owner.get_username()}
        before, after = (owner, {"owner": heir}) if heir else ({}, owner)
        audit.record(by=by, action=DONE[act], target=row, team=team, before=before, after=after)


def named_owner(workload: Workload) -> UUID | None:
    """Return whom a Job made with kubectl names as its owner, for nobody can sign in as the owner of its workload.

    Reached by the name of the relation: the room that owns it lies above this one.
    """
    adopted = None if workload.owner.is_active else getattr(workload, "adopted_job", None)
    return getattr(adopted, "named_owner_id", None)
