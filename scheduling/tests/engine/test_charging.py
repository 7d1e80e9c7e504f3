"""Whose guarantee reserved work counts against.

lab (16: 8 of its own)
|- x (4)
|- y (4)
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.acceleration.kept_pool import charge_own, clear_charges
from scheduling.engine import Plan
from scheduling.engine.quota.charging import Charges, ReservedHolding
from scheduling.engine.quota.tree import QuotaAccounts, Tree
from scheduling.engine.reasons.misfits import of_quota
from scheduling.tests.engine.build import node, placed, plan, pool, started, team, waiting, waits

LAB = (team("lab", reserved=16), team("x", "lab", reserved=4), team("y", "lab", reserved=4))
NODES = [node(f"n{index}", 8) for index in range(3)]


def allocation(plan: Plan, workload: str) -> dict[str | None, int]:
    allocations = {row.workload: row.allocation for row in plan.starts}
    allocations |= {row.workload: row.allocation for row in plan.keeps}
    return {part.team: part.milli for part in allocations[workload]}


def test_reserved_work_uses_its_own_part_first_then_its_ancestors() -> None:
    found = plan(NODES, LAB, [waiting("w", "x", 6, priority=100)])
    assert allocation(found, "w") == {"x": 4_000, "lab": 2_000}


def test_a_siblings_guarantee_is_never_touched() -> None:
    found = plan(NODES, LAB, [waiting("w", "x", 1, pods=12, priority=100), waiting("z", "x", priority=100)])
    assert started(found) == {"w"}
    assert waits(found) == {"z": "waiting-for-reservation"}


def test_charges_are_worked_out_anew_so_that_an_own_part_that_came_free_is_used_first() -> None:
    running = placed("old", "x", 4, on="n0:0,1,2,3", priority=100)
    found = plan(NODES, LAB, [running])
    assert allocation(found, "old") == {"x": 4_000}


def test_the_parents_own_work_and_its_groups_draw_from_the_same_part() -> None:
    rows = [waiting("a", "lab", 8, priority=110), waiting("b", "x", 5, priority=100)]
    found = plan(NODES, LAB, rows)
    assert started(found) == {"a"}
    wait = next(wait for wait in found.waits if wait.workload == "b")
    assert (wait.reason.code, wait.reason.available_milli, wait.reason.limit_milli) == (
        "waiting-for-reservation",
        4_000,
        12_000,
    )


def test_an_elastic_workload_is_inside_its_teams_guarantee_as_far_as_that_goes() -> None:
    rows = [placed("old", "x", 3, on="n0:0,1,2", priority=50), waiting("new", "x", 3, priority=50)]
    found = plan(NODES, LAB, rows)
    assert allocation(found, "old") == {"x": 3_000}
    assert allocation(found, "new") == {"x": 1_000, None: 2_000}


def test_what_is_charged_above_does_not_count_against_a_burst_limit() -> None:
    teams = (team("lab", reserved=16), team("x", "lab", reserved=4, burst_limit_percent=0))
    found = plan(NODES, teams, [waiting("w", "x", 10, priority=100), waiting("e", "x", 1)])
    assert waits(found)["w"] == "larger-than-any-node"
    rows = [waiting("w", "x", 1, pods=10, priority=100), waiting("e", "x", 1)]
    found = plan(NODES, teams, rows)
    assert allocation(found, "w") == {"x": 4_000, "lab": 6_000}
    assert waits(found) == {"e": "waiting-for-ceiling"}


def test_a_maximum_counts_everything() -> None:
    teams = (team("lab", reserved=16), team("x", "lab", reserved=4, maximum=6))
    found = plan(NODES, teams, [waiting("w", "x", 1, pods=7, priority=100)])
    assert waits(found) == {"w": "exceeds-ceiling"}


def test_every_ancestors_ceiling_applies() -> None:
    teams = (team("top", maximum=3), team("mid", "top"), team("low", "mid"))
    found = plan(NODES, teams, [waiting("a", "low", 2), waiting("b", "mid", 2)])
    wait = next(wait for wait in found.waits)
    assert (wait.reason.code, wait.reason.team, wait.reason.available_milli) == (
        "waiting-for-ceiling",
        "top",
        1_000,
    )


@pytest.mark.parametrize("reserved", [True, False])
@pytest.mark.parametrize("name", ["lab", "x", "y"])
def test_the_most_that_a_team_could_ever_start_is_the_last_that_no_rule_keeps_out(
    name: str, reserved: bool
) -> None:
    teams = [
        team("lab", reserved=16, maximum=20),
        team("x", "lab", reserved=4, burst_limit_percent=50),
        team("y", "lab", reserved=4, maximum=3),
    ]
    tree = Tree(teams)
    charges, leaf = Charges(QuotaAccounts.of(tree, "main")), tree.leaf_of[name]
    most = charges.most_ever(leaf, reserved=reserved)
    row = waiting("w", name, priority=100 if reserved else 50)
    assert of_quota(tree, charges, leaf, row, most, pool=pool()) is None
    assert of_quota(tree, charges, leaf, row, most + 1, pool=pool()) is not None


def test_workloads_admitted_earlier_are_charged_to_the_nearer_part() -> None:
    tree = Tree([team("top", reserved=4), team("a", "top", reserved=2)])
    charges, leaf = Charges(QuotaAccounts.of(tree, "main")), tree.leaf_of["a"]
    rows = [
        replace(placed(name, "a", 2, on="n00:0", priority=100, submitted=1), started_at=at)
        for name, at in (("later", 9), ("starting", None), ("earlier", 5))
    ]
    found = charges.charge_all(ReservedHolding(row, leaf, 2_000) for row in rows)
    assert {id_: [(each.team, each.milli) for each in parts] for id_, parts in found.items()} == {
        "earlier": [("a", 2_000)],
        "later": [("top", 2_000)],
        "starting": [(None, 2_000)],
    }


@pytest.mark.parametrize(("held", "fits"), [(2_000, True), (2_001, False)])
def test_a_leaf_that_needs_no_more_than_its_own_part_is_charged_in_one(held: int, fits: bool) -> None:
    tree = Tree([team("top", reserved=4), team("a", "top", reserved=2)])
    accounts, leaf = QuotaAccounts.of(tree, "main"), tree.leaf_of["a"]
    accounts.usage.add(leaf, held, reserved=True)
    charges = Charges(accounts)
    assert charge_own(charges, accounts, leaf) is fits
    assert charges.left[leaf] == (0 if fits else 2_000)


def test_what_was_charged_above_a_branch_is_told_when_it_is_cleared() -> None:
    tree = Tree([team("top", reserved=4), team("a", "top", reserved=2)])
    accounts, leaf = QuotaAccounts.of(tree, "main"), tree.leaf_of["a"]
    charges = Charges(accounts)
    charges.charge(leaf, 3_000)
    assert clear_charges(charges, accounts, leaf)
    assert (charges.left[leaf], accounts.usage.above[leaf]) == (2_000, 0)
    assert not clear_charges(charges, accounts, leaf)
