"""Who goes for whom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scheduling.engine import ElasticPreemption, OpenStatus, Plan, Topology, WorkloadInfo, labels_of
from scheduling.tests.engine.build import (
    MINUTE,
    NOW,
    node,
    nodes_of,
    placed,
    plan,
    pool,
    preempted,
    started,
    team,
    waiting,
    waits,
)

FAIR: dict[str, Any] = {"elastic_preemption": ElasticPreemption.FAIR_SHARE}
NEVER: dict[str, Any] = {"elastic_preemption": ElasticPreemption.NEVER}
SSD, HDD = labels_of({"disk": "ssd"}), labels_of({"disk": "hdd"})


def ones(team: str, *devices: int, prefix: str = "", **fields: Any) -> list[WorkloadInfo]:
    """One-GPU workloads of a team on devices of n0."""
    return [placed(f"{prefix or team}{device}", team, on=f"n0:{device}", **fields) for device in devices]


def rule(found: Plan) -> dict[str, tuple[str, str | None]]:
    return {row.workload: (str(row.rule), row.level) for row in found.preemptions}


def test_reserved_work_is_never_preempted_whatever_its_priority() -> None:
    rows = [*ones("a", 0, 1, priority=100), waiting("w", "b", priority=5000)]
    found = plan([node("n0", 2)], [team("a", reserved=2), team("b", reserved=2)], rows)
    assert (preempted(found), waits(found)) == (set(), {"w": "waiting-for-gpus"})


def test_a_reserved_newcomer_takes_any_elastic_workload_even_protected_ones() -> None:
    rows = [*ones("a", 0, started=1, preemptions_24h=9), waiting("w", "b", priority=100)]
    policy = pool(min_runtime_ms=60 * MINUTE, max_preemptions=1, **NEVER)
    found = plan([node("n0", 1)], [team("a"), team("b", reserved=1)], rows, policy)
    assert rule(found) == {"a0": ("reserved", None)}
    assert found.starts[0].waits_for_victims
    assert found.starts[0].reason is not None


def test_beyond_its_guarantee_reserved_work_takes_nobodys_gpus() -> None:
    rows = [*ones("a", 0, 1), placed("r", "b", on="n0:2", priority=100), waiting("w", "b", priority=100)]
    found = plan([node("n0", 3)], [team("a"), team("b", reserved=1)], rows)
    assert (preempted(found), waits(found)) == (set(), {"w": "waiting-for-reservation"})


def test_at_a_ceiling_the_subtrees_elastic_work_goes_even_while_gpus_are_idle_elsewhere() -> None:
    rows = [*ones("a", 0, 1), placed("x", "b", on="n0:2"), waiting("w", "a", priority=100)]
    found = plan([node("n0", 8)], [team("a", reserved=2, maximum=2), team("b")], rows)
    assert preempted(found) == {"a0"}
    assert not found.starts[0].waits_for_victims


def test_higher_priority_preempts_lower_of_any_team() -> None:
    rows = [*ones("a", 0, priority=50), waiting("w", "b", priority=51)]
    assert rule(plan([node("n0", 1)], [team("a"), team("b")], rows)) == {"a0": ("priority", None)}


def test_equal_priority_is_decided_by_shares() -> None:
    """4 GPUs, all with a; b is due two: it gets two, one after the other, and not the third."""
    rows = [*ones("a", 0, 1, 2, 3), *(waiting(f"b{index}", "b") for index in range(3))]
    found = plan([node("n0", 4)], [team("a"), team("b")], rows)
    assert set(rule(found).values()) == {("fair-share", None)}
    assert (len(preempted(found)), started(found)) == (2, {"b0", "b1"})


def test_shares_are_compared_at_the_level_where_the_branches_part() -> None:
    """left (2)          right (2)
    |- l1 runs 2         |- runs 2
    |- l2 is due 1
    """
    teams = [team("left"), team("l1", "left"), team("l2", "left"), team("right")]
    rows = [*ones("l1", 0, 1), *ones("right", 2, 3), waiting("w", "l2")]
    assert rule(plan([node("n0", 4)], teams, rows)) == {"l10": ("fair-share", "left")}


def test_no_team_is_preempted_below_what_it_is_due() -> None:
    rows = [*ones("a", 0, 1), *ones("b", 2, 3), waiting("w", "b")]
    found = plan([node("n0", 4)], [team("a"), team("b")], rows)
    assert (preempted(found), waits(found)) == (set(), {"w": "waiting-for-gpus"})


def test_under_fair_share_priority_counts_only_inside_a_team() -> None:
    rows = [*ones("a", 0, priority=10), *ones("b", 1, priority=50), waiting("w", "b", priority=90)]
    found = plan([node("n0", 2)], [team("a"), team("b")], rows, pool(**FAIR))
    assert rule(found) == {"b1": ("priority", "b")}


def test_under_fair_share_a_low_priority_takes_back_its_teams_share_from_a_high_one() -> None:
    rows = [*ones("a", 0, 1, priority=90), waiting("w", "b", priority=1)]
    found = plan([node("n0", 2)], [team("a"), team("b")], rows, pool(**FAIR))
    assert set(rule(found).values()) == {("fair-share", None)}


def test_a_guarantee_may_be_taken_back_from_who_is_above_his() -> None:
    rows = [*ones("a", 0, 1, 2), waiting("w", "b", 1)]
    found = plan([node("n0", 3)], [team("a", weight=9), team("b", reserved=1)], rows)
    assert len(preempted(found)) == 1


def test_never_lets_elastic_work_preempt_nobody() -> None:
    rows = [*ones("a", 0, priority=1), waiting("w", "a", priority=99)]
    assert preempted(plan([node("n0", 1)], [team("a")], rows, pool(**NEVER))) == set()


def test_who_runs_too_short_or_was_preempted_too_often_is_spared_by_elastic_work() -> None:
    rows = [*ones("a", 0, priority=1, started=4), *ones("a", 1, prefix="b", priority=1, preemptions_24h=3)]
    policy = pool(min_runtime_ms=5 * MINUTE, max_preemptions=3)
    assert preempted(plan([node("n0", 2)], [team("a")], [*rows, waiting("w", "a")], policy)) == set()
    policy = pool(min_runtime_ms=4 * MINUTE, max_preemptions=4)
    assert preempted(plan([node("n0", 2)], [team("a")], [*rows, waiting("w", "a")], policy)) == {"a0"}


def test_victims_go_by_status_then_priority_then_least_work_lost() -> None:
    rows = [
        placed("running", "a", on="n0:0", priority=1),
        placed("starting", "a", on="n0:1", priority=2, status=OpenStatus.STARTING),
        placed("queued", "a", on="n0:2", priority=3, status=OpenStatus.QUEUED),
        placed("older", "a", on="n0:3", priority=5, started=90),
        placed("younger", "a", on="n0:4", priority=5, started=80),
    ]
    expected = ["queued", "starting", "running", "younger", "older"]
    for count in range(1, 6):
        newcomers = [waiting("w", "b", pods=count, priority=100)]
        found = plan([node("n0", 5)], [team("a"), team("b", reserved=5)], [*rows, *newcomers])
        assert preempted(found) == set(expected[:count])


def test_a_checkpoint_makes_a_victim_cheap() -> None:
    old, new = ones("a", 0, started=600), ones("a", 1, started=10)
    saved = replace(old[0], checkpointed_at=NOW - MINUTE)
    found = plan(
        [node("n0", 2)], [team("a"), team("b", reserved=1)], [saved, *new, waiting("w", "b", priority=100)]
    )
    assert preempted(found) == {"a0"}
    assert found.preemptions[0].lost_gpu_ms == MINUTE


def test_the_team_most_above_its_share_yields_first() -> None:
    """6 GPUs: a holds 4 (due 2), b holds 2 (due 2), c is due 2 and its guarantee."""
    rows = [*ones("a", 0, 1, 2, 3, started=900), *ones("b", 4, 5, started=1)]
    rows += [waiting("w", "c", pods=2, priority=100)]
    found = plan([node("n0", 6)], [team("a"), team("b"), team("c", reserved=2)], rows)
    assert {name[0] for name in preempted(found)} == {"a"}


def test_pods_above_a_minimum_go_before_any_whole_workload() -> None:
    gang = placed("gang", "a", on="n0:0 n0:1 n0:2", min_pods=1, priority=90)
    rows = [gang, placed("cheap", "a", on="n0:3", priority=1, status=OpenStatus.QUEUED)]
    found = plan(
        [node("n0", 4)], [team("a"), team("b", reserved=2)], [*rows, waiting("w", "b", 2, priority=100)]
    )
    assert preempted(found) == set()
    assert [(row.workload, row.pods) for row in found.shrinks] == [("gang", (1, 2))]


def test_only_what_the_newcomer_can_use_is_freed() -> None:
    rows = [placed("far", "a", on="n1:0", gpu_types=(), priority=1), *ones("a", 0, priority=40)]
    nodes = [node("n0", 1), node("n1", 1, gpu_type="A100")]
    found = plan(
        nodes,
        [team("a"), team("b", reserved=1)],
        [*rows, waiting("w", "b", priority=100, gpu_types=("H100",))],
    )
    assert preempted(found) == {"a0"}


def test_nobody_goes_where_the_newcomer_would_still_not_fit() -> None:
    rows = [*ones("a", 0), placed("hard", "b", on="n0:1", priority=100), waiting("w", "b", 2, priority=100)]
    found = plan([node("n0", 2)], [team("a"), team("b", reserved=3)], rows)
    assert (preempted(found), waits(found)) == (set(), {"w": "waiting-for-gpus"})


def test_of_several_places_the_one_with_the_cheapest_dearest_victim_wins() -> None:
    """A whole node is needed: n0 holds one dear and one cheap workload, n1 two of middling priority."""
    rows = [
        placed("cheap", "a", on="n0:0", priority=1),
        placed("dear", "a", on="n0:1", priority=80),
        placed("mid0", "a", on="n1:0", priority=40),
        placed("mid1", "a", on="n1:1", priority=40),
    ]
    found = plan(
        [node("n0", 2), node("n1", 2)],
        [team("a"), team("b", reserved=2)],
        [*rows, waiting("w", "b", 2, priority=100)],
    )
    assert (preempted(found), nodes_of(found, "w")) == ({"mid0", "mid1"}, ["n1"])


def test_a_shared_device_is_emptied_rather_than_two_halves() -> None:
    rows = [
        placed(f"a{index}", "a", 0.5, on=f"n0:{index // 2}", started=10 + index % 2 * 50)
        for index in range(4)
    ]
    found = plan(
        [node("n0", 2)], [team("a"), team("b", reserved=1)], [*rows, waiting("w", "b", priority=100)]
    )
    assert preempted(found) == {"a0", "a1"}


def test_victims_are_taken_where_the_gangs_topology_can_use_them() -> None:
    nodes = [node(f"{rack}{index}", 1, labels={"rack": rack}) for rack in "ab" for index in range(2)]
    rows = [
        placed(name, "a", on=f"{name}:0", started=age)
        for name, age in (("a0", 1), ("a1", 900), ("b0", 60), ("b1", 60))
    ]
    gang = waiting("w", "b", pods=2, priority=100, topology=Topology(required="rack"))
    found = plan(nodes, [team("a"), team("b", reserved=2)], [*rows, gang], pool(topology=["rack"]))
    assert preempted(found) == {"b0", "b1"}


def test_what_a_victim_leaves_over_is_offered_to_the_queue_again() -> None:
    rows = [
        placed("big", "a", 4, on="n0:0,1,2,3", priority=10),
        waiting("first", "b", 2, priority=40),
        waiting("later", "b", 2, priority=5),
    ]
    found = plan([node("n0", 4)], [team("a"), team("b")], rows)
    assert preempted(found) == {"big"}
    assert started(found) == {"first", "later"}
    assert {start.workload: start.victims for start in found.starts}["later"] == ()


def test_what_a_cycle_starts_is_no_victim_of_the_same_cycle() -> None:
    rows = [waiting("a0", "a", submitted=99), waiting("a1", "a", submitted=98), waiting("b0", "b", 2)]
    found = plan([node("n0", 2)], [team("a"), team("b")], rows)
    assert preempted(found) == set()


def test_a_preemption_that_could_be_turned_round_at_once_does_not_happen() -> None:
    """a holds 12 of the 18 it could: one of 1 and one of 8 would have to go for b's 9, but then a's 1 could return."""
    teams = [team("a", reserved=10), team("b")]
    rows = [placed("small", "a", 1, on="n0:0"), placed("large", "a", 8, on="n1:0,1,2,3,4,5,6,7")]
    rows += [placed("more", "a", 3, on="n2:0,1,2"), waiting("w", "b", 1, pods=9)]
    nodes = [node("n0", 1), node("n1", 8), node("n2", 3)]
    assert preempted(plan(nodes, teams, rows)) == set()


def test_a_queued_victim_is_gone_at_once() -> None:
    rows = [placed("queued", "a", on="n0:0", status=OpenStatus.QUEUED), waiting("w", "b", priority=100)]
    found = plan([node("n0", 1)], [team("a"), team("b", reserved=1)], rows)
    assert (preempted(found), found.starts[0].waits_for_victims) == ({"queued"}, False)


def test_where_those_of_the_cheapest_place_would_do_elsewhere_at_a_higher_price_they_go_there() -> None:
    """w needs one GPU: the spare pod of g and y on n1, or g as a whole, of which much is lost, on n0."""
    rows = [
        placed("g", "a", 0.5, on="n0:0 n0:0 n1:0", min_pods=2, started=60),
        placed("y", "b", 0.5, on="n1:0", started=1),
        waiting("w", "res", priority=100),
    ]
    found = plan([node("n0", 1), node("n1", 1)], [team("res", reserved=1), team("a"), team("b")], rows)
    assert (preempted(found), [shrink.workload for shrink in found.shrinks]) == ({"y"}, ["g"])
    assert nodes_of(found, "w") == ["n1"]


def test_a_victim_that_the_next_cycle_would_let_take_its_place_back_stays() -> None:
    """a and b are entitled to 2.5 GPUs each; a has the odd one, as its z comes first. When p and q have started, b
    has it, as it holds more: after w had taken the place of v, b would be within its 3 GPUs and a above its 2."""
    rows = [
        placed("a", "a", 2, on="n0:0,1"),
        placed("v", "b", on="n1:0"),
        waiting("w", "a", node_selector=SSD),
    ]
    rows += [placed("r", "r", on="n2:0", priority=100), waiting("z", "a", priority=70, node_selector=HDD)]
    rows += [waiting(name, "b", priority=60) for name in "pq"]
    nodes = [node("n0", 4), node("n1", 1, labels={"disk": "ssd"}), node("n2", 1, labels={"disk": "hdd"})]
    found = plan(nodes, [team("a"), team("b"), team("r", reserved=1)], rows)
    assert (started(found), preempted(found)) == ({"p", "q"}, set())


def test_of_the_cheapest_place_those_are_spared_without_whom_another_does() -> None:
    """Emptying n0 costs less than what the order takes on n1: the halves of u, which is most above its share. As g goes
    from n0 it also goes from n1, and there is place for w without a."""
    rows = [placed("a", "t", on="n0:0", started=10), placed("g", "t", on="n0:1 n1:0", started=10)]
    rows += [placed(name, "u", 0.5, on="n1:1", started=100) for name in "hi"]
    rows.append(waiting("w", "r", 2, priority=100))
    found = plan(
        [node("n0", 2), node("n1", 3)], [team("t", reserved=3), team("u"), team("r", reserved=2)], rows
    )
    assert (preempted(found), nodes_of(found, "w")) == ({"g"}, ["n1"])
