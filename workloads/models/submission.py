"""What ties requests and workloads together: idempotency keys, and who waits for whom."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from chamber.ids import new_id
from workloads.models.workload import Workload


class SubmissionKey(models.Model):
    """An Idempotency-Key that was used: the same body gives the same workloads, another one is refused."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    body_sha256 = models.CharField(max_length=64)
    workload_ids = models.JSONField(help_text="In the order of the request.")
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["owner", "key"], name="submissionkey_once")]

    def __str__(self) -> str:
        return f"{self.owner}: {self.key}"


class Dependency(models.Model):
    """`workload` starts only after `needs` has completed."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="needs")
    needs = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="needed_by")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural: ClassVar = "dependencies"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workload", "needs"], name="dependency_once"),
            models.CheckConstraint(condition=~Q(workload=F("needs")), name="dependency_not_on_itself"),
        ]

    def __str__(self) -> str:
        return f"{self.workload} after {self.needs}"
