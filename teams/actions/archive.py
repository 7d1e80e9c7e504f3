"""Archiving a team with everything below it, and restoring it."""

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from chamber import live
from chamber.errors import Conflict, NotAllowed, Refusal
from teams import audit
from teams.actions.authority import bounded_at, may_change_limits, refuse_raised
from teams.actors import Actor
from teams.models import Team
from teams.permissions import Permission, require
from teams.picture import TreePicture, envelopes_exceeded, lock_teams

OPEN_STATUSES = ("pending", "queued", "starting", "running")
"""Statuses of workloads that are not over. Workloads lie above teams, so they are reached by the reverse
relation `Team.workloads` and named here by value; a test of theirs holds the two lists together."""


def archive_team(*, by: Actor, team: Team) -> Team:
    """Archive the team and all below it: they keep their history and take nothing new; return it.

    Refused while any of them has a workload that is not over. Their reservations count for nothing until
    they are restored.
    """
    with transaction.atomic():
        TreePicture.locked()
        team = _team_for(by, team)
        if team.is_archived:
            return team
        below = Team.objects.within(team).active()
        lock_teams(below)
        _refuse_while_open(team)
        below.update(archived_at=timezone.now(), version=F("version") + 1)
        return _tell(by, team, "team.archived")


def unarchive_team(*, by: Actor, team: Team) -> Team:
    """Restore the team and what was archived together with it; return it."""
    with transaction.atomic():
        before = TreePicture.locked()
        team = _team_for(by, team)
        if not team.is_archived:
            return team
        if team.parent and team.parent.is_archived:
            raise Conflict(f"{team.parent.name}, above {team.name}, is archived. Restore it first.")
        together = Team.objects.within(team).filter(archived_at=team.archived_at)
        after = before.with_teams(together.order_by("depth"))
        for excess in envelopes_exceeded(before, after):
            raise Refusal(excess.sentence, code="envelope-exceeded")
        refuse_raised(before, after, bounded_at(by, [(team, team.parent)]), "team")
        together.update(archived_at=None, version=F("version") + 1)
        return _tell(by, team, "team.restored")


def _team_for(by: Actor, team: Team) -> Team:
    """Return the stored team, for an actor who may archive and restore it: an admin above it."""
    team = Team.objects.select_related("parent").get(pk=team.pk)
    require(by, Permission.VIEW_TEAM, team)
    if team.parent is None:
        raise Refusal(f"{team.name} is the organisation; it cannot be archived.")
    if not may_change_limits(by, team, team.parent):
        raise NotAllowed(f"{team.name} is archived and restored by an admin above it.")
    return team


def _refuse_while_open(team: Team) -> None:
    busy = Team.objects.within(team).filter(workloads__status__in=OPEN_STATUSES)
    names = list(busy.order_by("path").values_list("name", flat=True))
    if names:
        where = "" if set(names) == {team.name} else f", in {', '.join(dict.fromkeys(names))}"
        count = f"{len(names)} workload{'s' if len(names) != 1 else ''}"
        raise Conflict(
            f"{team.name} has {count} waiting or running{where}. "
            "Cancel them or let them end, then archive it.",
            code="team-busy",
        )


def _tell(by: Actor, team: Team, action: str) -> Team:
    changed = Team.objects.get(pk=team.pk)
    audit.record(
        by=by,
        action=action,
        target=changed,
        before={"archived": team.is_archived},
        after={"archived": changed.is_archived},
    )
    live.announce("teams", "pools")
    live.ring()
    return changed
