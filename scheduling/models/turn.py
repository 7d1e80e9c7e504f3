"""Who is to decide: how often it was asked for, and which process does it now."""

from typing import ClassVar

from django.db import models
from django.db.models import Q


class Bell(models.Model):
    """One row. `rings` is raised by each process that asks for a cycle; a cycle answers all that it read before."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    rings = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(condition=Q(id=1), name="bell_one_row")]

    def __str__(self) -> str:
        return f"{self.rings} rings"


class Turn(models.Model):
    """One row: which process runs cycles, until when, and when a cycle last ended (`looked_at`), which one in which the
    engine failed has not.

    A lease by the database's clock, so that a second scheduler stands by instead of working for nothing. It is no
    lock: what makes a plan safe to apply is the fence, `Clock.cycle`.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    held_by = models.CharField(
        max_length=120, blank=True, help_text="Process that runs cycles; empty for none."
    )
    held_until = models.DateTimeField(null=True)
    looked_at = models.DateTimeField(
        null=True, help_text="When it last looked, whether or not there was anything."
    )

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(condition=Q(id=1), name="turn_one_row")]

    def __str__(self) -> str:
        return f"{self.held_by or 'nobody'} until {self.held_until}"
