"""Environments, and their versions."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from chamber.ids import new_id
from teams.models import Team
from workloads.environments.querysets import EnvironmentQuerySet


class Environment(models.Model):
    """An image with its settings, by a name, of a team for whoever submits to it or below. What it has stands in its
    versions; `newest` is the number of the last.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    # No index of its own: the constraint's begins with it.
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="environments", db_index=False)
    name = models.CharField(max_length=40)
    newest = models.PositiveIntegerField(default=0)
    archived_at = models.DateTimeField(null=True, help_text="Since when submissions name it no more.")
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(default=1, help_text="Raised by every change of it.")

    objects = EnvironmentQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["name", "id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "name"], name="environment_once_a_team"),
        ]

    def __str__(self) -> str:
        return self.reference

    @property
    def reference(self) -> str:
        """Return how submissions name it from anywhere: `TEAM/NAME`. The team must be loaded."""
        return f"{self.team.slug}/{self.name}"

    @property
    def is_archived(self) -> bool:
        """Return whether submissions name it no more."""
        return self.archived_at is not None


class EnvironmentVersion(models.Model):
    """What an environment has; never changed. `pull_credential` is None also where that was deleted; then
    `pull_credential_name` says which it was.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    environment = models.ForeignKey(
        Environment, on_delete=models.CASCADE, related_name="versions", db_index=False
    )
    number = models.PositiveIntegerField()
    image = models.CharField(max_length=300)
    command = models.JSONField(default=list)
    variables = models.JSONField(default=dict)
    mounts = models.JSONField(default=list)
    working_dir = models.CharField(max_length=255, blank=True)
    shm_mib = models.PositiveIntegerField(null=True)
    scratch_mib = models.PositiveIntegerField(null=True)
    gpu_types = models.JSONField(default=list)
    node_selector = models.JSONField(default=dict)
    pull_credential = models.ForeignKey(
        "Credential", null=True, on_delete=models.SET_NULL, related_name="pulls_environments"
    )
    pull_credential_name = models.CharField(max_length=110, blank=True)
    note = models.CharField(max_length=200, blank=True, help_text="What is new in it.")
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["environment", "-number"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["environment", "number"], name="environmentversion_once"),
            models.CheckConstraint(condition=Q(number__gte=1), name="environmentversion_numbered_from_1"),
        ]

    def __str__(self) -> str:
        return self.reference

    @property
    def reference(self) -> str:
        """Return how submissions name it: `TEAM/NAME@NUMBER`. Environment and team must be loaded."""
        return f"{self.environment.reference}@{self.number}"
