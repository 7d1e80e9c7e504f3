"""Where clusters have data sources."""

from typing import ClassVar

from django.db import models

from agentlink.models.cluster import Cluster
from agentlink.querysets import DataLocationQuerySet
from chamber.ids import new_id
from workloads.models import DataSource


class DataLocation(models.Model):
    """A cluster has a data source. Of a claim, for pods of which namespace, and what it is called there.

    Pods mount only claims of their own namespace. `namespace` is empty for the agent's own, and of what is no claim.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    source = models.ForeignKey(DataSource, on_delete=models.CASCADE, related_name="locations", db_index=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="data_locations")
    namespace = models.CharField(max_length=63, blank=True)
    claim = models.CharField(max_length=253, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = DataLocationQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["source", "cluster", "namespace"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["source", "cluster", "namespace"], name="datalocation_once"),
        ]

    def __str__(self) -> str:
        return f"{self.source} in {self.cluster}"
