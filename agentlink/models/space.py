"""Namespaces that are bound to teams, and the Jobs that people created there and Chamber runs."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from agentlink.models.cluster import Cluster
from agentlink.querysets import BoundNamespaceQuerySet
from chamber.ids import new_id
from teams.models import Team
from workloads.models import Workload


class BoundNamespace(models.Model):
    """A namespace of a cluster that is a team's: its workloads run there, and what is adopted there is the team's.

    `since` decides for each attempt: one that was placed before it stays in the agent's own namespace. `owner` owns
    what is adopted: nobody can sign in as it. The fields from `ready` on are what the agent last told.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="namespaces", db_index=False)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="namespaces")
    namespace = models.CharField(max_length=63)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    since = models.DateTimeField()
    ready = models.BooleanField(default=False, help_text="The agent keeps it.")
    problem = models.TextField(blank=True, help_text="Why the agent does not keep it.")
    security = models.CharField(
        max_length=60,
        blank=True,
        db_default="",
        help_text="The Pod Security level that pods there are held to.",
    )
    foreign_jobs = models.PositiveIntegerField(default=0, help_text="Jobs that run there without Chamber.")
    foreign_gpus = models.PositiveIntegerField(default=0)
    foreign_pods = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Pods with GPUs there that belong to no Job and not to Chamber."
    )
    foreign_pod_names = models.JSONField(null=True, help_text="The first of them.")
    refused = models.JSONField(
        default=list, help_text="Jobs that ask for adoption and were refused, with why."
    )
    unmanaged = models.JSONField(
        null=True,
        help_text="Objects of kinds that Chamber does not run, or for Kueue, with why, and how many.",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    objects = BoundNamespaceQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["cluster", "namespace"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "namespace"], name="boundnamespace_once"),
            models.UniqueConstraint(fields=["cluster", "team"], name="boundnamespace_one_per_team"),
            models.CheckConstraint(
                condition=~Q(namespace__startswith="kube-") & ~Q(namespace__in=("", "default")),
                name="boundnamespace_not_of_kubernetes",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.cluster}/{self.namespace}"

    @property
    def foreign_pods_named(self) -> list[str]:
        """Return the first of its pods with GPUs that are neither a Job's nor Chamber's."""
        return list(self.foreign_pod_names or ())

    @property
    def unmanaged_objects(self) -> list[dict[str, str]]:
        """Return the first of the objects that Chamber does not run: kind, name, and why."""
        return list(self.unmanaged["objects"]) if self.unmanaged else []

    @property
    def unmanaged_count(self) -> int:
        """Return how many objects there are that Chamber does not run."""
        return int(self.unmanaged["count"]) if self.unmanaged else 0


class AdoptedJob(models.Model):
    """The Job from which a workload came. A Job that was changed afterwards is adopted anew: only one is `current`."""

    workload = models.OneToOneField(
        Workload, primary_key=True, on_delete=models.CASCADE, related_name="adopted_job"
    )
    cluster = models.ForeignKey(
        Cluster, on_delete=models.PROTECT, related_name="adopted_jobs", db_index=False
    )
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=253)
    asked = models.CharField(max_length=64, help_text="Digest of what the Job asked for when it was taken.")
    revision = models.CharField(
        max_length=40, blank=True, db_default="", help_text="Digest of all that its people wrote of the Job."
    )
    note = models.TextField(blank=True, help_text="What was changed of what it asked for.")
    current = models.BooleanField(default=True)
    named_owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="Whom the Job's annotation names: they may steer it too.",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster", "uid"], condition=Q(current=True), name="adoptedjob_one_current"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.cluster}/{self.namespace}/{self.name}"
