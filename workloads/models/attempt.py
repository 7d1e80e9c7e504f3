"""One try to run a workload, from its allocation until its pods are gone."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from chamber.ids import new_id
from teams.models import Pool
from workloads.models.workload import Workload


class Phase(models.TextChoices):
    """How far an attempt has come; the workload's status follows it while the attempt is open."""

    QUEUED = "queued", "Queued"
    STARTING = "starting", "Starting"
    RUNNING = "running", "Running"
    OVER = "over", "Over"


class EndReason(models.TextChoices):
    """Why an attempt is over."""

    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    PREEMPTED = "preempted", "Preempted"
    CANCELLED = "cancelled", "Cancelled"
    REFUSED = "refused", "The cluster refused it"
    LOST = "lost", "Lost with its cluster"
    DISPLACED = "displaced", "Displaced"


class Attempt(models.Model):
    """`ended_at` empties the quota; `released_at`, when the cluster reports the pods gone, the devices.

    An open attempt that has an `end_reason` was displaced, and ends when its pods are known to be gone.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="attempts", db_index=False)
    number = models.PositiveIntegerField()
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="attempts")
    phase = models.CharField(max_length=8, choices=Phase.choices, default=Phase.QUEUED)
    allocation = models.JSONField(
        default=list, help_text='What it is charged to: [{"team": id or null for burst, "milli": n}, ...].'
    )
    gpus_milli = models.PositiveBigIntegerField(help_text="Milli-GPUs of all placed pods.")
    queued_at = models.DateTimeField()
    starting_at = models.DateTimeField(null=True)
    running_at = models.DateTimeField(null=True)
    checkpointed_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)
    end_reason = models.CharField(max_length=10, choices=EndReason.choices, blank=True)
    exit_code = models.IntegerField(null=True)
    end_detail = models.JSONField(default=dict, help_text="Message, by whom, which rule and level.")
    images = models.JSONField(
        null=True, blank=True, help_text="What its pods' nodes pulled, by digest; empty while nobody said."
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["workload", "number"]
        indexes: ClassVar = [
            models.Index(
                fields=["workload"], condition=Q(released_at__isnull=True), name="attempt_on_devices"
            ),
            models.Index(fields=["ended_at"], condition=Q(end_reason="preempted"), name="attempt_preempted"),
            models.Index(
                fields=["ended_at"],
                condition=Q(end_reason__in=("displaced", "lost")),
                name="attempt_displaced",
            ),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workload", "number"], name="attempt_number_once"),
            models.UniqueConstraint(
                fields=["workload"], condition=Q(ended_at__isnull=True), name="attempt_one_open_per_workload"
            ),
            models.CheckConstraint(condition=Q(phase__in=Phase.values), name="attempt_phase_known"),
            models.CheckConstraint(
                condition=Q(phase=Phase.OVER, ended_at__isnull=False)
                | (~Q(phase=Phase.OVER) & Q(ended_at__isnull=True)),
                name="attempt_over_has_end",
            ),
            models.CheckConstraint(
                condition=~Q(phase=Phase.RUNNING) | Q(starting_at__isnull=False, running_at__isnull=False),
                name="attempt_running_has_start",
            ),
            models.CheckConstraint(
                condition=Q(released_at__isnull=True) | Q(ended_at__isnull=False),
                name="attempt_released_is_over",
            ),
            models.CheckConstraint(condition=Q(number__gte=1), name="attempt_numbered_from_1"),
        ]

    def __str__(self) -> str:
        return f"{self.workload} #{self.number}"
