"""Why workloads can join no queue, by the engine's own rule, without a cycle."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scheduling.engine import NodeInfo, PoolInfo, TeamInfo, Topology, WorkloadInfo
from scheduling.engine.model.repair import sound_teams
from scheduling.engine.placement.nodes import PoolNodes
from scheduling.engine.placement.pod_request import PodRequests
from scheduling.engine.quota.charging import Charges
from scheduling.engine.quota.tree import QuotaAccounts, Tree
from scheduling.engine.reasons.eligibility import Eligibility, Out, PoolView

ANYWHERE = Topology()
NO_NODES: list[NodeInfo] = []


class Admissibility:
    """Tells why workloads can join no queue of these pools, whatever comes free. Indexed once for many questions."""

    def __init__(
        self,
        pools: Sequence[PoolInfo],
        teams: Sequence[TeamInfo],
        nodes: Collection[NodeInfo],
        *,
        like: Sequence[WorkloadInfo],
    ) -> None:
        """Index the nodes by the labels, and where need be the topology, by which workloads like these choose."""
        self._tree = Tree(sound_teams(teams, ()))
        self._keys = frozenset(key for each in like for key, _ in each.node_selector)
        self._topological = any(each.topology != ANYWHERE for each in like)
        of_pool: dict[str, list[NodeInfo]] = {}
        for node in nodes:
            of_pool.setdefault(node.pool, []).append(node)
        settings = {}
        for pool in pools:
            pool_nodes = PoolNodes(
                pool, of_pool.get(pool.id, NO_NODES), sorted(self._keys), topological=self._topological
            )
            settings[pool.id] = PoolView(pool_nodes, Charges(QuotaAccounts.of(self._tree, pool.id)))
        self._eligibility = Eligibility(settings, self._tree, PodRequests())

    def knows(self, workload: WorkloadInfo) -> bool:
        """Whether its team is there, and nodes are indexed by what it chooses them by."""
        chosen_by = {key for key, _ in workload.node_selector}
        placed = self._topological or workload.topology == ANYWHERE
        return placed and chosen_by <= self._keys and workload.team in self._tree.leaf_of

    def obstacles(self, workloads: Sequence[WorkloadInfo], now: int) -> dict[str, Out]:
        """Why those of these that it knows can join no queue, by id."""
        return self._eligibility.sort([each for each in workloads if self.knows(each)], now).out
