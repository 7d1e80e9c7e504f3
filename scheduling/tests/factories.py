"""Clusters for tests, and a hand that plays their agents."""

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.utils import timezone

from agentlink import assignments
from agentlink.models import Cluster, Device, Node
from teams.actors import Actor
from teams.models import Pool
from workloads import lifecycle
from workloads.models import Attempt, Status, Workload

AGENT = Actor.agent("east")


def make_cluster(name: str = "east", **fields: Any) -> Cluster:
    """Return a cluster whose agent is connected."""
    return Cluster.objects.create(
        name=name, connected=fields.pop("connected", True), last_seen_at=timezone.now(), **fields
    )


def make_nodes(cluster: Cluster, pool: Pool, count: int, gpus: int = 4, **fields: Any) -> list[Node]:
    """Return nodes `n1`, `n2`, ... with as many GPUs of 80 GiB each."""
    first = cluster.nodes.count() + 1
    nodes = [
        Node.objects.create(cluster=cluster, pool=pool, name=f"n{number}", **fields)
        for number in range(first, first + count)
    ]
    Device.objects.bulk_create(
        Device(node=node, index=index, gpu_type="H100", memory_mib=81_920)
        for node in nodes
        for index in range(gpus)
    )
    return nodes


def run_pods(workloads: Iterable[Workload]) -> None:
    """Report that all pods of these Queued workloads run; refresh their objects."""
    for workload in workloads:
        workload.refresh_from_db()
        assert workload.attempt_id is not None, f"{workload} is {workload.status}: {workload.reason_code}"
        with transaction.atomic():
            lifecycle.pods_running(workload.attempt_id, timezone.now())
        workload.refresh_from_db()
        assert workload.status == Status.RUNNING


def pods_gone(attempts: Iterable[Attempt]) -> None:
    """Report that no pods of these ended attempts are left, and let go who waits for their devices."""
    with transaction.atomic():
        assignments.release([attempt.pk for attempt in attempts], at=timezone.now(), by=AGENT)
    for cluster in Cluster.objects.all():
        assignments.let_go_waiting(cluster.pk, at=timezone.now())
