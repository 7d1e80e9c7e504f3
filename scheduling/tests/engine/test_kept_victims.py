"""Victims that are kept up to date between two searches are those that a search anew would find."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.acceleration.cost_bounds import CostBounds
from scheduling.acceleration.eligible_victims import EligibleVictims
from scheduling.acceleration.indexed_pods import IndexedPods
from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.engine import PLACED, GpuShare, OpenStatus, Snapshot, WorkloadInfo
from scheduling.engine.model.quantities import UNLIMITED
from scheduling.engine.placement.nodes import Nodes
from scheduling.engine.placement.pod_request import PodRequest, PodRequests
from scheduling.engine.preemption.victims import CycleClock, PlacedWorkload, working_since
from scheduling.engine.quota.tree import Tree
from scheduling.tests.engine.build import NOW, waiting
from scheduling.tests.engine.worlds import worlds

WHOLE, HALF = PodRequest.of(waiting("whole", "left-a", 1)), PodRequest.of(waiting("half", "left-a", 0.5))


class Searching:
    """A ledger, those who lie there, and everything that searches keep."""

    def __init__(self, world: Snapshot) -> None:
        tree = self.tree = Tree(world.teams)
        pool = world.pools[0]
        self.rows = [row for row in world.workloads if row.status is not OpenStatus.PENDING]
        nodes = [node for node in world.nodes if node.pool == pool.id]
        self.ledger = KeptLedger(Nodes(pool, nodes, ["rack"]), self.rows)
        self.clock = CycleClock(NOW)
        self.placed_workloads = [self.placed(row) for row in self.rows if row.status in PLACED]
        self.eligible = EligibleVictims(
            self.ledger, tree, {each.workload.id: each for each in self.placed_workloads}
        )
        self.bounds = CostBounds(self.ledger, self.eligible)
        self.tallies = [
            IndexedPods(self.ledger, request, self.ledger.nodes.domains(request)[-1])
            for request in (WHOLE, HALF)
        ]

    def placed(self, row: WorkloadInfo) -> PlacedWorkload:
        return PlacedWorkload(row, self.tree.leaf_of[row.team], row.placements, self.clock)

    def figures(self) -> list[object]:
        """All that a search reads of it."""
        leaves = range(len(self.tree))
        return [
            [tally.refresh().totals for tally in self.tallies],
            [self.bounds.by_cost(request, highest) for request in (WHOLE, HALF) for highest in (None, 50)],
            [
                (leaf, cell, sorted(each.workload.id for each in self.eligible.of(cell)))
                for leaf in leaves
                for cell in sorted(self.eligible.cells(leaf))
            ],
            [self.eligible.milli(leaf, 50) for leaf in leaves],
            [each.tolist() for each in self.eligible.holdings.by_node(len(self.ledger.nodes.rows), 4)],
            self.held(),
            [
                (tier, leaf, [victim.key for victim in victims])
                for tier in self.eligible.tiers()
                for leaf in sorted(self.eligible.of_tier(tier))
                if (victims := self.eligible.of_tier(tier).of_leaf(leaf))
            ],
        ]

    def held(self) -> list[tuple[object, ...]]:
        """Everything in the arrays that is there, by the workloads' ids."""
        found = self.eligible.holdings
        ids = [placed.workload.id for placed in found.placed_workloads]
        rows = [
            (
                ids[owner],
                *(getattr(found.owners, each.name)[owner] for each in fields(found.owners)),
                *(getattr(found.pods, each.name)[row] for each in fields(found.pods)[1:]),
                *[
                    (found.shares.at[at], found.shares.milli[at])
                    for at in np.flatnonzero(found.shares.pod == row)
                ],
            )
            for row, owner in enumerate(found.pods.owner.tolist())
            if found.there[owner]
        ]
        return sorted(rows, key=str)

    def let_go(self, placed: PlacedWorkload, pods: int) -> None:
        """Let the last pods of a workload go, and the workload with its last."""
        gone = tuple(placed.pods[-pods:])
        self.eligible.drop(placed)
        placed.lose(frozenset(pod.pod_index for pod in gone))
        self.ledger.leave(placed.workload, gone)
        if placed.pods:
            self.eligible.add(placed)


@given(worlds(several_pools=False), st.lists(st.tuples(st.integers(0, 7), st.integers(1, 3)), max_size=6))
@settings(max_examples=60, deadline=None)
def test_after_any_departures_all_figures_are_those_of_a_fresh_look(
    world: Snapshot, departures: list[tuple[int, int]]
) -> None:
    kept = Searching(world)
    kept.figures()
    for at, pods in departures:
        if at < len(kept.placed_workloads) and kept.placed_workloads[at].pods:
            kept.let_go(kept.placed_workloads[at], pods)
            kept.figures()
    left = {each.workload.id: tuple(each.pods) for each in kept.placed_workloads}
    rows = [
        replace(row, placements=left.get(row.id, row.placements))
        for row in world.workloads
        if left.get(row.id, True)
    ]
    assert kept.figures() == Searching(replace(world, workloads=tuple(rows))).figures()


@given(worlds(several_pools=False))
@settings(max_examples=40, deadline=None)
def test_the_arrays_say_of_each_since_when_its_work_would_be_lost(world: Snapshot) -> None:
    found = Searching(world).eligible.holdings
    since = [working_since(each.workload) for each in found.placed_workloads]
    assert found.owners.since.tolist() == [UNLIMITED if each is None else each for each in since]


def test_workloads_that_ask_the_same_share_one_ask() -> None:
    rows = [waiting(name, "left-a", cpu_milli=500) for name in ("a", "b")]
    requests = PodRequests()
    assert requests.of(rows[0]) is requests.of(replace(rows[1], request=GpuShare(1000)))
