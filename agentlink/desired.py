"""What a cluster should run, from the tables, as messages: the full set, or what changed since a generation."""

from collections import defaultdict
from uuid import UUID

from django.db.models import Q, QuerySet

from agentlink import protocol
from agentlink.models import Assignment, Cluster, Hold, Placement
from agentlink.protocol import AssignedPod, Desired, DeviceShare, StopOrder

HELD = (Hold.PROMISED, Hold.HELD)

RowKey = tuple[int, str]


def full_set(cluster_id: UUID) -> list[Desired]:
    """Return all that the cluster should run or must stop (three queries)."""
    generation = _generation(cluster_id)
    current = Assignment.objects.filter(Q(wanted=True) | Q(gone=False), cluster=cluster_id)
    return _messages(_ordered(current), generation=generation, base=None)


def since(cluster_id: UUID, base: int) -> list[Desired]:
    """Return what changed after generation `base`; nothing where nothing did (three queries, else one)."""
    generation = _generation(cluster_id)
    if generation <= base:
        return []
    changed = Assignment.objects.filter(cluster=cluster_id, generation__gt=base, generation__lte=generation)
    return _messages(_ordered(changed), generation=generation, base=base)


def _generation(cluster_id: UUID) -> int:
    """Return up to which change the set goes: read first and in no transaction with it, which would wait for writers.

    What changes while the set is read comes again with the next delta.
    """
    return Cluster.objects.values_list("desired_generation", flat=True).get(pk=cluster_id)


def _ordered(rows: QuerySet[Assignment]) -> list[Assignment]:
    return list(rows.select_related("attempt__workload").order_by("attempt"))


def _messages(rows: list[Assignment], *, generation: int, base: int | None) -> list[Desired]:
    pods = _pods([row.attempt_id for row in rows if row.wanted])
    return list(
        protocol.desired_in_parts(
            generation=generation,
            base=base,
            assignments=[_assignment(row, pods[row.attempt_id]) for row in rows if row.wanted],
            stop=[_stop_order(row) for row in rows if not row.wanted and not row.gone],
            forget=[row.attempt_id for row in rows if row.gone],
        )
    )


def _pods(attempt_ids: list[UUID]) -> dict[UUID, tuple[AssignedPod, ...]]:
    """Return where the pods of these attempts lie, in the order of their indexes."""
    shares: dict[UUID, dict[RowKey, list[DeviceShare]]] = defaultdict(lambda: defaultdict(list))
    rows = Placement.objects.filter(attempt__in=attempt_ids, hold__in=HELD).order_by(
        "pod_index", "device__index"
    )
    fields = ("attempt", "pod_index", "device__node__name", "device__index", "share_milli")
    for attempt_id, pod_index, node, index, share in rows.values_list(*fields):
        shares[attempt_id][pod_index, node].append(DeviceShare(index=index, share_milli=share))
    return defaultdict(
        tuple,
        {
            attempt_id: tuple(
                AssignedPod(index=pod_index, node=node, devices=tuple(devices))
                for (pod_index, node), devices in pods.items()
            )
            for attempt_id, pods in shares.items()
        },
    )


def _assignment(row: Assignment, pods: tuple[AssignedPod, ...]) -> protocol.Assignment:
    workload = row.attempt.workload
    return protocol.Assignment(
        workload=workload.pk,
        slug=workload.slug,
        attempt=row.attempt_id,
        number=row.attempt.number,
        pods=pods,
        let_go=row.let_go,
        image=workload.image,
        command=tuple(workload.command),
        environment=workload.environment,
        cpu_milli=workload.cpu_milli,
        memory_mib=workload.memory_mib,
        grace_seconds=workload.grace_seconds,
        time_limit_seconds=workload.time_limit_seconds,
        reported=row.report_sequence,
    )


def _stop_order(row: Assignment) -> StopOrder:
    attempt = row.attempt
    return StopOrder(
        workload=attempt.workload_id, attempt=attempt.pk, number=attempt.number, reported=row.report_sequence
    )
