"""The workload: what was asked for, how it runs, and where it stands now."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from chamber.ids import new_id
from chamber.words import code_in_words
from teams.models import OnPreemption, Pool, Team
from teams.models.job_class import RESERVED_FROM
from workloads import known
from workloads.querysets import WorkloadQuerySet

WHOLE_DEVICE_MILLI = 1000


class OnDeadline(models.TextChoices):
    """As what a workload ends that has not started by its deadline."""

    FAIL = "fail", "It fails"
    CANCEL = "cancel", "It is cancelled"


class Status(models.TextChoices):
    """Where a workload stands; `workloads.transitions` says what may become what."""

    PENDING = "pending", "Pending"
    QUEUED = "queued", "Queued"
    STARTING = "starting", "Starting"
    RUNNING = "running", "Running"
    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    PREEMPTED = "preempted", "Preempted"
    CANCELLED = "cancelled", "Cancelled"


ADMITTED = (Status.QUEUED, Status.STARTING, Status.RUNNING)
"""Statuses that occupy quota; exactly these have an open attempt."""

OPEN = (Status.PENDING, *ADMITTED)
"""Statuses that are not an end."""


class Workload(models.Model):
    """`pods` equal pods, each asking for `gpu_milli` (part of a GPU, or whole ones) or memory of one GPU."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.SlugField(max_length=60, unique=True, help_text="The name in URLs and on the command line.")
    name = models.CharField(max_length=100)
    # The references have no index of their own where one below begins with them.
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="workloads", db_index=False
    )
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="workloads", db_index=False)
    job_class = models.CharField(
        max_length=16,
        default="experiment",
        help_text="The name of its job class, kept whatever becomes of that.",
    )
    priority = models.PositiveIntegerField(default=50)

    # What it asks for, per pod unless it says otherwise.
    pods = models.PositiveIntegerField(default=1)
    min_pods = models.PositiveIntegerField(
        default=1, help_text="It starts with at least these; equal to pods = a gang."
    )
    gpu_milli = models.PositiveIntegerField(
        null=True, help_text="Milli-GPUs of each pod; empty where memory is asked for."
    )
    gpu_memory_mib = models.PositiveIntegerField(
        null=True, help_text="Memory of one GPU, instead of a share of it."
    )
    cpu_milli = models.PositiveIntegerField(default=0)
    memory_mib = models.PositiveIntegerField(default=0)
    gpu_types = models.JSONField(
        default=list, blank=True, help_text="Acceptable GPU types, best first; empty = any."
    )
    node_selector = models.JSONField(default=dict, blank=True)
    tolerations = models.JSONField(default=list, blank=True)
    partition = models.CharField(max_length=60, blank=True)
    topology_required = models.CharField(max_length=120, blank=True)
    topology_preferred = models.CharField(max_length=120, blank=True)
    pool_choice = models.JSONField(
        default=list, blank=True, help_text="Ids of acceptable pools, best first; empty = any."
    )
    time_limit_seconds = models.PositiveIntegerField(null=True)
    grace_seconds = models.PositiveIntegerField(
        default=30, help_text="Time to checkpoint after a stop is asked for."
    )
    on_preemption = models.CharField(max_length=8, choices=OnPreemption.choices, default=OnPreemption.REQUEUE)
    max_requeues = models.PositiveIntegerField(default=20)
    max_retries = models.PositiveIntegerField(default=0)
    start_after = models.DateTimeField(null=True, help_text="Before it, it is in no queue.")
    deadline = models.DateTimeField(
        null=True, help_text="Where it is not Queued by then, it ends; empty once it was."
    )
    on_deadline = models.CharField(
        max_length=6,
        choices=OnDeadline.choices,
        blank=True,
        default="",
        db_default="",
        help_text="Empty where it has no deadline.",
    )
    fail_if_impossible = models.BooleanField(default=False, help_text="End as Failed where it can never run.")

    # How it runs.
    image = models.CharField(max_length=300)
    command = models.JSONField(default=list, blank=True)
    environment = models.JSONField(default=dict, blank=True)
    credentials = models.JSONField(
        null=True, blank=True, help_text="The credentials that it names, as it names them."
    )
    # Null, not "": for a column that may not be null SQLite makes the table anew, without its triggers.
    runs_in = models.CharField(  # noqa: DJ001 - see above
        max_length=120, null=True, help_text="The environment that it names, with its version; empty = none."
    )
    environment_version = models.ForeignKey(
        "EnvironmentVersion", null=True, on_delete=models.SET_NULL, related_name="workloads", db_index=False
    )
    working_dir = models.CharField(  # noqa: DJ001 - see above
        max_length=255, null=True, help_text="Empty = the image's own."
    )
    mounts = models.JSONField(
        null=True, blank=True, help_text="The data sources that it mounts, and where; empty = none."
    )
    scratch_mib = models.PositiveIntegerField(
        null=True, help_text="Disk of each pod at /scratch; empty = none."
    )
    shm_mib = models.PositiveIntegerField(
        null=True, help_text="Shared memory of each pod; empty = half of its memory."
    )
    labels = models.JSONField(null=True, blank=True, help_text="What its pods bear besides Chamber's own.")
    annotations = models.JSONField(null=True, blank=True)
    defaults = models.JSONField(
        null=True, blank=True, help_text="Which of CPU and memory it has by its pools' defaults."
    )

    read_notes = models.BooleanField(
        null=True, help_text="Whether its output is read for notes of checkpoints and progress; empty = no."
    )

    # What it is a member of.
    array = models.ForeignKey(
        "WorkloadArray", null=True, on_delete=models.PROTECT, related_name="members", db_index=False
    )
    array_index = models.PositiveIntegerField(null=True, help_text="Its number in the array.")
    folded = models.BooleanField(
        null=True, help_text="Whether lists show the first member of its array in its place; empty = no."
    )

    # Where it stands.
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.PENDING)
    status_since = models.DateTimeField()
    reason_code = models.CharField(max_length=40, blank=True, help_text="Why it waits, or how it ended.")
    reason = models.JSONField(
        default=dict, blank=True, help_text="The reason of an end: message, who, next step."
    )
    submitted_at = models.DateTimeField(help_text="The original submission; a requeue keeps it.")
    held = models.BooleanField(default=False)
    backoff_until = models.DateTimeField(null=True)
    requeues = models.PositiveIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    pool = models.ForeignKey(
        Pool, null=True, on_delete=models.PROTECT, related_name="workloads", db_index=False
    )
    attempt = models.OneToOneField("Attempt", null=True, on_delete=models.PROTECT, related_name="open_for")
    finished_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(
        default=1, help_text="Raised by every change of status or of what it asks."
    )
    last_event = models.PositiveIntegerField(default=0)

    objects = WorkloadQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-submitted_at", "-id"]
        indexes: ClassVar = [
            models.Index(fields=["submitted_at", "id"], condition=Q(status__in=OPEN), name="workload_open"),
            models.Index(fields=["owner"], condition=Q(status__in=OPEN), name="workload_open_by_owner"),
            models.Index(fields=["-submitted_at", "-id"], name="workload_newest"),
            models.Index(
                fields=["-submitted_at", "-id"],
                condition=Q(folded__isnull=True),
                name="workload_newest_unfolded",
            ),
            models.Index(
                fields=["array", "status", "finished_at"],
                condition=Q(array__isnull=False),
                name="workload_array_status",
            ),
            models.Index(fields=["name", "id"], name="workload_by_name"),
            models.Index(fields=["priority", "id"], name="workload_by_priority"),
            models.Index(fields=["team", "-submitted_at"], name="workload_by_team"),
            models.Index(fields=["owner", "-submitted_at"], name="workload_by_owner"),
            models.Index(fields=["pool", "-submitted_at"], name="workload_by_pool"),
            models.Index(fields=["status", "-submitted_at"], name="workload_by_status"),
            models.Index(
                fields=["environment_version"],
                condition=Q(environment_version__isnull=False),
                name="workload_by_environment",
            ),
            models.Index(
                fields=["-finished_at"], condition=Q(finished_at__isnull=False), name="workload_finished"
            ),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(status__in=Status.values), name="workload_status_known"),
            models.CheckConstraint(
                condition=Q(status__in=ADMITTED, attempt__isnull=False)
                | (~Q(status__in=ADMITTED) & Q(attempt__isnull=True)),
                name="workload_admitted_has_attempt",
            ),
            models.CheckConstraint(
                condition=Q(status__in=OPEN, finished_at__isnull=True)
                | (~Q(status__in=OPEN) & Q(finished_at__isnull=False)),
                name="workload_ended_has_end",
            ),
            models.UniqueConstraint(
                fields=["array", "array_index"],
                condition=Q(array__isnull=False),
                name="workload_array_index_once",
            ),
            models.CheckConstraint(condition=Q(pods__range=(1, 100_000)), name="workload_pods_1_to_100000"),
            models.CheckConstraint(
                condition=Q(min_pods__gte=1, min_pods__lte=F("pods")), name="workload_min_pods_1_to_pods"
            ),
            models.CheckConstraint(
                condition=Q(gpu_milli__isnull=False, gpu_memory_mib__isnull=True, gpu_milli__gte=1)
                | Q(gpu_milli__isnull=True, gpu_memory_mib__isnull=False, gpu_memory_mib__gte=1),
                name="workload_share_or_memory",
            ),
            # A pod's share lies on one device, or is whole devices: 250, 500, 750, 1000, 2000, ...
            models.CheckConstraint(
                condition=Q(gpu_milli__isnull=True)
                | Q(gpu_milli__in=(250, 500, 750))
                | Q(
                    gpu_milli__gte=WHOLE_DEVICE_MILLI,
                    gpu_milli=F("gpu_milli") - F("gpu_milli") % WHOLE_DEVICE_MILLI,
                ),
                name="workload_share_is_legal",
            ),
            models.CheckConstraint(condition=Q(priority__lte=1_000_000), name="workload_priority_bounded"),
            models.CheckConstraint(
                condition=Q(time_limit_seconds__isnull=True) | Q(time_limit_seconds__gte=1),
                name="workload_time_limit_positive",
            ),
            models.CheckConstraint(
                condition=Q(deadline__isnull=True)
                | Q(start_after__isnull=True)
                | Q(deadline__gt=F("start_after")),
                name="workload_deadline_after_start",
            ),
            models.CheckConstraint(
                condition=Q(on_deadline__in=("", *OnDeadline.values)),
                name="workload_on_deadline_known",
            ),
        ]

    def __str__(self) -> str:
        return self.slug

    @property
    def is_reserved(self) -> bool:
        """Return whether it is of the reserved class: inside a guarantee, never preempted."""
        return self.priority >= RESERVED_FROM

    @property
    def slices(self) -> known.AskedSlices | None:
        """Return the slices that it asks for, one a pod; None where it may take GPUs, or asks for memory of one (two
        queries at most, every ten seconds)."""
        if not self.gpu_types or self.gpu_milli is None:
            return None
        return known.asked_slices(self.gpu_types, self.pods)

    @property
    def size_milli(self) -> int | None:
        """Return milli-GPUs of all pods, slices by their share; None where memory of GPUs is asked for."""
        if self.gpu_milli is None:
            return None
        slices = self.slices
        return self.pods * self.gpu_milli if slices is None else slices.milli

    @property
    def reason_words(self) -> str:
        """Return the code of its reason in words, for where a line must do."""
        return code_in_words(self.reason_code)

    @property
    def job_class_words(self) -> str:
        """Return the name of its job class in words."""
        return code_in_words(self.job_class)

    @property
    def is_open(self) -> bool:
        """Return whether it has not ended."""
        return self.status in OPEN

    @property
    def is_gang(self) -> bool:
        """Return whether all pods start together or none."""
        return self.min_pods == self.pods

    @property
    def partly(self) -> str:
        """Return how many of its pods have GPUs where others wait (`3 of 30 pods`), as far as that was read along
        (`with_placed_pods`); else empty."""
        placed: int | None = getattr(self, "placed_pods", None)
        return f"{placed} of {self.pods} pods" if placed is not None and placed < self.pods else ""
