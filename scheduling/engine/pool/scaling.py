"""Pods above the minimum, one by one in the order of the queue, when all that could start have started (section
5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduling.engine.model.snapshot import NodeInfo, PodPlacement, Slicing
from scheduling.engine.placement.domains import Domain
from scheduling.engine.pool.pool_cycle import PoolCycle
from scheduling.engine.preemption.victims import PlacedWorkload
from scheduling.engine.queue.candidate import Candidate, Cause
from scheduling.engine.queue.order import lined_up


class Growing(Candidate):
    """A placed workload that wants its next pod."""

    __slots__ = ("placed",)

    def __init__(self, entry: Candidate, placed: PlacedWorkload) -> None:
        super().__init__(entry.workload, entry.leaf, entry.pool_request.of_one_pod())
        self.placed = placed


def scale_up(cycle: PoolCycle) -> dict[str, list[PodPlacement]]:
    """Give idle GPUs to workloads that have not all their pods; returns the new pods of each.

    Nothing is preempted for them, and nothing grows on GPUs that are being emptied. A workload that waits for victims
    does not grow before its first pods may exist. Under strict FIFO nothing grows while the head is blocked.
    """
    if cycle.pool.paused or cycle.is_shut:
        return {}
    queue = cycle.queue_of(lined_up(cycle.pool.policy, _growing(cycle)))
    grown: dict[str, list[PodPlacement]] = {}
    while (entry := queue.peek()) is not None:
        pod = _next_pod(cycle, entry)
        if pod is None:
            queue.remove(entry)
            continue
        grown.setdefault(entry.id, []).append(pod)
        cycle.scale_up(entry.placed, pod)
        queue.touch(entry.leaf)
        if len(entry.placed.pods) == entry.workload.pods:
            queue.remove(entry)
    return grown


def _growing(cycle: PoolCycle) -> Iterator[Growing]:
    """Workloads that have not all their pods, have not just given some away, and do not wait for victims."""
    ledger = cycle.ledger
    for id_, entry in cycle.state.growing.items():
        placed = cycle.placed_workloads.get(id_)
        if placed is not None and not (placed.shrunk or placed.waits_for_victims(ledger)):
            yield Growing(entry, placed)
    for id_, placed in cycle.started.items():
        if len(placed.pods) < placed.workload.pods and not placed.waits_for_victims(ledger):
            yield Growing(cycle.candidates[id_], placed)


def _next_pod(cycle: PoolCycle, entry: Growing) -> PodPlacement | None:
    """Place its next pod beside the others, if quota and the head's start reservation allow it."""
    domains = _domains(cycle, entry)
    if cycle.quota_stops(entry) is not None or not domains:
        return None
    taken = {pod.pod_index for pod in entry.placed.pods}
    index = next(index for index in range(entry.workload.pods) if index not in taken)
    in_time = cycle.backfill.in_time(entry.workload, entry.placed)
    placements = cycle.backfill.place(entry, [index], in_time=in_time, domains=[domains], emptying=False)
    return None if isinstance(placements, Cause) else placements[0]


def _domains(cycle: PoolCycle, entry: Growing) -> list[Domain]:
    """The domains of the widest level where all its pods are, whatever has become of their nodes."""
    levels, nodes, pods = cycle.nodes.domains(entry.request), cycle.nodes, entry.placed.pods
    ranks = {nodes.rank.get(pod.node) for pod in pods}
    rows = [nodes.rows[rank] for rank in ranks if rank is not None]
    sliced = _lie_on_slices(rows, pods) if entry.request.one_sort else False
    return [
        domain
        for domain in (levels[-1] if rows and levels else ())
        if domain.sliced == sliced and all(nodes.is_in(node, domain) for node in rows)
    ]


def _lie_on_slices(nodes: Iterable[NodeInfo], pods: Iterable[PodPlacement]) -> bool:
    """Whether some of the pods on these nodes have slices."""
    slices = {
        (node.id, device.index)
        for node in nodes
        for device in node.devices
        if device.slicing is not Slicing.WHOLE
    }
    return any((pod.node, share.index) in slices for pod in pods for share in pod.devices)
