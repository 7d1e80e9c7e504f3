"""From when on history is kept: the one thing that lets rows of it be deleted."""

from typing import ClassVar

from django.db import models
from django.db.models import Q


class Horizon(models.Model):
    """One row. The database lets finished workloads and audit events be deleted that lie before `kept_from`.

    It refuses a moment within the last seven days, so that no mistake in a setting empties the tables.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    kept_from = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(condition=Q(id=1), name="horizon_one_row")]

    def __str__(self) -> str:
        return f"history is kept from {self.kept_from:%Y-%m-%d %H:%M} on"
