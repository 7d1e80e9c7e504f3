"""Draining nodes: who lies there, and what becomes of it. Pure.

A drained node takes nothing new. Elastic work leaves it: pods above the minimum alone where that is enough, else the
workload goes as a whole and is queued again, or ends where it wants that. Reserved work is waited for.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter

from scheduling import engine
from scheduling.simulation.outcome import requeued


@dataclass(frozen=True, slots=True)
class Draining:
    """What becomes of those who lie on drained nodes: `leaving` as they would be (None where they end), and the ids
    of those who keep the nodes from being empty."""

    leaving: dict[str, engine.WorkloadInfo | None] = field(default_factory=dict)
    blocking: frozenset[str] = frozenset()

    @classmethod
    def of(cls, snapshot: engine.Snapshot, nodes: Collection[str]) -> "Draining":
        """Return what draining these nodes, by id, would do; whoever stops already is left alone."""
        there = list(_lying_on(snapshot, nodes)) if nodes else []
        return cls(
            {each.id: _without(each, nodes) for each in there if not each.reserved},
            frozenset(each.id for each in there if each.reserved),
        )

    def on(self, workloads: Collection[engine.WorkloadInfo]) -> Iterator[engine.WorkloadInfo]:
        """Yield the workloads as they would be; who is not concerned is the very object of before."""
        for workload in workloads:
            left = self.leaving.get(workload.id, workload)
            if left is not None:
                yield left


def _lying_on(snapshot: engine.Snapshot, nodes: Collection[str]) -> Iterator[engine.WorkloadInfo]:
    for workload in snapshot.workloads:
        if workload.status in engine.PLACED and any(pod.node in nodes for pod in workload.placements):
            yield workload


def _without(workload: engine.WorkloadInfo, nodes: Collection[str]) -> engine.WorkloadInfo | None:
    pods = sorted(workload.placements, key=attrgetter("pod_index"))
    if any(pod.node in nodes for pod in pods[: workload.min_pods]):
        return requeued(workload)
    return replace(workload, placements=tuple(pod for pod in pods if pod.node not in nodes))
