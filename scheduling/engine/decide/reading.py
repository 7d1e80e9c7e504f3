"""The rows of a state as a cycle takes them: each workload and node in its pool, impossible rows made possible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from scheduling.engine.model.repair import Oddities, is_sound, sound_teams
from scheduling.engine.model.snapshot import NodeInfo, OpenStatus, Topology, WorkloadInfo
from scheduling.engine.model.state import State
from scheduling.engine.placement.ledger import Ledger
from scheduling.engine.placement.nodes import PoolNodes
from scheduling.engine.quota.tree import Tree

ANYWHERE = Topology()
PENDING = OpenStatus.PENDING  # at hand: an enum looks its members up by a function


class StateRows(NamedTuple):
    """The teams as a tree, the nodes and the placed workloads of each pool by its id, and the pending workloads.

    ``labels`` are those that some workload selects nodes by; ``topological``: one asks for a place in the topology.
    """

    tree: Tree
    oddities: Oddities
    nodes: Mapping[str, PoolNodes]
    placed: Mapping[str, list[WorkloadInfo]]
    pending: list[WorkloadInfo]
    labels: frozenset[str]
    topological: bool


def read(state: State, now: int) -> StateRows:
    """The rows of a state at this time."""
    teams = sound_teams(state.teams, {workload.team for workload in state.workloads.values()})
    oddities = Oddities(state.teams, teams, [pool.id for pool in state.pools])
    labels = frozenset(selected_by(state.workloads.values()))
    topological = is_topological(state.workloads.values())
    nodes: dict[str, list[NodeInfo]] = {pool.id: [] for pool in state.pools}
    placed: dict[str, list[WorkloadInfo]] = {pool.id: [] for pool in state.pools}
    for node in state.nodes.values():
        if node.pool in nodes:
            nodes[node.pool].append(node)
        else:
            oddities.homeless(node)
    pending = []
    for row in state.workloads.values():
        if row.status is PENDING:
            pending.append(row if is_sound(row) else oddities.take(row, now))
            continue
        workload = oddities.take(row, now)
        if workload.pool in placed:
            placed[workload.pool].append(workload)
    of_pools = {
        pool.id: PoolNodes(pool, nodes[pool.id], sorted(labels), topological=topological)
        for pool in state.pools
    }
    return StateRows(Tree(teams), oddities, of_pools, placed, pending, labels, topological)


def note_lost(
    workload: WorkloadInfo,
    home: Ledger,
    ledgers: Mapping[str, Ledger],
    nodes: Mapping[str, NodeInfo],
    oddities: Oddities,
) -> None:
    """Note a workload with pods on nodes that its pool has not; in a pool that has them it holds its devices."""
    missing = home.missing(workload)
    oddities.lose(workload, missing)
    there = {nodes[node].pool for node in missing if node in nodes}
    for pool_id, host in ledgers.items():
        if pool_id in there and host is not home:
            host.host(workload, home)


def selected_by(workloads: Iterable[WorkloadInfo]) -> set[str]:
    """The labels that some of these select nodes by."""
    return {key for workload in workloads if workload.node_selector for key, _ in workload.node_selector}


def is_topological(workloads: Iterable[WorkloadInfo]) -> bool:
    """Whether one of these asks for a place in the topology."""
    return any(workload.topology is not ANYWHERE and workload.topology != ANYWHERE for workload in workloads)
