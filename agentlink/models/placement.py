"""Which cluster runs an attempt, and which devices its pods have."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from agentlink.models.cluster import Cluster
from agentlink.models.node import Device
from chamber.ids import new_id
from workloads.models import Attempt


class Assignment(models.Model):
    """What the link knows of an attempt: where it was sent, whether its pods may exist, what was last reported."""

    attempt = models.OneToOneField(
        Attempt, primary_key=True, on_delete=models.CASCADE, related_name="assignment"
    )
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="assignments", db_index=False)
    generation = models.PositiveBigIntegerField(
        help_text="The cluster's desired generation that brought its last change."
    )
    let_go = models.BooleanField(default=False, help_text="Its devices are free: the pods may be created.")
    wanted = models.BooleanField(
        default=True, help_text="Part of the desired set; cleared when the attempt is over."
    )
    report_sequence = models.PositiveBigIntegerField(default=0, help_text="Highest report taken in.")
    pods = models.JSONField(default=list, help_text="Last observed pods: index, node, state, reason.")
    gone = models.BooleanField(default=False, help_text="The cluster reported that no pod is left.")
    given_up = models.BooleanField(
        default=False,
        help_text="Its cluster was declared lost: the workload's next attempt does not wait for it.",
    )
    unheard_since = models.DateTimeField(
        null=True,
        help_text="A restore of the database was recognised then, and no pod of it was heard of since.",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["cluster"], condition=Q(wanted=True), name="assignment_desired"),
            models.Index(
                fields=["cluster"], condition=Q(wanted=True, let_go=False), name="assignment_waiting"
            ),
            models.Index(fields=["cluster", "generation"], name="assignment_by_generation"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(gone=False) | Q(wanted=False), name="assignment_gone_is_unwanted"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.attempt} on {self.cluster}"


class Hold(models.TextChoices):
    """How a placement occupies its device."""

    PROMISED = "promised", "Promised: somebody else's pods are still there"
    HELD = "held", "Held: its pods may exist"
    LEAVING = "leaving", "Leaving: over, its pods are not gone yet"
    RELEASED = "released", "Released"


class Placement(models.Model):
    """A share of one device for one pod; a pod of several whole GPUs has a row for each."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="placements", db_index=False)
    pod_index = models.PositiveIntegerField()
    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="placements")
    share_milli = models.PositiveIntegerField()
    hold = models.CharField(max_length=8, choices=Hold.choices)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["attempt", "pod_index", "device"]
        indexes: ClassVar = [
            models.Index(fields=["device"], condition=~Q(hold=Hold.RELEASED), name="placement_on_devices"),
            models.Index(fields=["attempt"], condition=~Q(hold=Hold.RELEASED), name="placement_open"),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["attempt", "pod_index", "device"], name="placement_device_once_per_pod"
            ),
            models.CheckConstraint(
                condition=Q(share_milli__range=(1, 1000)), name="placement_share_within_device"
            ),
            models.CheckConstraint(condition=Q(hold__in=Hold.values), name="placement_hold_known"),
        ]

    def __str__(self) -> str:
        return f"{self.attempt} pod {self.pod_index}: {self.share_milli} of {self.device}"
