"""Clusters and nodes for tests, made directly."""

from typing import Any

from django.utils import timezone

from agentlink.models import Cluster, Device, Node
from agentlink.models.placement import Hold, Placement
from teams.models import Pool
from workloads.models import Attempt


def make_cluster(name: str = "east", **fields: Any) -> Cluster:
    """Return a connected cluster."""
    fields.setdefault("connected", True)
    fields.setdefault("last_seen_at", timezone.now())
    return Cluster.objects.create(name=name, **fields)


def make_node(cluster: Cluster, name: str, *, gpus: int = 8, pool: Pool | None = None, **fields: Any) -> Node:
    """Return a ready node with `gpus` devices of one type."""
    gpu_type = fields.pop("gpu_type", "H100")
    node = Node.objects.create(cluster=cluster, name=name, pool=pool, **fields)
    Device.objects.bulk_create(
        Device(node=node, index=index, gpu_type=gpu_type, memory_mib=81920) for index in range(gpus)
    )
    return node


def place(
    attempt: Attempt, node: Node, index: int, *, share: int = 1000, hold: Hold = Hold.HELD
) -> Placement:
    """Put pod 0 of the attempt on a device."""
    device = node.devices.get(index=index)
    return Placement.objects.create(attempt=attempt, pod_index=0, device=device, share_milli=share, hold=hold)
