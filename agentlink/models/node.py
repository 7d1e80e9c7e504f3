"""Machines and their GPUs, as the agents report them."""

from typing import Any, ClassVar

from django.db import models
from django.db.models import Case, Count, F, IntegerField, Q, Sum, When
from django.db.models.functions import Coalesce

from agentlink.models.cluster import Cluster
from agentlink.querysets import NodeQuerySet
from chamber.ids import new_id
from teams.models import Pool

WHOLE_DEVICE_MILLI = 1000


class Node(models.Model):
    """A machine. `cpu_milli` and `memory_mib` are what pods may use; null = not bounded.

    The database compares names by their code points, as inventories are ordered.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="nodes")
    name = models.CharField(max_length=253)
    pool = models.ForeignKey(
        Pool,
        null=True,
        on_delete=models.SET_NULL,
        related_name="nodes",
        help_text="The first pool that picks it.",
    )
    refused_pool = models.ForeignKey(
        Pool,
        null=True,
        on_delete=models.SET_NULL,
        related_name="refused_nodes",
        help_text="A pool that its labels are for, and that its cluster is not bound to.",
    )
    ready = models.BooleanField(default=True)
    cordoned = models.BooleanField(default=False)
    drained = models.BooleanField(
        default=False, db_default=False, help_text="Cordoned because annotations have Chamber drain it."
    )
    cpu_milli = models.PositiveBigIntegerField(null=True)
    memory_mib = models.PositiveBigIntegerField(null=True)
    labels = models.JSONField(default=dict)
    taints = models.JSONField(default=list, help_text='As "key=value:NoSchedule".')
    partition = models.CharField(max_length=60, blank=True)
    sharing = models.BooleanField(default=True, help_text="Whether its devices can be shared.")
    problem = models.CharField(
        max_length=2000,
        blank=True,
        db_default="",
        help_text="What an operator asked of it in its cluster and cannot be done, with why.",
    )
    gone_at = models.DateTimeField(null=True, help_text="The agent no longer reports it.")
    told = models.CharField(
        max_length=32, blank=True, db_default="", help_text="Digest of what the agent told of it last."
    )
    created_at = models.DateTimeField(auto_now_add=True)

    objects = NodeQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["cluster", "name"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["cluster", "name"], name="node_name_once")]

    def __str__(self) -> str:
        return f"{self.cluster}/{self.name}"


class DeviceSlicing(models.TextChoices):
    """How a device was cut from a GPU, if it was; the words of the link and of the engine."""

    WHOLE = "whole", "GPU"
    MIG = "mig", "MIG slice"
    REPLICAS = "replicas", "Replica"


class Device(models.Model):
    """One GPU, or one slice of a GPU, with two counters that triggers keep equal to its placements; the database holds
    each to the device: a slice is taken whole or free.

    `occupied_milli`: Starting + Running + stopping (pods may exist). `allocated_milli`: Starting + Running + Queued.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="devices", db_index=False)
    index = models.PositiveSmallIntegerField()
    gpu_type = models.CharField(max_length=60, blank=True)
    memory_mib = models.PositiveIntegerField(null=True)
    foreign = models.BooleanField(
        default=False,
        help_text="Not capacity: used by pods that Chamber does not manage, or not there any more.",
    )
    slicing = models.CharField(
        max_length=8,
        choices=DeviceSlicing.choices,
        default=DeviceSlicing.WHOLE,
        db_default=DeviceSlicing.WHOLE,
    )
    share_milli = models.PositiveSmallIntegerField(
        default=WHOLE_DEVICE_MILLI,
        db_default=WHOLE_DEVICE_MILLI,
        help_text="The share of a GPU that it counts as; 1000 but for slices.",
    )
    occupied_milli = models.IntegerField(default=0)
    allocated_milli = models.IntegerField(default=0)

    class Meta:
        ordering: ClassVar = ["node", "index"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["node", "index"], name="device_index_once"),
            models.CheckConstraint(
                condition=Q(slicing=DeviceSlicing.WHOLE, share_milli=WHOLE_DEVICE_MILLI)
                | Q(
                    slicing__in=(DeviceSlicing.MIG, DeviceSlicing.REPLICAS),
                    share_milli__range=(1, WHOLE_DEVICE_MILLI),
                ),
                name="device_share_of_its_slicing",
            ),
            models.CheckConstraint(
                condition=Q(slicing=DeviceSlicing.WHOLE, occupied_milli__range=(0, WHOLE_DEVICE_MILLI))
                | Q(occupied_milli=0)
                | Q(occupied_milli=F("share_milli")),
                name="device_occupied_within_capacity",
            ),
            models.CheckConstraint(
                condition=Q(slicing=DeviceSlicing.WHOLE, allocated_milli__range=(0, WHOLE_DEVICE_MILLI))
                | Q(allocated_milli=0)
                | Q(allocated_milli=F("share_milli")),
                name="device_allocated_within_capacity",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node}:{self.index}"


OUT_OF_SERVICE = (
    Q(foreign=True) | Q(node__ready=False) | Q(node__cordoned=True) | Q(node__cluster__connected=False)
)
"""Devices that take nothing new."""
UNAVAILABLE_MILLI = Case(
    When(OUT_OF_SERVICE, then=F("share_milli") - F("allocated_milli")),
    # What stopping attempts have not given back yet, and that is promised to none.
    When(occupied_milli__gt=F("allocated_milli"), then=F("occupied_milli") - F("allocated_milli")),
    default=0,
    output_field=IntegerField(),
)
"""What of a device is not allocated, and cannot be had now."""
CUT = ~Q(slicing=DeviceSlicing.WHOLE)
SLICES: dict[str, Any] = {
    "slices": Count("id", filter=CUT),
    "slices_milli": Coalesce(Sum("share_milli", filter=CUT), 0),
}
"""Aggregates over devices: how many are no GPUs but slices, and what these count as."""
