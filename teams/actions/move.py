"""Moving a team, with everything below it, to another parent."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from django.db import transaction
from django.db.models import F, Value
from django.db.models.functions import Concat, Substr

from chamber import live
from chamber.errors import Conflict, NotAllowed, Refusal, StaleVersion
from teams import audit
from teams.actions.authority import bounded_at, refuse_raised
from teams.actors import Actor
from teams.models import Team
from teams.permissions import Permission, may, require
from teams.picture import TreePicture, envelopes_exceeded, lock_teams
from teams.sight import TOPIC
from teams.values import MAX_DEPTH


def move_team(*, by: Actor, team: Team, parent: Team, version: int | None = None) -> Team:
    """Put `team` and all below it under `parent`; return it as it is then.

    Its reservations go with it, so they must fit into the new parent's. Running workloads go on, and count
    where the team is from then on. Two updates, whatever the size of the subtree.
    """
    with transaction.atomic():
        before = TreePicture.locked()
        team = Team.objects.select_related("parent").get(pk=team.pk)
        parent = Team.objects.get(pk=parent.pk)
        _check(by, team, parent, before)
        if version is not None and version != team.version:
            raise StaleVersion(
                f"{team.name} was changed since you read it. Look again and repeat your change."
            )
        if team.parent_id == parent.pk:
            return team
        old = {"parent": team.parent.slug if team.parent else None}
        _write(team, parent)
        moved = Team.objects.get(pk=team.pk)
        audit.record(by=by, action="team.moved", target=moved, before=old, after={"parent": parent.slug})
        live.announce("teams", "pools", TOPIC)
        live.ring()
    return moved


def move_many(*, by: Actor, moves: Sequence[tuple[Team, Team]]) -> None:
    """Put each team under its new parent, all at once: circles and depth are those of the tree as it is then.

    The caller has locked the tree, asked `require_move` of each, and calls `refuse_misplaced` in the end. A few
    queries, whatever their number, and an audit row for each.
    """
    moves = [(team, parent) for team, parent in moves if team.parent_id != parent.pk]
    if not moves:
        return
    teams = Team.objects.in_bulk()
    parents = {
        **{team.pk: team.parent_id for team in teams.values()},
        **{team.pk: parent.pk for team, parent in moves},
    }
    for team, parent in moves:
        _refuse_circle(team, parent, parents)
    changed = _arrange(teams, parents)
    deepest = max(changed, key=lambda team: team.depth)
    if deepest.depth >= MAX_DEPTH:
        blamed = next(team for team, _ in moves if deepest.is_within(teams[team.pk]))
        raise _too_deep(deepest.depth + 1, f"{blamed.slug}.parent")
    lock_teams(Team.objects.filter(pk__in=[team.pk for team in changed]))
    Team.objects.bulk_update(changed, ["parent", "path", "depth", "version"], batch_size=500)
    for team, parent in moves:
        old = {"parent": team.parent.slug if team.parent else None}
        audit.record(
            by=by, action="team.moved", target=teams[team.pk], before=old, after={"parent": parent.slug}
        )
    live.announce("teams", "pools", TOPIC)
    live.ring()


def _refuse_circle(team: Team, parent: Team, parents: Mapping[UUID, UUID | None]) -> None:
    above: UUID | None = parent.pk
    seen = set()
    while above is not None and above not in seen:
        if above == team.pk:
            raise _below_itself(team, parent, f"{team.slug}.parent")
        seen.add(above)
        above = parents[above]


def _arrange(teams: Mapping[UUID, Team], parents: Mapping[UUID, UUID | None]) -> list[Team]:
    """Give teams the paths, depths and versions that follow from their parents; return those that are other."""
    children: dict[UUID | None, list[Team]] = {}
    for team_id, parent_id in parents.items():
        children.setdefault(parent_id, []).append(teams[team_id])
    waiting, changed = [*children[None]], []
    while waiting:
        parent = waiting.pop()
        for team in children.get(parent.pk, ()):
            waiting.append(team)
            path = Team.path_under(parent, team.pk)
            if path != team.path:
                team.parent, team.path, team.depth = parent, path, parent.depth + 1
                team.version += 1
                changed.append(team)
    return changed


def require_move(by: Actor, team: Team, parent: Team) -> None:
    """Refuse to move what cannot be moved, there or by this actor; both teams are as they are stored."""
    require(by, Permission.VIEW_TEAM, team)
    require(by, Permission.VIEW_TEAM, parent)
    if team.parent is None:
        raise Refusal(f"{team.name} is the organisation; it cannot be moved.", field="parent")
    if by.user is not None:
        places = [place for place in (team.parent, parent) if not may(by.user, Permission.MANAGE_TEAM, place)]
        if places:
            named = places[0].name if may(by.user, Permission.VIEW_TEAM, places[0]) else "the team above it"
            raise NotAllowed(f"To move {team.name} you need to be an admin of {named}, too.")
    if parent.is_archived or team.is_archived:
        archived = parent if parent.is_archived else team
        raise Conflict(f"{archived.name} is archived. Restore it before anything is moved.")


def _below_itself(team: Team, parent: Team, field: str) -> Refusal:
    where = "itself" if parent.pk == team.pk else f"{parent.name}, which is below it"
    return Refusal(f"{team.name} cannot be moved under {where}.", field=field)


def _too_deep(levels: int, field: str) -> Refusal:
    return Refusal(f"The tree would have {levels} levels there; {MAX_DEPTH} is the most.", field=field)


def _check(by: Actor, team: Team, parent: Team, before: TreePicture) -> None:
    require_move(by, team, parent)
    if parent.is_within(team):
        raise _below_itself(team, parent, "parent")
    _check_depth(team, parent)
    after = before.with_parent(team.pk, parent.pk)
    for excess in envelopes_exceeded(before, after):
        raise Refusal(excess.sentence, field="parent", code="envelope-exceeded")
    refuse_raised(before, after, bounded_at(by, [(team, team.parent), (team, parent)]), "parent")


def _check_depth(team: Team, parent: Team) -> None:
    deepest = Team.objects.within(team).order_by("-depth").values_list("depth", flat=True)[0]
    levels = deepest - team.depth + parent.depth + 2
    if levels > MAX_DEPTH:
        raise _too_deep(levels, "parent")


def _write(team: Team, parent: Team) -> None:
    """Set the parent, then every path and depth of the subtree in one statement."""
    lock_teams(Team.objects.within(team))
    path = Team.path_under(parent, team.pk)
    deeper = parent.depth + 1 - team.depth
    Team.objects.filter(pk=team.pk).update(parent=parent)
    Team.objects.within(team).update(
        path=Concat(Value(path), Substr("path", len(team.path) + 1)),
        depth=F("depth") + deeper,
        version=F("version") + 1,
    )
