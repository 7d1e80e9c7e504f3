"""Pods above the minimum, one by one in the order of the queue, when everybody who could start has started (section
5)."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.engine.candidate import Candidate, Cause
from scheduling.engine.cycle import PoolCycle
from scheduling.engine.fleet import Domain
from scheduling.engine.order import Queue
from scheduling.engine.standing import Standing
from scheduling.engine.types import PodPlacement


@dataclass(slots=True, eq=False)
class Growing(Candidate):
    """A placed workload that wants its next pod."""

    standing: Standing


def grow(cycle: PoolCycle) -> dict[str, list[PodPlacement]]:
    """Give idle GPUs to workloads that have not all their pods; returns the new pods of each.

    Nobody is preempted for them, and nothing grows on GPUs that are being emptied. Under strict FIFO nothing grows
    while the head is blocked.
    """
    if cycle.pool.paused or cycle.gate.shut:
        return {}
    growing = [
        entry for standing in cycle.standings.values() if (entry := _growing(cycle, standing)) is not None
    ]
    queue = Queue(cycle.tree, cycle.pool.policy, cycle.ratio, growing)
    grown: dict[str, list[PodPlacement]] = {}
    while (entry := queue.peek()) is not None:
        pod = _next_pod(cycle, entry)
        if pod is None:
            queue.remove(entry)
            continue
        grown.setdefault(entry.id, []).append(pod)
        entry.standing.grow(pod)
        cycle.count(entry.standing, pod.milli)
        queue.touch(entry.leaf)
        if len(entry.standing.pods) == entry.workload.pods:
            queue.remove(entry)
    return grown


def _growing(cycle: PoolCycle, standing: Standing) -> Growing | None:
    """The workload as a candidate for its next pod; ``None`` if it has all, or has just given some away."""
    workload = standing.workload
    if len(standing.pods) >= workload.pods or standing.shrunk:
        return None
    ask = cycle.asks.of(workload)
    pod_milli = cycle.fleet.pod_milli(ask)
    return Growing(workload, standing.leaf, ask, pod_milli, 1, standing) if pod_milli else None


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
    """The domains, of the widest level the ask allows, that hold the pods it has."""
    levels = cycle.fleet.domains(entry.ask)
    nodes = {cycle.fleet.rank.get(pod.node) for pod in entry.standing.pods}
    return [
        domain
        for domain in (levels[-1] if levels else ())
        if nodes <= {rank for rank, _ in cycle.fleet.ranks(domain)}
    ]
