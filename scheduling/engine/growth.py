"""Pods above the minimum, one by one in the order of the queue, when everybody who could start has started (section
5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduling.engine.candidate_queue import Buckets, Queue
from scheduling.engine.cycle import PoolCycle
from scheduling.engine.model.snapshot import Node, PodPlacement, Slicing
from scheduling.engine.placement.domains import Domain
from scheduling.engine.queue.candidate import Candidate, Cause
from scheduling.engine.queue.order import lined_up
from scheduling.engine.standing import Standing


class Growing(Candidate):
    """A placed workload that wants its next pod."""

    __slots__ = ("standing",)

    def __init__(self, entry: Candidate, standing: Standing) -> None:
        super().__init__(entry.workload, entry.leaf, entry.pool_request.of_one_pod())
        self.standing = standing


def grow(cycle: PoolCycle) -> dict[str, list[PodPlacement]]:
    """Give idle GPUs to workloads that have not all their pods; returns the new pods of each.

    Nobody is preempted for them, and nothing grows on GPUs that are being emptied. Who waits for victims does not grow
    before his first pods may exist. Under strict FIFO nothing grows while the head is blocked.
    """
    if cycle.pool.paused or cycle.gate.shut:
        return {}
    buckets: Buckets[Growing] = Buckets(cycle.tree, cycle.ratio)
    queue = Queue(buckets, lined_up(cycle.pool.policy, _growing(cycle)))
    grown: dict[str, list[PodPlacement]] = {}
    while (entry := queue.peek()) is not None:
        pod = _next_pod(cycle, entry)
        if pod is None:
            queue.remove(entry)
            continue
        grown.setdefault(entry.id, []).append(pod)
        cycle.grow(entry.standing, pod)
        queue.touch(entry.leaf)
        if len(entry.standing.pods) == entry.workload.pods:
            queue.remove(entry)
    return grown


def _growing(cycle: PoolCycle) -> Iterator[Growing]:
    """Those who have not all their pods, have not just given some away, and do not wait for victims."""
    ledger = cycle.ledger
    for id_, entry in cycle.books.growing.items():
        standing = cycle.standings.get(id_)
        if standing is not None and not (standing.shrunk or standing.waits_for_victims(ledger)):
            yield Growing(entry, standing)
    for id_, standing in cycle.started.items():
        if len(standing.pods) < standing.workload.pods and not standing.waits_for_victims(ledger):
            yield Growing(cycle.candidates[id_], standing)


def _next_pod(cycle: PoolCycle, entry: Growing) -> PodPlacement | None:
    """Place its next pod beside the others, if quota and the head's start reservation allow it."""
    domains = _domains(cycle, entry)
    if cycle.quota_stops(entry) is not None or not domains:
        return None
    taken = {pod.pod_index for pod in entry.standing.pods}
    index = next(index for index in range(entry.workload.pods) if index not in taken)
    in_time = cycle.gate.in_time(entry.workload, entry.standing)
    placed = cycle.gate.place(entry, [index], in_time=in_time, domains=[domains], emptying=False)
    return None if isinstance(placed, Cause) else placed[0]


def _domains(cycle: PoolCycle, entry: Growing) -> list[Domain]:
    """The domains, of the widest level the request allows, where the pods lie that it has, whatever has become of their
    nodes."""
    levels, nodes, pods = cycle.nodes.domains(entry.request), cycle.nodes, entry.standing.pods
    ranks = {nodes.rank.get(pod.node) for pod in pods}
    rows = [nodes.rows[rank] for rank in ranks if rank is not None]
    sliced = _lie_on_slices(rows, pods) if entry.request.one_sort else False
    return [
        domain
        for domain in (levels[-1] if rows and levels else ())
        if domain.sliced == sliced and all(nodes.is_in(node, domain) for node in rows)
    ]


def _lie_on_slices(nodes: Iterable[Node], pods: Iterable[PodPlacement]) -> bool:
    """Whether some of the pods that lie on these nodes have slices."""
    slices = {
        (node.id, device.index)
        for node in nodes
        for device in node.devices
        if device.slicing is not Slicing.WHOLE
    }
    return any((pod.node, share.index) in slices for pod in pods for share in pod.devices)
