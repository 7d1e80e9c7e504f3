"""Data sources, and which workloads mount them."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from chamber.ids import new_id
from teams.models import Team
from workloads.data.querysets import DataSourceQuerySet
from workloads.models.workload import Workload


class SourceKind(models.TextChoices):
    """What a data source is: `workloads.data.values` says what each has."""

    CLAIM = "claim", "Claim of the cluster"
    NFS = "nfs", "NFS"
    S3 = "s3", "S3"


class DataSource(models.Model):
    """Something that pods mount or reach, by a name, of a team for whoever submits to it or below.

    `details` are, by kind, server and path (NFS) or the address (S3). Of a claim each cluster has its own.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    # No index of its own: the constraint's begins with it.
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="data_sources", db_index=False)
    name = models.CharField(max_length=40)
    kind = models.CharField(max_length=8, choices=SourceKind.choices)
    details = models.JSONField(default=dict)
    writable = models.BooleanField(default=False, help_text="Workloads may mount it to write.")
    credential = models.ForeignKey(
        "Credential", null=True, on_delete=models.SET_NULL, related_name="reads_sources"
    )
    credential_name = models.CharField(max_length=110, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(default=1)

    objects = DataSourceQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["name", "id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "name"], name="datasource_once_a_team"),
            models.CheckConstraint(condition=Q(kind__in=SourceKind.values), name="datasource_kind_known"),
        ]

    def __str__(self) -> str:
        return self.reference

    @property
    def reference(self) -> str:
        """Return how workloads name it from anywhere: `TEAM/NAME`. The team must be loaded."""
        return f"{self.team.slug}/{self.name}"


class MountedSource(models.Model):
    """A workload mounts a source, at this place of its `mounts`; None once that was deleted."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    # No index of its own: the constraint's begins with it.
    workload = models.ForeignKey(
        Workload, on_delete=models.CASCADE, related_name="mounted_sources", db_index=False
    )
    position = models.PositiveSmallIntegerField()
    source = models.ForeignKey(DataSource, null=True, on_delete=models.SET_NULL, related_name="mounted_by")

    class Meta:
        ordering: ClassVar = ["workload", "position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workload", "position"], name="mountedsource_once"),
        ]

    def __str__(self) -> str:
        return f"{self.workload} mounts {self.source or 'a data source that was deleted'}"
