"""A node of the organisation's tree; the root is the organisation itself."""

import uuid
from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from chamber.ids import new_id
from teams.querysets import TeamQuerySet


class Team(models.Model):
    """A team: a parent, a weight for the surplus, and limits. Quantities are milli-GPUs.

    `path` holds the ids from the root down to this team, each as 32 hexadecimal digits and a slash, so that a
    subtree is one indexed prefix: `/<root>/<child>/`. Only `teams.actions` writes it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=100)
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="children")
    path = models.CharField(max_length=33 * 32 + 1, unique=True, editable=False)
    depth = models.PositiveSmallIntegerField(editable=False)
    bursting_priority = models.PositiveSmallIntegerField(
        default=1, help_text="Weight from 1 to 10: the team's part of the surplus beside its siblings'."
    )
    burst_limit_percent = models.PositiveIntegerField(
        null=True, help_text="How far over its guarantee the team may go; 0 = no bursting, empty = no limit."
    )
    maximum_milli = models.PositiveBigIntegerField(
        null=True, help_text="Most the team may hold in any one pool, in milli-GPUs; empty = no limit."
    )
    archived_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(default=1)

    objects = TeamQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["path"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["depth"], condition=Q(depth=0), name="team_one_root"),
            models.CheckConstraint(
                condition=Q(parent__isnull=True, depth=0) | Q(parent__isnull=False, depth__gt=0),
                name="team_root_has_no_parent",
            ),
            models.CheckConstraint(condition=~Q(parent=F("id")), name="team_not_its_own_parent"),
            models.CheckConstraint(condition=Q(bursting_priority__range=(1, 10)), name="team_weight_1_to_10"),
            models.CheckConstraint(
                condition=Q(burst_limit_percent__isnull=True) | Q(burst_limit_percent__gte=0),
                name="team_burst_limit_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(maximum_milli__isnull=True) | Q(maximum_milli__gte=0),
                name="team_maximum_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_archived(self) -> bool:
        """Return whether the team was archived: it keeps its history and takes nothing new."""
        return self.archived_at is not None

    def is_within(self, other: "Team") -> bool:
        """Return whether this team is `other` or lies below it."""
        return self.path.startswith(other.path)

    def ancestor_ids(self) -> list[uuid.UUID]:
        """Return the ids from the root down to this team, its own last."""
        return [uuid.UUID(part) for part in self.path.strip("/").split("/")]

    @staticmethod
    def path_under(parent: "Team | None", team_id: uuid.UUID) -> str:
        """Return the path of a team with this id below `parent`."""
        return f"{parent.path if parent else '/'}{team_id.hex}/"
