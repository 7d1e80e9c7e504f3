"""The chain of the audit trail: rows that wait for their seal, seals in order, the chain's ends, and its last check."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from teams.models.audit import AuditEvent

DIGEST = 64
"""Characters of a SHA-256."""
SIGNED = 80
"""Characters of the id of a key, a colon and a SHA-256, with some to spare."""


class AuditUnsealed(models.Model):
    """A row of the trail that is in the chain not yet. A trigger adds one with each row, whoever wrote that."""

    event = models.OneToOneField(
        AuditEvent,
        primary_key=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        related_name="unsealed",
    )
    refused = models.BooleanField(default=False, help_text="Not written by Chamber, or changed since.")

    def __str__(self) -> str:
        return f"{self.event_id} {'refused' if self.refused else 'waiting'}"


class AuditSeal(models.Model):
    """The place of a row in the chain. `digest` is over the row, its number and the digest of the number before."""

    number = models.PositiveBigIntegerField(primary_key=True)
    event = models.OneToOneField(
        AuditEvent, on_delete=models.DO_NOTHING, db_constraint=False, related_name="seal"
    )
    digest = models.CharField(max_length=DIGEST)
    mac = models.CharField(
        max_length=SIGNED, help_text="Over the digest, by a key that is not in the database."
    )
    at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["number"]

    def __str__(self) -> str:
        return f"{self.number}:{self.digest}"


class AuditChain(models.Model):
    """One row: the ends of the chain. Whoever seals or forgets rows locks it."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    number = models.PositiveBigIntegerField(default=0, help_text="Of the last seal.")
    digest = models.CharField(max_length=DIGEST, blank=True)
    anchor_number = models.PositiveBigIntegerField(
        default=0, help_text="Of the last row that was deleted because of its age."
    )
    anchor_digest = models.CharField(max_length=DIGEST, blank=True)
    anchor_mac = models.CharField(max_length=SIGNED, blank=True)
    has_older = models.BooleanField(
        default=False, help_text="Rows from before the chain are not all sealed yet."
    )
    older_at = models.DateTimeField(null=True, help_text="Of the last of them that was sealed.")
    older_id = models.UUIDField(null=True)
    unmarked_until = models.DateTimeField(
        null=True, help_text="Until then processes of an older version write rows without their mark."
    )

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(condition=Q(id=1), name="auditchain_one_row")]

    def __str__(self) -> str:
        return f"rows {self.anchor_number + 1} to {self.number}"


class AuditCheck(models.Model):
    """One row: how far the chain was checked, when, and what did not fit."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    at = models.DateTimeField()
    number = models.PositiveBigIntegerField(default=0, help_text="It holds up to here.")
    digest = models.CharField(max_length=DIGEST, blank=True)
    fault = models.TextField(blank=True, help_text="The first row that does not fit; empty while all do.")
    whole_at = models.DateTimeField(null=True, help_text="When a check of every row last ended well.")
    whole_began_at = models.DateTimeField(null=True, help_text="Of the check of every row that goes on.")
    whole_number = models.PositiveBigIntegerField(default=0, help_text="How far that one is.")
    whole_digest = models.CharField(max_length=DIGEST, blank=True)

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(condition=Q(id=1), name="auditcheck_one_row")]

    def __str__(self) -> str:
        return self.fault or f"holds up to {self.number} at {self.at:%Y-%m-%d %H:%M}"
