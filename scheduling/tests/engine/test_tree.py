"""Guarantees, own parts and ceilings.

lab (16)
|- x (4)
|- y (4)
   |- y1 (6)
"""

from __future__ import annotations

from scheduling.engine import TeamInfo
from scheduling.engine.model.quantities import UNLIMITED
from scheduling.engine.quota.tree import BranchQuotas, BranchUsage, Tree
from scheduling.tests.engine.build import team

LAB = (
    team("lab", reserved=16),
    team("x", "lab", reserved=4),
    team("y", "lab", reserved=4),
    team("y1", "y", reserved=6),
)


def quotas(*teams: TeamInfo) -> tuple[Tree, BranchQuotas]:
    tree = Tree(teams)
    return tree, BranchQuotas.of(tree, "main")


def test_a_guarantee_is_the_reservation_or_what_the_children_have_together() -> None:
    tree, found = quotas(*LAB)
    guarantees = {name: found.guarantee[branch] for name, branch in tree.team_branch.items()}
    assert guarantees == {"lab": 16_000, "x": 4_000, "y": 6_000, "y1": 6_000}


def test_the_own_part_is_what_is_not_handed_to_children() -> None:
    tree, found = quotas(*LAB)
    own = {name: found.own[branch] for name, branch in tree.team_branch.items()}
    assert own == {"lab": 6_000, "x": 4_000, "y": 0, "y1": 6_000}


def test_work_of_a_parent_is_one_more_child_with_the_own_part_as_guarantee() -> None:
    tree, found = quotas(*LAB)
    leaf = tree.leaf_of["lab"]
    assert leaf != tree.team_branch["lab"]
    assert (tree.team_id(leaf), found.guarantee[leaf], found.weight[leaf]) == ("lab", 6_000, 1)


def test_a_ceiling_is_the_lower_of_maximum_and_burst_limit() -> None:
    tree, found = quotas(
        team("a", reserved=32, burst_limit_percent=50),
        team("b", reserved=32, burst_limit_percent=50, maximum=40),
        team("c", reserved=8, maximum=-1),
        team("d", burst_limit_percent=100),
    )
    ceilings = {name: found.ceiling(branch) for name, branch in tree.team_branch.items()}
    assert ceilings == {"a": 48_000, "b": 40_000, "c": UNLIMITED, "d": 0}


def test_several_roots_are_children_of_a_nameless_one() -> None:
    tree, found = quotas(team("a", reserved=2), team("b", reserved=3))
    assert found.guarantee[0] == 5_000
    assert tree.team_id(0) is None


def test_use_counts_in_every_branch_above() -> None:
    tree = Tree(LAB)
    usage = BranchUsage(tree)
    usage.add(tree.leaf_of["y1"], 2_000, reserved=True)
    used = {name for name, branch in tree.team_branch.items() if usage.used[branch] == 2_000}
    assert used == {"y1", "y", "lab"}
    assert usage.reserved[0] == 2_000


def test_two_teams_part_below_their_nearest_common_one() -> None:
    tree = Tree(LAB)
    assert tree.parting(tree.leaf_of["x"], tree.leaf_of["y1"]) == 1
    assert tree.parting(tree.leaf_of["y1"], tree.leaf_of["y1"]) == 3
