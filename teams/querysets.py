"""Reading rules of the tree, its pools and its audit trail."""

from typing import TYPE_CHECKING, Any, Self

from django.db import models
from django.db.models import Q

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User
    from teams.models import (  # noqa: F401 - the bases below name them
        AuditEvent,
        JobClass,
        Pool,
        PriorityTier,
        Team,
    )


class TeamQuerySet(models.QuerySet["Team"]):
    """Teams as somebody may see them."""

    def active(self) -> Self:
        """Leave out archived teams."""
        return self.filter(archived_at__isnull=True)

    def within(self, team: "Team") -> Self:
        """Keep `team` and all below it (one indexed prefix)."""
        return self.filter(path__startswith=team.path)

    def visible_to(self, user: "User | AnonymousUser") -> Self:
        """Keep the teams in which the user has any role, and those below (one query for the bindings)."""
        from teams.permissions import Permission, paths_where

        return self.under_any(paths_where(user, Permission.VIEW_TEAM))

    def under_any(self, paths: "list[str]", **extra: Any) -> Self:
        """Keep teams whose path begins with one of `paths`."""
        if not paths:
            return self.none()
        wanted = Q()
        for path in paths:
            wanted |= Q(path__startswith=path)
        return self.filter(wanted, **extra)


class PoolQuerySet(models.QuerySet["Pool"]):
    """Pools: whoever has a role anywhere may see all, for the whole organisation shares them."""

    def visible_to(self, user: "User | AnonymousUser") -> Self:
        """Keep all for members of the organisation, none for others."""
        from teams.permissions import Permission, may_anywhere

        return self.all() if may_anywhere(user, Permission.VIEW_TEAM) else self.none()


class PriorityTierQuerySet(models.QuerySet["PriorityTier"]):
    """Priority tiers, which are the whole organisation's."""

    def visible_to(self, user: "User | AnonymousUser") -> Self:
        """Keep all for members of the organisation, none for others."""
        from teams.permissions import Permission, may_anywhere

        return self.all() if may_anywhere(user, Permission.VIEW_TEAM) else self.none()


class JobClassQuerySet(models.QuerySet["JobClass"]):
    """Job classes, which are the whole organisation's."""

    def visible_to(self, user: "User | AnonymousUser") -> Self:
        """Keep all for members of the organisation, none for others."""
        from teams.permissions import Permission, may_anywhere

        return self.all() if may_anywhere(user, Permission.VIEW_TEAM) else self.none()


class AuditEventQuerySet(models.QuerySet["AuditEvent"]):
    """The audit trail as somebody may read it."""

    def visible_to(self, user: "User | AnonymousUser") -> Self:
        """Keep the rows of teams on which the user may read the trail; at the root, all rows."""
        from teams.permissions import Permission, paths_where

        ids = [path.strip("/").split("/") for path in paths_where(user, Permission.VIEW_AUDIT)]
        if any(len(way) == 1 for way in ids):
            return self.all()
        if not ids:
            return self.none()
        # By the id somewhere in the path rather than by prefix: a team that was moved keeps its history.
        wanted = Q()
        for way in ids:
            wanted |= Q(team_path__contains=f"/{way[-1]}/")
        return self.filter(wanted)

    def about(self, team: "Team") -> Self:
        """Keep what was done to `team`, its members, shares and rules, wherever in the tree it was then."""
        return self.filter(team_path__endswith=f"/{team.pk.hex}/")
