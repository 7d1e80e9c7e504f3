"""The one table of what each role may do, and the one rule of where: a binding reaches its team and below.

Pages, API, sockets and the command line ask `may` or filter by `paths_where`; none has rules of its own.
"""

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.db.models import Q

from chamber.bounds import bind, bounds_of
from chamber.errors import NotAllowed, NotVisible
from teams.models import Binding, Role, Team

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User
    from teams.actors import Actor


class Permission(StrEnum):
    """What may be done, always on a team."""

    VIEW_TEAM = "view team"
    VIEW_WORKLOADS = "view workloads"
    SUBMIT = "submit workloads"
    MANAGE_WORKLOADS = "manage workloads"
    MANAGE_MEMBERS = "manage members"
    MANAGE_CREDENTIALS = "manage credentials"
    MANAGE_CATALOGUE = "change environments and data sources"
    SPLIT_AMONG_CHILDREN = "change the split among child teams"
    NARROW_CLASSES = "narrow job classes"
    MANAGE_TEAM = "change teams, reservations and limits"
    MANAGE_POOLS = "change pools"
    OPERATE_CLUSTERS = "connect and drain clusters"
    VIEW_AUDIT = "read the audit trail"
    MANAGE_GROUPS = "change groups of people"
    MANAGE_PEOPLE = "manage accounts"
    MANAGE_CLASSES = "change job classes and priority tiers"


_VIEW = frozenset({Permission.VIEW_TEAM, Permission.VIEW_WORKLOADS})
_RESEARCHER = _VIEW | {Permission.SUBMIT}
_LEAD = _RESEARCHER | {
    Permission.MANAGE_WORKLOADS,
    Permission.MANAGE_MEMBERS,
    Permission.MANAGE_CREDENTIALS,
    Permission.MANAGE_CATALOGUE,
    Permission.SPLIT_AMONG_CHILDREN,
    Permission.NARROW_CLASSES,
}
_ADMIN = _LEAD | {Permission.MANAGE_TEAM, Permission.VIEW_AUDIT}

PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: _VIEW,
    Role.RESEARCHER: _RESEARCHER,
    Role.LEAD: _LEAD,
    Role.ADMIN: _ADMIN,
    Role.ORG_ADMIN: frozenset(Permission),
    Role.OPERATOR: _VIEW | {Permission.MANAGE_POOLS, Permission.OPERATE_CLUSTERS},
    Role.AUDITOR: _VIEW | {Permission.VIEW_AUDIT},
}

GRANTS: dict[Role, frozenset[Role]] = {
    Role.LEAD: frozenset({Role.VIEWER, Role.RESEARCHER, Role.LEAD}),
    Role.ADMIN: frozenset({Role.VIEWER, Role.RESEARCHER, Role.LEAD, Role.ADMIN}),
    Role.ORG_ADMIN: frozenset(Role),
}
"""Which roles somebody may give and take, where their own reaches."""

OF_SCOPE: dict[str, frozenset[Permission]] = {
    "read": _VIEW,
    "submit": _RESEARCHER | {Permission.MANAGE_WORKLOADS},
    "manage": _LEAD,
    "admin": frozenset(Permission),
}
"""What of its holder's permissions a token of each scope may change things with; it may read with all of them."""

BELOW_THE_ROOT = {Role.ORG_ADMIN: Role.ADMIN, Role.OPERATOR: Role.VIEWER}
"""What is left of a role of the whole organisation in a part of it."""


def as_of_now(user: "User") -> "User | None":
    """Return the person as they are stored now, bound as this object is; None for whom was disabled (one query)."""
    rows: Any = get_user_model().objects
    now: User | None = rows.filter(pk=user.pk, is_active=True).first()
    if now is not None:
        bind(now, bounds_of(user))
    return now


def acting_now(by: "Actor") -> "Actor":
    """Return the actor with the roles of now, which the lock of the tree keeps; refuse who was put out meanwhile."""
    if by.user is None:
        return by
    now = as_of_now(by.user)
    if now is None:
        raise NotAllowed(f"The account {by.name} is disabled.")
    return replace(by, user=now)


