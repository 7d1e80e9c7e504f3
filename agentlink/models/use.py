"""What attempts make of their GPUs, as the agents measure it: how it is now, and how it was."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from workloads.models import Attempt

HUNDRED = (0, 100)


class GpuUse(models.Model):
    """The last figure of an attempt, and which of its GPUs stand idle: held, and hardly used for a while.

    `quiet` has the GPUs that were hardly used in the last figure, each with the second since the epoch from which on.
    """

    attempt = models.OneToOneField(
        Attempt, primary_key=True, on_delete=models.CASCADE, related_name="gpu_use"
    )
    at = models.DateTimeField()
    gpus = models.PositiveIntegerField(help_text="How many were measured.")
    busy_percent = models.PositiveSmallIntegerField()
    tensor_percent = models.PositiveSmallIntegerField(null=True)
    memory_mib = models.PositiveBigIntegerField()
    power_watts = models.PositiveIntegerField(null=True)
    quiet = models.JSONField(default=dict)
    idle_milli = models.PositiveBigIntegerField(default=0)
    idle_since = models.DateTimeField(null=True, help_text="Of the GPU that has been idle for longest.")

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["at"], condition=Q(idle_milli__gt=0), name="gpuuse_idle"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(busy_percent__range=HUNDRED)
                & (Q(tensor_percent__isnull=True) | Q(tensor_percent__range=HUNDRED)),
                name="gpuuse_at_most_100_percent",
            ),
            models.CheckConstraint(
                condition=Q(idle_milli=0, idle_since__isnull=True)
                | Q(idle_milli__gt=0, idle_since__isnull=False),
                name="gpuuse_idle_has_since",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.attempt}: {self.busy_percent} %"


class GpuUseSample(models.Model):
    """What an attempt made of its GPUs from `minute` on for `minutes`: percentages are means of its GPUs, memory and
    power sums.
    """

    attempt = models.ForeignKey(
        Attempt, on_delete=models.CASCADE, related_name="gpu_use_samples", db_index=False
    )
    minute = models.DateTimeField()
    minutes = models.PositiveSmallIntegerField(default=1, help_text="1, or 60: the mean of an hour.")
    gpus = models.PositiveIntegerField()
    busy_percent = models.PositiveSmallIntegerField()
    tensor_percent = models.PositiveSmallIntegerField(null=True)
    memory_mib = models.PositiveBigIntegerField()
    power_watts = models.PositiveIntegerField(null=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["minute"], condition=Q(minutes=1), name="gpuusesample_not_rolled_up")
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["attempt", "minute"], name="gpuusesample_once"),
            models.CheckConstraint(
                condition=Q(busy_percent__range=HUNDRED)
                & (Q(tensor_percent__isnull=True) | Q(tensor_percent__range=HUNDRED)),
                name="gpuusesample_at_most_100_percent",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.minute:%Y-%m-%d %H:%M} {self.attempt}: {self.busy_percent} %"
