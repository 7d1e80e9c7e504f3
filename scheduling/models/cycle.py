"""The scheduler's fence, and a record of each cycle from which it can be replayed."""

from typing import ClassVar

from django.db import models
from django.db.models import Q


class Clock(models.Model):
    """One row. Applying a plan begins with raising `cycle` from the value that the snapshot was taken at."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    cycle = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(condition=Q(id=1), name="clock_one_row")]

    def __str__(self) -> str:
        return f"cycle {self.cycle}"


class Cycle(models.Model):
    """One run of snapshot, decide, apply, tell.

    `plan` is what it tells people (`explain.stored_plan`), empty where the engine failed, and where the next cycle
    followed at once and told instead; `snapshot` what it was made for, kept where a workload was preempted, where the
    engine failed, and now and then. Both are compressed JSON.
    """

    number = models.PositiveBigIntegerField(primary_key=True)
    began_at = models.DateTimeField(db_index=True)
    took_ms = models.PositiveIntegerField(help_text="All three steps.")
    decide_ms = models.PositiveIntegerField()
    ran_by = models.CharField(max_length=120, help_text="Process that ran it.")
    figures = models.JSONField(help_text="Pools and teams after the plan; counts of decisions.")
    plan = models.BinaryField()
    snapshot = models.BinaryField()
    decisions = models.PositiveIntegerField(
        help_text="Starts, preemptions, growths and shrinks that were applied."
    )
    left_out = models.PositiveIntegerField(default=0, help_text="Decisions whose rows had changed meanwhile.")

    def __str__(self) -> str:
        return f"cycle {self.number}"
