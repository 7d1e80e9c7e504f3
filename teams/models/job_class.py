"""The organisation's job classes and priority tiers, and what teams narrow of the classes."""

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q

from chamber.ids import new_id
from teams.models.binding import Role
from teams.models.team import Team
from teams.querysets import JobClassQuerySet, PriorityTierQuerySet

RESERVED_FROM = 100
"""Workloads of this priority and above are reserved; below they are elastic."""
MOST_PRIORITY = 1_000_000
LONGEST_LIMIT_SECONDS = 10 * 365 * 86400
MOST_RETRIES = 100
TIER_ROLES = (Role.RESEARCHER, Role.LEAD, Role.ADMIN)
"""Roles that a tier may ask for, the least first."""


class OnPreemption(models.TextChoices):
    """What becomes of a workload that is preempted."""

    REQUEUE = "requeue", "Back to the queue"
    STOP = "stop", "End as Preempted"


class DeviceSharing(models.TextChoices):
    """Which workloads of a class share a GPU with others: those that ask for a part of one, strictest last."""

    ALWAYS = "always", "Elastic and reserved work"
    ELASTIC = "elastic", "Elastic work only"
    NEVER = "never", "None"

    @property
    def strictness(self) -> int:
        """Return how little it lets share: 0 lets all."""
        return list(DeviceSharing).index(self)


class PriorityTier(models.Model):
    """A named priority. It covers the priorities from its number up to the next tier's.

    `least_role` is the least role on a team that may use these; `priority_classes` are the PriorityClasses whose Jobs,
    made with kubectl, have the tier's priority.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.SlugField(max_length=40, unique=True, help_text="What submissions call it.")
    name = models.CharField(max_length=60)
    priority = models.PositiveIntegerField(unique=True)
    least_role = models.CharField(max_length=12, choices=Role.choices, default=Role.RESEARCHER)
    priority_classes = models.JSONField(
        default=list, blank=True, help_text="PriorityClasses of Jobs made with kubectl."
    )
    retired_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(default=1)

    objects = PriorityTierQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["priority"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(priority__lte=MOST_PRIORITY), name="tier_priority_bounded"),
            models.CheckConstraint(condition=Q(least_role__in=TIER_ROLES), name="tier_role_known"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_reserved(self) -> bool:
        """Return whether its workloads are reserved: inside a guarantee, never preempted."""
        return self.priority >= RESERVED_FROM

    @property
    def is_retired(self) -> bool:
        """Return whether submissions may not name it any more."""
        return self.retired_at is not None


class JobClass(models.Model):
    """What kind of work a workload is, and what it has where its submission says nothing."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    # As long as the column of workloads, which keep the name whatever becomes of the class.
    slug = models.SlugField(max_length=16, unique=True, help_text="What submissions call it.")
    name = models.CharField(max_length=60)
    order = models.PositiveSmallIntegerField(default=0, help_text="Its place in lists.")
    tier = models.ForeignKey(PriorityTier, on_delete=models.PROTECT, related_name="job_classes")
    time_limit_seconds = models.PositiveIntegerField(null=True, help_text="Empty = no limit.")
    max_retries = models.PositiveSmallIntegerField(default=0)
    on_preemption = models.CharField(max_length=8, choices=OnPreemption.choices, default=OnPreemption.REQUEUE)
    sharing = models.CharField(max_length=8, choices=DeviceSharing.choices, default=DeviceSharing.ELASTIC)
    is_default = models.BooleanField(default=False, help_text="Of submissions that name no class.")
    retired_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(default=1)

    objects = JobClassQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["order", "slug"]
        verbose_name_plural: ClassVar = "job classes"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["is_default"], condition=Q(is_default=True), name="jobclass_one_default"
            ),
            models.CheckConstraint(
                condition=Q(is_default=False) | Q(retired_at__isnull=True),
                name="jobclass_default_not_retired",
            ),
            models.CheckConstraint(
                condition=Q(time_limit_seconds__isnull=True)
                | Q(time_limit_seconds__range=(1, LONGEST_LIMIT_SECONDS)),
                name="jobclass_time_limit_bounded",
            ),
            models.CheckConstraint(
                condition=Q(max_retries__lte=MOST_RETRIES), name="jobclass_retries_bounded"
            ),
            models.CheckConstraint(
                condition=Q(on_preemption__in=OnPreemption.values), name="jobclass_on_preemption_known"
            ),
            models.CheckConstraint(
                condition=Q(sharing__in=DeviceSharing.values), name="jobclass_sharing_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_retired(self) -> bool:
        """Return whether submissions may not name it any more."""
        return self.retired_at is not None


class ClassNarrowing(models.Model):
    """Stricter defaults of a class for a team and those below; what is empty is as above."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="class_narrowings", db_index=False)
    job_class = models.ForeignKey(JobClass, on_delete=models.CASCADE, related_name="narrowings")
    tier = models.ForeignKey(PriorityTier, null=True, on_delete=models.PROTECT, related_name="narrowings")
    time_limit_seconds = models.PositiveIntegerField(null=True)
    max_retries = models.PositiveSmallIntegerField(null=True)
    sharing = models.CharField(max_length=8, blank=True, choices=DeviceSharing.choices)
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "job_class"], name="narrowing_once"),
            models.CheckConstraint(
                condition=Q(time_limit_seconds__isnull=True)
                | Q(time_limit_seconds__range=(1, LONGEST_LIMIT_SECONDS)),
                name="narrowing_time_limit_bounded",
            ),
            models.CheckConstraint(
                condition=Q(max_retries__isnull=True) | Q(max_retries__lte=MOST_RETRIES),
                name="narrowing_retries_bounded",
            ),
            models.CheckConstraint(
                condition=Q(sharing="") | Q(sharing__in=DeviceSharing.values),
                name="narrowing_sharing_known",
            ),
            models.CheckConstraint(
                condition=Q(tier__isnull=False)
                | Q(time_limit_seconds__isnull=False)
                | Q(max_retries__isnull=False)
                | ~Q(sharing=""),
                name="narrowing_says_something",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_class} in {self.team}"

    @property
    def audit_name(self) -> str:
        """What the audit trail calls it."""
        return str(self)

    def said(self) -> dict[str, Any]:
        """Return what it says, as the audit trail has it."""
        found = {
            "tier": self.tier.slug if self.tier else None,
            "time_limit_seconds": self.time_limit_seconds,
            "max_retries": self.max_retries,
            "sharing": self.sharing or None,
        }
        return {key: value for key, value in found.items() if value is not None}
