"""One pool as a cycle finds it: what is placed, what waits, what every branch has and should have (sections 1 to 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from scheduling.engine.model.plan import Allocation
from scheduling.engine.model.snapshot import GPU_MILLI, OpenStatus, WorkloadInfo
from scheduling.engine.placement.ledger import Ledger
from scheduling.engine.placement.nodes import PoolNodes
from scheduling.engine.placement.pod_request import PodRequests
from scheduling.engine.preemption.policy import PreemptionPolicy
from scheduling.engine.preemption.victims import CycleClock, PlacedWorkload, protected
from scheduling.engine.queue.candidate import Candidate, PoolRequest
from scheduling.engine.queue.order import Level, fairness_ratio, lined_up
from scheduling.engine.quota.charging import Charges, ReservedHolding
from scheduling.engine.quota.demand import NOTHING, Demand, LeafWants, Want, demand_of
from scheduling.engine.quota.entitlement import divide_all
from scheduling.engine.quota.tree import QuotaAccounts, Tree


class PoolState:
    """One pool: its nodes, what is placed there, what every branch may have and has.

    ``nodes`` are the nodes that take new pods, ``pool_nodes`` also others of the pool. ``placed_workloads`` are what is
    placed; ``growing`` those of them that have not all their pods; ``stopping`` those that are over but still hold
    devices. ``allocations`` says of reserved ones whose guarantees they are charged to. ``given`` is what a cycle gives
    each branch.
    """

    demand: Demand

    def __init__(
        self, pool_nodes: PoolNodes, tree: Tree, requests: PodRequests, ledger: Ledger, now: int
    ) -> None:
        self.pool_nodes = pool_nodes
        self.nodes = pool_nodes.in_service
        self.pool = self.nodes.pool
        self.tree = tree
        self.requests = requests
        self.ledger = ledger
        self.clock = CycleClock(now)
        self.accounts = QuotaAccounts.of(tree, self.pool.id)
        self.charges = Charges(self.accounts)
        self.entitled = [0] * len(tree)
        self.next_entitled = [0] * len(tree)
        self.preemption_policy = PreemptionPolicy(
            self.pool.policy, self.accounts, self.entitled, self.next_entitled
        )
        self.given = [0] * len(tree)
        self.ratio = fairness_ratio(self.pool.policy, self.accounts, self.entitled, self.given)
        self.placed_workloads: dict[str, PlacedWorkload] = {}
        self.growing: dict[str, Candidate] = {}
        self.stopping: dict[str, WorkloadInfo] = {}
        self.allocations: dict[str, list[Allocation]] = {}

    def growth_of(self, placed: PlacedWorkload) -> Candidate | None:
        """A placed workload as a candidate for the pods that it has not; ``None`` if it has all, or takes no GPUs."""
        workload, request = placed.workload, self.requests.of(placed.workload)
        pod_milli = self.nodes.pod_milli(request)
        if len(placed.pods) >= workload.pods or not pod_milli:
            return None
        wanted = min(workload.pods, self.nodes.most_together(request)) - len(placed.pods)
        limit = workload.time_limit_ms
        return Candidate(
            workload,
            placed.leaf,
            PoolRequest(self.pool.id, request, pod_milli, 1, max(0, wanted), limit),
        )

    # --- What may change from cycle to cycle ------------------------------------------------------------------

    def elastic_on(self, leaf: int) -> Iterable[PlacedWorkload]:
        """The elastic workloads of a leaf that were placed before this cycle, and still are."""
        return [
            each
            for each in self.placed_workloads.values()
            if each.leaf == leaf and not each.reserved and not each.fresh
        ]

    def preemptible(self) -> dict[str, PlacedWorkload]:
        """The elastic workloads that were placed before this cycle, and still are, by id."""
        return {id_: each for id_, each in self.placed_workloads.items() if not (each.reserved or each.fresh)}

    def is_protected(self, placed: PlacedWorkload) -> bool:
        """Whether other elastic workloads may not have it as a victim."""
        return protected(placed.workload, self.pool.policy, self.clock.now)

    def not_running(self) -> Iterator[PlacedWorkload]:
        """The workloads placed before this cycle, and still placed, whose pods do not run yet."""
        for each in self.placed_workloads.values():
            if each.workload.status is not OpenStatus.RUNNING and not each.fresh:
                yield each

    def entitle_next(self) -> None:
        """Work out what the next cycle will entitle the branches to, as far as this one can tell."""
        self.next_entitled[:] = divide_all(self.accounts, self.demand, self.nodes.capacity_milli)


class PlainPoolState(PoolState):
    """A pool, made from its rows at the beginning of a cycle."""

    def __init__(
        self,
        pool_nodes: PoolNodes,
        tree: Tree,
        requests: PodRequests,
        workloads: Sequence[WorkloadInfo],
        now: int,
    ) -> None:
        ledger = Ledger(pool_nodes.in_service, workloads)
        super().__init__(pool_nodes, tree, requests, ledger, now)
        self.levels: Mapping[Level, Mapping[int, Sequence[Candidate]]] = {}
        for workload in workloads:
            if workload.status is OpenStatus.STOPPING:
                self.stopping[workload.id] = workload
                continue
            placed = PlacedWorkload(workload, tree.leaf_of[workload.team], workload.placements, self.clock)
            self.placed_workloads[workload.id] = placed
            self.accounts.usage.add(placed.leaf, placed.milli, reserved=placed.reserved)
            growth = self.growth_of(placed)
            if growth is not None:
                self.growing[workload.id] = growth

    def line_up(self, candidates: Iterable[Candidate]) -> None:
        """Have these candidates wait; charge what is placed, and work out demand and entitlements."""
        candidates = list(candidates)
        self.levels = lined_up(self.pool.policy, candidates)
        reserved = [each for each in self.placed_workloads.values() if each.reserved]
        held = [ReservedHolding(each.workload, each.leaf, each.milli) for each in reserved]
        self.allocations.update(self.charges.charge_all(held))
        self.demand = demand_of(self.accounts, self.charges.left, self._wants(candidates))
        self.entitled[:] = divide_all(self.accounts, self.demand, self.nodes.capacity_milli)

    def _wants(self, candidates: Iterable[Candidate]) -> LeafWants:
        """What waits in the leaves, and what has not all its pods."""
        growing = [each for each in self.growing.values() if each.pool_request.wanted_pods]
        counting = [each for each in (*candidates, *growing) if each.pool_request.counts]
        elastic: dict[int, Want] = {}
        for each in counting:
            if not each.reserved:
                takes = each.pool_request
                want = Want(takes.wanted_milli, not takes.pod_milli % GPU_MILLI, each.key)
                elastic[each.leaf] = elastic.get(each.leaf, NOTHING) + want
        reserved = [each.reserved_want() for each in counting if each.reserved]
        sharing = {each.leaf for each in self.placed_workloads.values() if shares_a_device(each)}
        return LeafWants(elastic, reserved, sharing)


def shares_a_device(placed: PlacedWorkload) -> bool:
    """Whether one of its pods takes a part of a device."""
    if placed.milli % GPU_MILLI or len(placed.pods) == 1:
        return placed.milli % GPU_MILLI > 0
    return any(pod.milli % GPU_MILLI for pod in placed.pods)
