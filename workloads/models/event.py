"""What happened to a workload, in order, by whom; the database takes new rows only, and lets them go with it."""

from typing import ClassVar

from django.conf import settings
from django.db import models

from workloads.models.workload import Status, Workload


class EventKind(models.TextChoices):
    """What an event tells."""

    SUBMITTED = "submitted", "Submitted"
    STATUS = "status", "Status changed"
    HELD = "held", "Held"
    RELEASED = "released", "Released from hold"
    EDITED = "edited", "Edited"
    DEVICES_FREED = "devices-freed", "Devices free"
    LET_GO = "let-go", "Pods let go"
    GREW = "grew", "Grew"
    SHRANK = "shrank", "Shrank"
    PREEMPTED_OTHERS = "preempted-others", "Preempted others"
    REASON = "reason", "Reason changed"
    NOTE = "note", "Note"


class Event(models.Model):
    """One fact. `sequence` counts from 1 within a workload, without gaps."""

    workload = models.ForeignKey(Workload, on_delete=models.DO_NOTHING, related_name="events", db_index=False)
    sequence = models.PositiveIntegerField()
    at = models.DateTimeField()
    kind = models.CharField(max_length=16, choices=EventKind.choices)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    actor = models.CharField(max_length=150)
    via = models.CharField(max_length=10)
    attempt_number = models.PositiveIntegerField(null=True)
    message = models.TextField()
    data = models.JSONField(default=dict)

    class Meta:
        ordering: ClassVar = ["workload", "sequence"]
        indexes: ClassVar = [models.Index(fields=["at"], name="event_by_time")]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workload", "sequence"], name="event_sequence_once"),
        ]

    def __str__(self) -> str:
        return f"{self.workload} {self.sequence}: {self.message}"

    @property
    def status_word(self) -> str:
        """Return the status that a change led to, for the head of a line; empty where the message has it."""
        status = self.data.get("status", "") if self.kind == EventKind.STATUS else ""
        word = Status(status).label if status in Status.values else ""
        return "" if self.message.startswith(word) else word