def roles_by_path(user: "User | AnonymousUser") -> dict[str, set[Role]]:
    """Return the user's roles by the path of the team they are bound to (one query, kept on the user)."""
    if not user.is_authenticated:
        return {}
    kept: dict[str, set[Role]] | None = getattr(user, "_chamber_roles", None)
    if kept is None:
        kept = {}
        bindings = Binding.objects.filter(Q(user=user.pk) | Q(group__user=user.pk))
        for path, role in bindings.values_list("team__path", "role"):
            kept.setdefault(path, set()).add(Role(role))
        kept = _within(bounds_of(user).path, kept)
        user._chamber_roles = kept  # type: ignore[attr-defined]
    return kept


def people_where(permission: Permission, user_ids: "Iterable[Any]") -> dict[Any, list[str]]:
    """Return below which paths each of these people has `permission`, by id (1 query)."""
    roles = [role for role, given in PERMISSIONS.items() if permission in given]
    wanted = set(user_ids)
    bindings = Binding.objects.filter(
        Q(user__in=wanted) | Q(group__user__in=wanted), role__in=roles
    ).order_by()
    found: dict[Any, list[str]] = {}
    for user, of_group, path in bindings.values_list("user", "group__user", "team__path"):
        found.setdefault(of_group if user is None else user, []).append(path)
    return found


def _within(place: str, given: dict[str, set[Role]]) -> dict[str, set[Role]]:
    """Return the roles by path that reach a part of the tree, from where they reach it."""
    left: dict[str, set[Role]] = {}
    for path, roles in given.items():
        if path.startswith(place):
            left.setdefault(path, set()).update(roles)
        elif place.startswith(path):
            left.setdefault(place, set()).update(BELOW_THE_ROOT.get(role, role) for role in roles)
    return left


def paths_where(user: "User | AnonymousUser", permission: Permission) -> list[str]:
    """Return the outermost team paths below which the user has `permission`."""
    if permission not in OF_SCOPE[bounds_of(user).scope]:
        return []
    return outermost(
        path
        for path, roles in roles_by_path(user).items()
        if any(permission in PERMISSIONS[role] for role in roles)
    )


def outermost(paths: Iterable[str]) -> list[str]:
    """Return those of the paths that are below none of the others, in order."""
    found: list[str] = []
    for path in sorted(paths):
        if not found or not path.startswith(found[-1]):
            found.append(path)
    return found


def roles_on(user: "User | AnonymousUser", team: Team) -> set[Role]:
    """Return the roles that reach `team`."""
    return {
        role for path, roles in roles_by_path(user).items() if team.path.startswith(path) for role in roles
    }


def may(user: "User | AnonymousUser", permission: Permission, team: Team) -> bool:
    """Return whether the user has `permission` on `team`."""
    return any(team.path.startswith(path) for path in paths_where(user, permission))


def grantable(user: "User | AnonymousUser", team: Team) -> list[Role]:
    """Return the roles that the user may give and take on `team`, in the order of the table."""
    given = {role for own in roles_on(user, team) for role in GRANTS.get(own, frozenset())}
    allowed = OF_SCOPE[bounds_of(user).scope]
    return [
        role
        for role in Role
        if role in given and PERMISSIONS[role] <= allowed and (team.depth == 0 or not role.only_at_root)
    ]


def grantable_anywhere(user: "User | AnonymousUser") -> list[Role]:
    """Return the roles that the user may give on some team, in the order of the table."""
    given = {
        role
        for roles in roles_by_path(user).values()
        for own in roles
        for role in GRANTS.get(own, frozenset())
    }
    allowed = OF_SCOPE[bounds_of(user).scope]
    return [role for role in Role if role in given and PERMISSIONS[role] <= allowed]


def may_anywhere(user: "User | AnonymousUser", permission: Permission) -> bool:
    """Return whether the user has `permission` on any team at all."""
    return bool(paths_where(user, permission))


def require(by: "Actor", permission: Permission, team: Team) -> None:
    """Raise `NotVisible` where the actor may not see the team, `NotAllowed` where only this is not given."""
    if by.user is None or may(by.user, permission, team):
        return
    if not may(by.user, Permission.VIEW_TEAM, team):
        raise NotVisible(f"There is no team {team.slug!r}.")
    raise NotAllowed(f"Your role does not let you {permission.value} in {team.name}.")
