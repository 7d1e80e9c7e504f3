"""Reading rules of clusters and nodes: whoever belongs to the organisation sees what it shares."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self

from django.db import models

from teams.models import Team
from teams.permissions import Permission, may_anywhere

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    # The bases below name them.
    from agentlink.models import BoundNamespace, Cluster, DataLocation, Node  # noqa: F401
    from chamber.models import User

DISCONNECTED_AFTER = timedelta(seconds=30)
"""Silence after which a cluster counts as disconnected and takes nothing new."""


class ClusterQuerySet(models.QuerySet["Cluster"]):
    """Clusters as somebody may see them."""

    def visible_to(self, user: "User | AnonymousUser") -> Self:
        """Keep all for members of the organisation, none for others."""
        return self.all() if may_anywhere(user, Permission.VIEW_TEAM) else self.none()

    def silent(self, now: datetime) -> Self:
        """Keep those that were heard once, and not for 30 seconds, whether or not a duty has marked them since."""
        return self.filter(last_seen_at__lte=now - DISCONNECTED_AFTER)


class NodeQuerySet(models.QuerySet["Node"]):
    """Nodes as somebody may see them."""

    def visible_to(self, user: "User | AnonymousUser") -> Self:
        """Keep all for members of the organisation, none for others."""
        return self.all() if may_anywhere(user, Permission.VIEW_TEAM) else self.none()

    def present(self) -> Self:
        """Leave out nodes that their agent no longer reports."""
        return self.filter(gone_at__isnull=True)


class BoundNamespaceQuerySet(models.QuerySet["BoundNamespace"]):
    """Namespaces that are bound to teams, as somebody may see them."""

    def visible_to(self, user: "User | AnonymousUser") -> Self:
        """Keep those of teams that the user may see."""
        return self.filter(team__in=Team.objects.visible_to(user))


class DataLocationQuerySet(models.QuerySet["DataLocation"]):
    """Where clusters have data sources, as somebody may see it who sees the source."""

    def visible_to(self, user: "User | AnonymousUser") -> Self:
        """Keep those of teams that the user may see; of teams above, those for pods that are not another team's: a
        namespace of a team tells of it, and so does what a claim there is called.
        """
        teams = Team.objects.visible_to(user).order_by().values("pk")
        own = DataLocationQuerySet(self.model).filter(
            cluster__namespaces__namespace=models.F("namespace"), cluster__namespaces__team__in=teams
        )
        return self.filter(
            models.Q(namespace="") | models.Q(source__team__in=teams) | models.Q(pk__in=own.values("pk"))
        )
