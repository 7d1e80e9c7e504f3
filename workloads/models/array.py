"""An array: many workloads that were submitted as one, its members."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from chamber.ids import new_id
from teams.models import Team
from workloads.querysets import ArrayQuerySet


class WorkloadArray(models.Model):
    """What its members have in common, and how many of them run at once. Each member is a workload of its own."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.SlugField(max_length=60, unique=True, help_text="The name in URLs and on the command line.")
    name = models.CharField(max_length=100)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="arrays", db_index=False
    )
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="arrays", db_index=False)
    size = models.PositiveIntegerField(help_text="How many members it was submitted with.")
    max_parallel = models.PositiveIntegerField(
        null=True, help_text="How many members have GPUs at once at most; empty = any number."
    )
    parameters = models.JSONField(default=list, help_text="The names of its parameters.")
    asked = models.JSONField(
        default=dict, help_text="Its range, list or grid, as a submission says it again."
    )
    submitted_at = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(default=1)

    objects = ArrayQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-submitted_at", "-id"]
        indexes: ClassVar = [
            models.Index(fields=["-submitted_at", "-id"], name="array_newest"),
            models.Index(fields=["team", "-submitted_at"], name="array_by_team"),
            models.Index(fields=["owner", "-submitted_at"], name="array_by_owner"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(size__range=(1, 10_000)), name="array_of_1_to_10000"),
            models.CheckConstraint(
                condition=Q(max_parallel__isnull=True) | Q(max_parallel__gte=1),
                name="array_max_parallel_positive",
            ),
        ]

    def __str__(self) -> str:
        return self.slug
