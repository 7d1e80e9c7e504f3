"""The order of the queue, seen in the positions of those who wait behind a full pool."""

from __future__ import annotations

from typing import Any

from scheduling.acceleration.heap_queue import HeapQueue, LevelHeaps
from scheduling.engine import ElasticPreemption, Fairness, Plan, TeamInfo, WorkloadInfo
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.queue.candidate import Candidate, PoolRequest
from scheduling.engine.quota.tree import Tree
from scheduling.tests.engine.build import node, placed, plan, pool, team, waiting

FULL = [placed("busy", "other", 2, on="n0:0,1", priority=100)]
OTHER = team("other", reserved=2)


def order(found: Plan) -> list[str]:
    return [wait.workload for wait in sorted(found.waits, key=lambda wait: wait.position or 0)]


def queue(teams: list[TeamInfo], rows: list[WorkloadInfo], **policy: Any) -> list[str]:
    return order(plan([node("n0", 2)], [OTHER, *teams], [*FULL, *rows], pool(**policy)))


def test_reserved_comes_before_elastic_and_higher_priority_first() -> None:
    rows = [
        waiting("low", "a", priority=10, submitted=90),
        waiting("high", "a", priority=90),
        waiting("reserved", "a", priority=100, submitted=1),
        waiting("more", "a", priority=200, submitted=1),
    ]
    assert queue([team("a", reserved=2)], rows) == ["more", "reserved", "high", "low"]


def test_then_earlier_submission_then_id() -> None:
    rows = [waiting("b", "a"), waiting("c", "a", submitted=90), waiting("a", "a")]
    assert queue([team("a")], rows) == ["c", "a", "b"]


def test_the_fairer_team_goes_first_and_the_ratio_follows_what_the_cycle_admits() -> None:
    """4 GPUs, weights 3 and 1: two for a before the first of b, as (U + 1)/E is 1/3, 2/3, 1 against 1/1."""
    rows = [waiting(f"{name}{index}", name, submitted=9 - index) for name in "ab" for index in range(4)]
    found = plan([node("n0", 4)], [team("a", weight=3), team("b")], rows)
    assert sorted(start.workload for start in found.starts) == ["a0", "a1", "a2", "b0"]


def test_the_branch_is_chosen_level_by_level() -> None:
    """2 GPUs. The right branch is one team, the left one two: each branch gets one.

    left   right
    |- l1
    |- l2
    """
    teams = [team("left"), team("l1", "left"), team("l2", "left"), team("right")]
    rows = [waiting(f"{name}-{index}", name) for name in ("l1", "l2", "right") for index in range(2)]
    found = plan([node("n0", 2)], teams, rows)
    assert sorted(start.workload for start in found.starts) == ["l1-0", "right-0"]


def test_priority_comes_before_fairness_by_default() -> None:
    rows = [waiting(f"a{index}", "a", priority=60) for index in range(3)] + [waiting("b", "b", submitted=99)]
    found = plan([node("n0", 3)], [team("a"), team("b")], rows)
    assert sorted(start.workload for start in found.starts) == ["a0", "a1", "a2"]


def test_under_fair_share_priorities_order_a_teams_own_only() -> None:
    rows = [waiting(f"a{index}", "a", priority=60) for index in range(3)] + [waiting("b", "b", priority=1)]
    for mode in (ElasticPreemption.FAIR_SHARE, ElasticPreemption.NEVER):
        policy = pool(elastic_preemption=mode)
        found = plan([node("n0", 3)], [team("a"), team("b")], rows, policy)
        assert sorted(start.workload for start in found.starts) == ["a0", "a1", "b"]


def test_by_usage_whoever_has_used_less_for_his_weight_goes_first() -> None:
    teams = [team("a", usage_hours=10), team("b", usage_hours=12, weight=2), team("c", usage_hours=7)]
    rows = [waiting(name * 2, name) for name in "abc"]
    assert queue(teams, rows, fairness=Fairness.USAGE) == ["bb", "cc", "aa"]


def test_by_usage_what_the_cycle_gives_counts_as_an_hour() -> None:
    """a is 1.5 GPU-hours behind b: it gets two GPUs before b's first, not three."""
    teams = [team("a", usage_hours=1), team("b", usage_hours=3)]
    rows = [waiting(f"{name}{index}", name, submitted=9) for name in "ab" for index in range(3)]
    found = plan([node("n0", 4)], teams, rows, pool(fairness=Fairness.USAGE))
    assert sorted(start.workload for start in found.starts) == ["a0", "a1", "a2", "b0"]


def test_a_parents_usage_includes_its_childrens() -> None:
    teams = [team("p"), team("q", "p", usage_hours=9), team("r", usage_hours=5)]
    assert queue(teams, [waiting("qq", "q"), waiting("rr", "r")], fairness=Fairness.USAGE) == ["rr", "qq"]


def test_who_is_entitled_to_nothing_comes_last() -> None:
    teams = [team("a", weight=0), team("b")]
    found = plan([node("n0", 1)], teams, [waiting("aa", "a", submitted=99), waiting("bb", "b")])
    assert [start.workload for start in found.starts] == ["bb"]


def test_who_goes_out_of_his_turn_leaves_the_others_in_order() -> None:
    """Three of a team: the one in the middle goes first, as somebody who started in another pool does."""
    tree = Tree([team("a")])
    leaf = tree.leaf_of["a"]
    rows = [waiting(f"w{index}", "a", submitted=9 - index) for index in range(3)]
    row = [Candidate(each, leaf, PoolRequest("main", PodRequest.of(each), 1000, 1, 1, None)) for each in rows]
    queue = HeapQueue(LevelHeaps(tree, lambda *_: 0.0), {(True, -50): {leaf: row}})
    assert queue.peek() is row[0]
    queue.remove(row[1])
    queue.remove(row[0])
    assert queue.peek() is row[2]
    queue.remove(row[2])
    assert queue.peek() is None


def test_a_branch_moves_when_a_team_of_it_that_nobody_waits_for_uses_more() -> None:
    """Only left-a and right have somebody who waits; what left-b uses counts for left."""
    tree = Tree([team("left"), team("left-a", "left"), team("left-b", "left"), team("right")])
    used = [0] * len(tree)
    lines = {}
    for name in ("left-a", "right"):
        each, leaf = waiting(name, name), tree.leaf_of[name]
        lines[leaf] = [Candidate(each, leaf, PoolRequest("main", PodRequest.of(each), 1000, 1, 1, None))]
    queue = HeapQueue(LevelHeaps(tree, lambda branch, _: float(used[branch])), {(True, -50): lines})
    assert queue.peek().id == "left-a"  # type: ignore[union-attr]  # of equal ones the first by id
    used[tree.team_branch["left"]] = used[tree.leaf_of["left-b"]] = 1000
    queue.touch(tree.leaf_of["left-b"])
    assert queue.peek().id == "right"  # type: ignore[union-attr]
