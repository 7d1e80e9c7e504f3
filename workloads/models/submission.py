"""What ties requests and workloads together: idempotency keys, and who waits for whom."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from chamber.ids import new_id
from workloads.models.array import WorkloadArray
from workloads.models.workload import Workload


class SubmissionKey(models.Model):
    """An Idempotency-Key that was used: the same body gives the same workloads, another one is refused."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    body_sha256 = models.CharField(max_length=64)
    workload_ids = models.JSONField(help_text="In the order of the request.")
    array_ids = models.JSONField(null=True, help_text="Of the arrays that were submitted; empty = none.")
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["owner", "key"], name="submissionkey_once")]

    def __str__(self) -> str:
        return f"{self.owner}: {self.key}"


class DependencyKind(models.TextChoices):
    """Which end of what is needed lets a workload start."""

    AFTER_OK = "afterok", "After it has completed"
    AFTER_ANY = "afterany", "After it has ended"
    AFTER_NOT_OK = "afternotok", "After it has ended otherwise than completed"


class Dependency(models.Model):
    """`workload` starts only after `needs`, or all members of `needs_array`, ended as `kind` says."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="needs")
    needs = models.ForeignKey(Workload, null=True, on_delete=models.PROTECT, related_name="needed_by")
    needs_array = models.ForeignKey(
        WorkloadArray, null=True, on_delete=models.PROTECT, related_name="needed_by"
    )
    kind = models.CharField(
        max_length=10,
        choices=DependencyKind.choices,
        default=DependencyKind.AFTER_OK,
        db_default=DependencyKind.AFTER_OK,
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural: ClassVar = "dependencies"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workload", "needs"], name="dependency_once"),
            models.UniqueConstraint(
                fields=["workload", "needs_array"],
                condition=Q(needs_array__isnull=False),
                name="dependency_on_array_once",
            ),
            models.CheckConstraint(condition=~Q(workload=F("needs")), name="dependency_not_on_itself"),
            models.CheckConstraint(
                condition=Q(needs__isnull=False, needs_array__isnull=True)
                | Q(needs__isnull=True, needs_array__isnull=False),
                name="dependency_on_workload_or_array",
            ),
            models.CheckConstraint(condition=Q(kind__in=DependencyKind.values), name="dependency_kind_known"),
        ]

    def __str__(self) -> str:
        return f"{self.workload} {self.kind} {self.needs or self.needs_array}"
