"""Who may change what of the tree, and how far: rules about a team's place as well as about a role."""

from collections.abc import Iterable

from chamber.errors import NotAllowed, NotVisible, Refusal
from teams.actors import Actor
from teams.models import Role, Team
from teams.permissions import Permission, may, paths_where, roles_on
from teams.picture import TreePicture, guarantees_raised

SPLIT_KEYS = frozenset({"bursting_priority", "reservation_milli"})
"""What a lead may change of the teams below: how they divide what the lead's team was given."""
IDENTITY_KEYS = frozenset({"name", "slug"})


def require_edit(by: Actor, team: Team, parent: Team | None, keys: Iterable[str]) -> None:
    """Refuse an actor who may not change `keys` of `team`.

    Names are an admin's, also of the admin's own team. Limits and reservations come from above: they are
    changed by an admin of the parent, of the root by an organisation admin; a lead of the parent may divide.
    """
    if by.user is None:
        return
    if not may(by.user, Permission.VIEW_TEAM, team):
        raise NotVisible(f"There is no team {team.slug!r}.")
    wanted = set(keys)
    if wanted & IDENTITY_KEYS and not may(by.user, Permission.MANAGE_TEAM, team):
        raise NotAllowed(f"Your role does not let you rename {team.name}.")
    limits = wanted - IDENTITY_KEYS
    if limits and not _may_limit(by, team, parent, limits):
        above = f"an admin above {team.name}" if parent else "an organisation admin"
        raise NotAllowed(f"The limits and reservations of {team.name} are changed by {above}.")


def may_change_limits(by: Actor, team: Team, parent: Team | None) -> bool:
    """Return whether the actor may change all limits of the team."""
    if by.user is None:
        return True
    if parent is None:
        return Role.ORG_ADMIN in roles_on(by.user, team) and may(by.user, Permission.MANAGE_TEAM, team)
    return may(by.user, Permission.MANAGE_TEAM, parent)


def may_split(by: Actor, parent: Team | None) -> bool:
    """Return whether the actor may divide among the parent's children what the parent was given."""
    return parent is not None and (by.user is None or may(by.user, Permission.SPLIT_AMONG_CHILDREN, parent))


def _may_limit(by: Actor, team: Team, parent: Team | None, keys: set[str]) -> bool:
    return may_change_limits(by, team, parent) or (keys <= SPLIT_KEYS and may_split(by, parent))


def bounded_at(by: Actor, teams: Iterable[tuple[Team, Team | None]]) -> set[str]:
    """Return the paths of the teams whose guarantees the actor may divide but not raise.

    `teams` are those edited, each with its parent: for each it is the outermost team where the actor's role
    begins. An admin of the root has nobody above; what may be guaranteed there is bounded by nothing.
    """
    if by.user is None:
        return set()
    admin = paths_where(by.user, Permission.MANAGE_TEAM)
    lead = paths_where(by.user, Permission.SPLIT_AMONG_CHILDREN)
    bounds = set()
    for team, parent in teams:
        place = parent or team
        outermost = next((path for path in admin if place.path.startswith(path)), None)
        if outermost is None:
            outermost = next((path for path in lead if place.path.startswith(path)), None)
        elif outermost.count("/") == 2:  # the root itself: /<id>/
            continue
        if outermost is not None:
            bounds.add(outermost)
    return bounds


def refuse_raised(before: TreePicture, after: TreePicture, bounds: Iterable[str], field: str) -> None:
    """Refuse an edit that raises what a team is guaranteed, where the actor may only divide it."""
    ids = {node_id.hex: node_id for node_id in before.nodes}
    for path in sorted(bounds):
        for excess in guarantees_raised(before, after, ids[path.strip("/").rpartition("/")[2]]):
            raise Refusal(excess.sentence, field=field, code="beyond-what-was-given")
