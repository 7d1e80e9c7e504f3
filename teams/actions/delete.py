"""Deleting what nothing hangs on any more: a team that never ran anything, a pool without nodes and history."""

from django.db import transaction
from django.db.models import ProtectedError

from chamber import live
from chamber.errors import Conflict, NotAllowed, Refusal
from teams import audit
from teams.actions.archive import OPEN_STATUSES
from teams.actions.authority import may_change_limits
from teams.actions.pools import described, require_pools
from teams.actors import Actor
from teams.models import Binding, Pool, Share, Team
from teams.permissions import Permission, require
from teams.picture import TreePicture, lock_teams, lock_tree
from teams.sight import TOPIC

CHANGED = "Something came to hang on {name} meanwhile. Look again."


def delete_team(*, by: Actor, team: Team) -> None:
    """Delete a team that has no teams below it and never had a workload, with its members' roles, shares and rules.

    One that has history is archived instead: the trail and the workloads name it.
    """
    with transaction.atomic():
        TreePicture.locked()
        team = Team.objects.select_related("parent").get(pk=team.pk)
        require(by, Permission.VIEW_TEAM, team)
        if team.parent is None:
            raise Refusal(f"{team.name} is the organisation; it cannot be deleted.")
        if not may_change_limits(by, team, team.parent):
            raise NotAllowed(f"{team.name} is deleted by an admin above it.")
        lock_teams(Team.objects.filter(pk=team.pk))
        _refuse_used(team)
        shares, members = Share.objects.filter(team=team), Binding.objects.filter(team=team)
        before = {
            "name": team.name,
            "slug": team.slug,
            "parent": team.parent.slug,
            "members": members.count(),
        }
        shares.delete()
        members.delete()
        # The trail keeps the place in the tree, where whoever may read about the team above finds it.
        audit.record(by=by, action="team.deleted", target=team, before=before, after={}, team=team)
        _delete(team)
        live.announce("teams", "pools", TOPIC)
        live.ring()


def _refuse_used(team: Team) -> None:
    below = Team.objects.filter(parent=team).count()
    if below:
        raise Conflict(
            f"{_counted(below, 'team')} {_lie(below)} below {team.name}. Move or delete {_them(below)} first.",
            code="team-in-use",
        )
    workloads = team.workloads.count()
    if workloads:
        open_now = team.workloads.filter(status__in=OPEN_STATUSES).count()
        what = f"{_counted(open_now, 'workload')} waiting or running" if open_now else ""
        ended = f"{_counted(workloads - open_now, 'workload')} in its history" if workloads > open_now else ""
        raise Conflict(
            f"{team.name} has {' and '.join(filter(None, [what, ended]))}, and a team with history is not deleted. "
            "Archive it instead.",
            code="team-in-use",
        )
    owned = team.service_accounts.count()
    if owned:
        raise Conflict(
            f"{team.name} owns {_counted(owned, 'service account')}. Give {_them(owned)} to another team first.",
            code="team-in-use",
        )
    bound = team.namespaces.count()
    if bound:
        raise Conflict(
            f"{_counted(bound, 'namespace')} {'is' if bound == 1 else 'are'} bound to {team.name}. "
            f"Unbind {_them(bound)} on the cluster's page first.",
            code="team-in-use",
        )


def delete_pool(*, by: Actor, pool: Pool) -> None:
    """Delete a pool that has no nodes and in which nothing waits or is remembered, with the teams' shares of it."""
    with transaction.atomic():
        lock_tree()
        require_pools(by)
        pool = Pool.objects.select_for_update().get(pk=pool.pk)
        _refuse_pool_used(pool)
        Share.objects.filter(pool=pool).delete()
        audit.record(by=by, action="pool.deleted", target=pool, before=described(pool), after={})
        _delete(pool)
        live.announce("pools", "teams", f"queue:{pool.slug}")
        live.ring()


def _refuse_pool_used(pool: Pool) -> None:
    nodes = pool.nodes.filter(gone_at__isnull=True).count()
    if nodes:
        raise Conflict(
            f"{pool.name} has {_counted(nodes, 'node')}. Have another pool's selector pick {_them(nodes)} first, or "
            "have this one's pick none.",
            code="pool-in-use",
        )
    named = Team.objects.filter(workloads__status__in=OPEN_STATUSES).values_list(
        "workloads__pool_choice", flat=True
    )
    waiting = sum(str(pool.pk) in choice for choice in named.iterator())
    waiting = waiting or pool.workloads.filter(status__in=OPEN_STATUSES).count()
    if waiting:
        raise Conflict(
            f"{_counted(waiting, 'workload')} {'waits for or runs' if waiting == 1 else 'wait for or run'} in "
            f"{pool.name}. Cancel {_them(waiting)} or let {_them(waiting)} end first.",
            code="pool-in-use",
        )
    ended = pool.attempts.count() or pool.workloads.count()
    if ended:
        raise Conflict(
            f"The history has {_counted(ended, 'run')} in {pool.name}; it can be deleted once they are no longer kept. "
            "Until then, pause it.",
            code="pool-in-use",
        )
    guaranteed = list(
        Share.objects.filter(pool=pool, reservation_milli__gt=0)
        .order_by("team__path")
        .values_list("team__name")
    )
    if guaranteed:
        names = ", ".join(name for (name,) in guaranteed[:3])
        more = f" and {len(guaranteed) - 3} more" if len(guaranteed) > 3 else ""
        raise Conflict(
            f"{names}{more} {'has a guarantee' if len(guaranteed) == 1 else 'have guarantees'} in {pool.name}. "
            f"Take {_them(len(guaranteed))} back first.",
            code="pool-in-use",
        )


def _delete(row: Team | Pool) -> None:
    try:
        row.delete()
    except ProtectedError as error:
        raise Conflict(CHANGED.format(name=row)) from error


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _them(count: int) -> str:
    return "it" if count == 1 else "them"


def _lie(count: int) -> str:
    return "lies" if count == 1 else "lie"
