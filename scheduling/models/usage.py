"""Samples of what teams hold, one a minute and of older days one an hour, for fairness by usage and for reports."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from teams.models import Pool, Team


class UsageSample(models.Model):
    """Milli-GPUs that a team's own workloads (not its children's) held in a pool, from `minute` on for `minutes`."""

    minute = models.DateTimeField()
    minutes = models.PositiveSmallIntegerField(default=1, help_text="1, or 60: the mean of an hour.")
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="+")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    reserved_milli = models.PositiveBigIntegerField()
    elastic_milli = models.PositiveBigIntegerField()

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["minute"], condition=Q(minutes=1), name="usagesample_not_rolled_up")
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["minute", "pool", "team"], name="usagesample_once"),
        ]

    def __str__(self) -> str:
        return f"{self.minute:%Y-%m-%d %H:%M} {self.team} in {self.pool}"
