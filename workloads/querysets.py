"""Reading rules of workloads."""

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Exists, OuterRef

from teams.models import Team
from teams.permissions import Permission, paths_where

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User
    from teams.querysets import TeamQuerySet
    from workloads.models import Workload  # noqa: F401 - the base class below names it


class WorkloadQuerySet(models.QuerySet["Workload"]):
    """Workloads as somebody may see them."""

    def visible_to(self, user: "User | AnonymousUser") -> "WorkloadQuerySet":
        """Keep those whose name, owner, command and logs the user may see: of teams whose workloads he may
        view.

        Who may at the root sees all, without a filter. For others each row's team is looked up rather than the rows
        of each team gathered: a list then follows the index of its order and stops after a page.
        """
        paths = paths_where(user, Permission.VIEW_WORKLOADS)
        if any(path.count("/") == 2 for path in paths):
            return self.all()
        return self.of_teams(Team.objects.under_any(paths))

    def of_teams(self, teams: "TeamQuerySet") -> "WorkloadQuerySet":
        """Keep those whose team is one of `teams`, looked up for each row."""
        return self.filter(Exists(teams.order_by().filter(pk=OuterRef("team_id"))))

    def open(self) -> "WorkloadQuerySet":
        """Keep those that have not ended (an indexed part of the table)."""
        from workloads.models.workload import OPEN

        return self.filter(status__in=OPEN)
