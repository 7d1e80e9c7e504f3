"""The picture a cycle decides on: a snapshot, indexed once."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

from scheduling.engine.ask import Asks
from scheduling.engine.fleet import Fleet
from scheduling.engine.tree import Tree
from scheduling.engine.types import Node, Pool, Snapshot, Status, Topology, Workload

ANYWHERE = Topology()


@dataclass(frozen=True, slots=True)
class State:
    """What is known, by pool: nodes, and who lies there; and who waits, whatever the pool.

    ``fleets`` are the nodes that take new pods; ``whole_fleets`` also those of disconnected clusters (the same object
    where there are none).
    """

    pools: tuple[Pool, ...]
    tree: Tree
    fleets: dict[str, Fleet]
    whole_fleets: dict[str, Fleet]
    placed: dict[str, list[Workload]]
    pending: tuple[Workload, ...]
    asks: Asks

    @classmethod
    def of(cls, snapshot: Snapshot) -> State:
        """The state a snapshot describes. The order of its rows (but the pools') makes no difference."""
        keys: dict[str, None] = {}
        topological = False
        placed: dict[str, list[Workload]] = {pool.id: [] for pool in snapshot.pools}
        pending = []
        for workload in sorted(snapshot.workloads, key=attrgetter("id")):
            if workload.node_selector:
                keys.update((key, None) for key, _ in workload.node_selector)
            if not topological and workload.topology != ANYWHERE:
                topological = True
            if workload.status is Status.PENDING:
                pending.append(workload)
            elif workload.pool in placed:
                placed[workload.pool].append(workload)
        by_pool: dict[str, list[Node]] = {pool.id: [] for pool in snapshot.pools}
        for node in snapshot.nodes:
            if node.pool in by_pool:
                by_pool[node.pool].append(node)
        fleets, whole = {}, {}
        for pool in snapshot.pools:
            nodes = by_pool[pool.id]
            fleets[pool.id] = whole[pool.id] = Fleet(pool, nodes, keys, topological=topological)
            if any(not node.cluster_online for node in nodes):
                whole[pool.id] = Fleet(pool, nodes, keys, topological=topological, offline_too=True)
        return cls(snapshot.pools, Tree(snapshot.teams), fleets, whole, placed, tuple(pending), Asks())
