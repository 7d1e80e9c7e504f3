"""Reading rules of data sources."""

from typing import TYPE_CHECKING

from django.db import models

from teams.models import Team
from teams.permissions import Permission, paths_where
from workloads.around import around

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User
    from workloads.models import DataSource  # noqa: F401 - the base below names it


class DataSourceQuerySet(models.QuerySet["DataSource"]):
    """Data sources as somebody may see and mount them."""

    def visible_to(self, user: "User | AnonymousUser") -> "DataSourceQuerySet":
        """Keep those of teams that the user may see, and of the teams above these: they hold there, too."""
        where = around(paths_where(user, Permission.VIEW_TEAM))
        if where is None:
            return self.none()
        return self.filter(team__in=Team.objects.filter(where).order_by().values("pk"))

    def usable_in(self, team: Team) -> "DataSourceQuerySet":
        """Keep those that workloads of a team may mount: its own, and those of the teams above it."""
        return self.filter(team__in=team.ancestor_ids())
