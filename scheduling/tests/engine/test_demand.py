"""Demand as functions of values: what waiting reserved workloads count, and the cap of a branch."""

from __future__ import annotations

import pytest

from scheduling.engine.quota.demand import ReservedWant, Want, capped, reserved_demand
from scheduling.engine.quota.tree import QuotaAccounts, Tree
from scheduling.tests.engine.build import team

TREE = Tree([team("top", reserved=4), team("a", "top", reserved=2)])
A, TOP = TREE.leaf_of["a"], TREE.team_branch["top"]
LEFT = QuotaAccounts.of(TREE, "main").quotas.own


def test_a_waiting_reserved_workload_counts_as_many_pods_as_its_guarantees_have_left() -> None:
    found = reserved_demand(TREE, LEFT, [ReservedWant((-100, 1, "w"), A, 1_000, 1_000, 9)])
    assert found.wants == {A: Want(4_000, True, (-100, 1, "w"))}
    assert found.above == {A: 2_000}


def test_it_counts_nothing_where_its_minimum_of_pods_would_not_be_left() -> None:
    assert not reserved_demand(TREE, LEFT, [ReservedWant((-100, 1, "w"), A, 1_000, 5_000, 9)]).wants


def test_waiting_reserved_workloads_are_charged_by_rank() -> None:
    """The second by rank, given first here, finds one GPU left."""
    second, first = (
        ReservedWant((-100, 2, "x"), A, 1_500, 1_500, 1),
        ReservedWant((-120, 3, "w"), A, 1_000, 1_000, 3),
    )
    assert reserved_demand(TREE, LEFT, [second, first]).wants == {A: Want(3_000, True, (-120, 3, "w"))}
    assert LEFT[A] == 2_000


@pytest.mark.parametrize(("above", "expected"), [(0, 3_000), (500, 3_500), (4_000, 5_000)])
def test_what_would_be_charged_above_does_not_count_against_a_burst_limit(above: int, expected: int) -> None:
    tree = Tree([team("a", reserved=2, burst_limit_percent=50)])
    assert capped(QuotaAccounts.of(tree, "main"), tree.leaf_of["a"], 5_000, above) == expected


def test_demand_is_never_less_than_what_the_branch_has() -> None:
    tree = Tree([team("a", maximum=1)])
    accounts, leaf = QuotaAccounts.of(tree, "main"), tree.leaf_of["a"]
    accounts.usage.add(leaf, 3_000, reserved=False)
    assert capped(accounts, leaf, 5_000, 0) == 3_000
