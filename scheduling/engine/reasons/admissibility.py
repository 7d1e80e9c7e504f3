"""Which workloads could join a queue at all: nodes, guarantees and ceilings alone, in an empty pool (section 9)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scheduling.engine.model.repair import sound_teams
from scheduling.engine.model.snapshot import Node, Pool, Team, Topology, Workload
from scheduling.engine.placement.nodes import PoolNodes
from scheduling.engine.placement.pod_request import PodRequests
from scheduling.engine.quota.charging import Charges
from scheduling.engine.quota.tree import Accounts, Tree
from scheduling.engine.reasons.eligibility import Eligibility, Out, PoolView

ANYWHERE = Topology()
NO_NODES: list[Node] = []


class Admissibility:
    """Tells why workloads can join no queue of these pools, whatever comes free. Indexed once for many questions."""

    def __init__(
        self,
        pools: Sequence[Pool],
        teams: Sequence[Team],
        nodes: Collection[Node],
        *,
        like: Sequence[Workload],
    ) -> None:
        """Index the nodes by the labels, and where need be the topology, by which workloads like these choose."""
        self._tree = Tree(sound_teams(teams, ()))
        self._keys = frozenset(key for each in like for key, _ in each.node_selector)
        self._topological = any(each.topology != ANYWHERE for each in like)
        of_pool: dict[str, list[Node]] = {}
        for node in nodes:
            of_pool.setdefault(node.pool, []).append(node)
        settings = {}
        for pool in pools:
            pool_nodes = PoolNodes(
                pool, of_pool.get(pool.id, NO_NODES), sorted(self._keys), topological=self._topological
            )
            settings[pool.id] = PoolView(pool_nodes, Charges(Accounts.of(self._tree, pool.id)))
        self._eligibility = Eligibility(settings, self._tree, PodRequests())

    def knows(self, workload: Workload) -> bool:
        """Whether its team is there, and nodes are indexed by what it chooses them by."""
        chosen_by = {key for key, _ in workload.node_selector}
        placed = self._topological or workload.topology == ANYWHERE
        return placed and chosen_by <= self._keys and workload.team in self._tree.leaf_of

    def obstacles(self, workloads: Sequence[Workload], now: int) -> dict[str, Out]:
        """Why those of these that it knows can join no queue, by id."""
        return self._eligibility.sort([each for each in workloads if self.knows(each)], now).out
