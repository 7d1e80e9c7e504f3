"""What attempts said of themselves: checkpoints, progress, links."""

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from chamber.notes import MILLION
from workloads.models.attempt import Attempt


class AttemptNotes(models.Model):
    """The latest that an attempt said; what it never said is empty. When it saved last is `Attempt.checkpointed_at`.

    `first_progress_at` is from when the pace is counted: a resumed attempt does not begin at nothing.
    """

    attempt = models.OneToOneField(Attempt, primary_key=True, on_delete=models.CASCADE, related_name="notes")
    step = models.PositiveBigIntegerField(null=True)
    checkpoints = models.PositiveIntegerField(default=0, help_text="How many were taken.")
    event_at = models.DateTimeField(null=True, help_text="When an event told of a checkpoint last.")
    progress_millionths = models.PositiveIntegerField(null=True)
    progress_at = models.DateTimeField(null=True)
    first_progress_millionths = models.PositiveIntegerField(null=True)
    first_progress_at = models.DateTimeField(null=True)
    links = models.JSONField(default=dict, help_text="Addresses by name.")
    refused = models.PositiveIntegerField(default=0, help_text="How many notes were not taken.")
    problems = models.JSONField(default=list, help_text="Codes of problems of which an event has told.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(progress_millionths__isnull=True, progress_at__isnull=True)
                | Q(progress_millionths__lte=MILLION, progress_at__isnull=False),
                name="notes_progress_is_a_part_with_its_time",
            ),
            models.CheckConstraint(
                condition=Q(first_progress_at__isnull=True) | Q(first_progress_at__lte=F("progress_at")),
                name="notes_first_progress_is_no_later",
            ),
        ]

    def __str__(self) -> str:
        return f"Notes of {self.attempt}"


class Checkpoint(models.Model):
    """One that an attempt saved; of many, some between are let go of."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="checkpoints", db_index=False)
    at = models.DateTimeField()
    step = models.PositiveBigIntegerField()

    class Meta:
        ordering: ClassVar = ["attempt", "at"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["attempt", "at"], name="checkpoint_time_once"),
        ]

    def __str__(self) -> str:
        return f"{self.attempt}: step {self.step}"
