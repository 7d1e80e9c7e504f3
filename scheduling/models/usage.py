"""Samples of what teams hold, one a minute, for fairness by usage and for reports."""

from typing import ClassVar

from django.db import models

from teams.models import Pool, Team


class UsageSample(models.Model):
    """Milli-GPUs that a team's own workloads (not its children's) held in a pool at a minute."""

    minute = models.DateTimeField()
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="+")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    reserved_milli = models.PositiveBigIntegerField()
    elastic_milli = models.PositiveBigIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["minute", "pool", "team"], name="usagesample_once"),
        ]

    def __str__(self) -> str:
        return f"{self.minute:%Y-%m-%d %H:%M} {self.team} in {self.pool}"
