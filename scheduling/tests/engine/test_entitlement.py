"""What every team should hold: tables, and an oracle that hands out one GPU at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.acceleration.kept_demand import KeptDemand, divide_again
from scheduling.acceleration.kept_state import KeptState
from scheduling.engine import (
    Changes,
    ElasticPreemption,
    NodeInfo,
    Plan,
    State,
    TeamShare,
    WorkloadInfo,
    decide,
)
from scheduling.engine.placement.pod_request import PodRequests
from scheduling.engine.queue.candidate import Candidate, PoolRequest
from scheduling.engine.quota.tree import QuotaAccounts, Tree
from scheduling.tests.engine.build import NOW, node, placed, plan, pool, snapshot, team, waiting


def entitled(found: Plan) -> dict[str, int]:
    return {row.team: row.entitlement_milli for row in found.teams}


def demanded(found: Plan) -> dict[str, int]:
    return {row.team: row.demand_milli for row in found.teams}


def machines(count: int) -> list[NodeInfo]:
    return [node(f"n{index:02d}", 1) for index in range(count)]


def many(team: str, count: int, **fields: Any) -> list[WorkloadInfo]:
    return [waiting(f"{team}-{index:02d}", team, **fields) for index in range(count)]


def test_surplus_flows_down_the_tree_by_weight() -> None:
    """20 GPUs.

    research (3)   production (2)
    |- nlp (2)
    |- vision (1)
    """
    teams = [
        team("research", weight=3),
        team("nlp", "research", weight=2),
        team("vision", "research"),
        team("production", weight=2),
    ]
    rows = [*many("nlp", 20), *many("vision", 20), *many("production", 20)]
    found = entitled(plan(machines(20), teams, rows))
    assert found == {"research": 12_000, "nlp": 8_000, "vision": 4_000, "production": 8_000}


def test_guarantees_come_before_surplus() -> None:
    """10 GPUs: a (reserved 6, weight 1), b (weight 10)."""
    teams = [team("a", reserved=6), team("b", weight=10)]
    found = entitled(plan(machines(10), teams, [*many("a", 8), *many("b", 20)]))
    assert found == {"a": 6_000, "b": 4_000}


def test_where_guarantees_are_too_many_they_are_cut_in_proportion() -> None:
    """6 GPUs, 8 and 4 guaranteed: a node died."""
    teams = [team("a", reserved=8), team("b", reserved=4)]
    found = entitled(plan(machines(6), teams, [*many("a", 8), *many("b", 8)]))
    assert found == {"a": 4_000, "b": 2_000}


def test_running_reserved_work_comes_before_other_guarantees() -> None:
    """4 GPUs, 4 and 4 guaranteed; a already runs 3 reserved ones."""
    teams = [team("a", reserved=4), team("b", reserved=4)]
    running = [placed(f"r{index}", "a", on=f"n0{index}:0", priority=100) for index in range(3)]
    found = entitled(plan(machines(4), teams, [*running, *many("b", 4)]))
    assert found == {"a": 3_000, "b": 1_000}


def test_who_holds_a_gpu_keeps_it_when_rounding_must_choose() -> None:
    """3 GPUs between two equal teams: b has two running and keeps both; a, though first by id, gets one."""
    running = [placed("b-x", "b", on="n00:0"), placed("b-y", "b", on="n01:0")]
    found = entitled(plan(machines(3), [team("a"), team("b")], [*running, *many("a", 3), *many("b", 3)]))
    assert found == {"a": 1_000, "b": 2_000}


def test_else_the_unit_goes_to_the_higher_priority_then_the_earlier_submission() -> None:
    rows = [
        waiting("a-1", "a", submitted=9),
        waiting("a-2", "a"),
        waiting("b-1", "b", submitted=1, priority=60),
    ]
    found = entitled(plan(machines(1), [team("a"), team("b")], rows))
    assert found == {"a": 0, "b": 1_000}
    rows = [waiting("a-1", "a", submitted=1), waiting("b-1", "b", submitted=9)]
    assert entitled(plan(machines(1), [team("a"), team("b")], rows)) == {"a": 0, "b": 1_000}


def test_a_team_that_shares_gpus_is_rounded_to_the_milli_gpu() -> None:
    rows = [*many("a", 4, gpus=0.5), *many("b", 4, gpus=0.5), *many("c", 4, gpus=0.5)]
    found = entitled(plan(machines(1), [team("a"), team("b"), team("c")], rows))
    assert found == {"a": 334, "b": 333, "c": 333}


def test_weight_zero_has_no_part_of_the_surplus() -> None:
    teams = [team("a", reserved=2, weight=0), team("b")]
    found = entitled(plan(machines(6), teams, [*many("a", 6), *many("b", 3)]))
    assert found == {"a": 2_000, "b": 3_000}


def test_demand_counts_only_what_could_start_and_be_admitted() -> None:
    rows = [
        waiting("fits", "a", 1),
        waiting("held", "a", 1, held=True),
        waiting("too-large", "a", 2),
        waiting("reserved", "a", 1, priority=100),
        waiting("reserved-late", "a", 1, priority=100, submitted=1),
    ]
    assert demanded(plan(machines(8), [team("a", reserved=1)], rows)) == {"a": 2_000}


def test_demand_counts_pods_that_a_running_gang_has_not_grown() -> None:
    running = placed("gang", "a", on="n00:0 n01:0", pods=5, min_pods=2)
    assert demanded(plan(machines(4), [team("a")], [running])) == {"a": 4_000}


def test_demand_is_capped_by_the_ceiling_but_never_below_what_is_allocated() -> None:
    teams = [team("a", maximum=2), team("b", maximum=2)]
    running = [placed(f"b-{index}", "b", on=f"n0{index}:0") for index in range(3)]
    assert demanded(plan(machines(8), teams, [*many("a", 5), *running])) == {"a": 2_000, "b": 3_000}


def test_a_workload_for_several_pools_counts_in_the_first_it_could_use() -> None:
    nodes = [node("m", 1), node("s", 4, pool="spare")]
    rows = [waiting("w", "a", 2, pools=("main", "spare")), waiting("v", "a", 1, pools=("spare", "main"))]
    found = plan(nodes, [team("a")], rows, pool("main"), pool("spare"))
    assert {row.pool: row.demand_milli for row in found.teams} == {"main": 0, "spare": 3_000}


Wanted = tuple[int, bool, str | None]
"""A branch's demand, whether all of it is in whole GPUs, and who of those that wait comes first."""


def wanted(state: State, branch: str, pool_id: str = "main") -> Wanted:
    """What a state that has decided knows of a branch."""
    demand, at = KeptState.of(state).pools[pool_id].demand, KeptState.of(state).tree.team_branch[branch]
    key = demand.next_key[at]
    return demand.milli[at], demand.whole[at], key and key[-1]


@pytest.mark.parametrize("priority", [50, 100])
def test_in_no_other_pool_it_counts_for_anything_whoever_comes_and_goes(priority: int) -> None:
    both = [
        waiting(name, "a", 0.5, pools=("main", "spare"), priority=priority, submitted=99)
        for name in ("u", "v")
    ]
    own = waiting("w", "a", pools=("spare",), priority=priority)
    shares = (TeamShare("main", 4_000, None, 0), TeamShare("spare", 4_000, None, 0))
    world = snapshot(
        [node("m", 4), node("s", 4, pool="spare")],
        [replace(team("a"), shares=shares)],
        [both[0], own],
        pool("main"),
        pool("spare"),
    )
    kept = State.of(world)

    def after(changes: Changes) -> tuple[Wanted, Wanted]:
        kept.apply(changes)
        decide(kept, NOW)
        return wanted(kept, "a"), wanted(kept, "a", "spare")

    alone = (1_000, True, "w")
    assert after(Changes()) == ((500, False, "u"), alone)
    assert after(Changes(workloads=(both[1],))) == ((1_000, False, "u"), alone)
    assert after(Changes(gone_workloads=("u",))) == ((500, False, "v"), alone)
    assert after(Changes(gone_workloads=("w",))) == ((500, False, "v"), (0, True, None))
    turned = replace(both[1], pools=("spare", "main"))
    assert after(Changes(workloads=(turned, own))) == ((0, True, None), (1_500, False, "v"))


# --- The demand of a leaf, summed up by hand ---------------------------------------------------------------------


def by_hand(rows: Iterable[WorkloadInfo], own: int) -> Wanted:
    """What a team without teams below wants: what it has, what its elastic ones want, and of the reserved ones' as much
    as is left of its own part, one after the other."""
    placed_ones = [row for row in rows if row.placements]
    milli = sum(pod.milli for row in placed_ones for pod in row.placements)
    left = own - sum(pod.milli for row in placed_ones if row.reserved for pod in row.placements)
    whole, first = not any(halves(row) for row in placed_ones), None
    for row in sorted(rows, key=lambda row: (-row.priority, row.submitted_at, row.id)):
        pods, least = row.pods - len(row.placements), 1 if row.placements else row.min_pods
        pod = 500 if halves(row) else 1_000
        if row.reserved:
            pods = min(pods, max(0, left) // pod)
        if pods < least:
            continue
        left -= pods * pod if row.reserved else 0
        milli += pods * pod
        whole = whole and not halves(row)
        first = first or row.id
    return milli, whole, first


def halves(row: WorkloadInfo) -> bool:
    """Whether it asks for half GPUs, not whole ones."""
    return row.id[0] == "h"


@st.composite
def wanting(draw: st.DrawFn, at: int) -> WorkloadInfo:
    """One who waits, or has a pod on a device of its own and may want others."""
    half, pods = draw(st.booleans()), draw(st.integers(1, 3))
    fields: dict[str, Any] = {
        "priority": draw(st.sampled_from([10, 50, 90, 100, 120])),
        "submitted": draw(st.integers(1, 3)),
        "pods": pods,
        "min_pods": draw(st.integers(1, pods)),
    }
    name, team_id = f"{'half' if half else 'one'}{at:02}", draw(st.sampled_from("ab"))
    if draw(st.integers(0, 3)) == 0:
        fields["min_pods"] = 1
        return placed(name, team_id, 0.5 if half else 1, on=f"n{at // 8:02}:{at % 8}", **fields)
    return waiting(name, team_id, 0.5 if half else 1, **fields)


@given(
    st.tuples(*(wanting(at) for at in range(14))),
    st.lists(st.sets(st.integers(0, 13), max_size=4), min_size=1, max_size=5),
    st.sampled_from(ElasticPreemption),
)
@settings(deadline=None)
def test_after_all_coming_and_going_it_is_what_summing_up_by_hand_gives(
    rows: tuple[WorkloadInfo, ...], steps: list[set[int]], mode: ElasticPreemption
) -> None:
    """At each step some of them come who are not there, or go. Only some are there at first."""
    teams = [team("top"), team("a", "top", reserved=4), team("b", "top", reserved=2)]
    nodes = [node(f"n{at:02}") for at in range(8)]
    there = {row.id: row for row in rows[::2]}
    kept = State.of(snapshot(nodes, teams, there.values(), pool(elastic_preemption=mode)))
    for step in [set[int](), *steps]:
        come = {rows[at].id: rows[at] for at in step if rows[at].id not in there}
        go = [rows[at].id for at in step if rows[at].id in there]
        kept.apply(Changes(workloads=tuple(come.values()), gone_workloads=tuple(go)))
        there = {id_: row for id_, row in (there | come).items() if id_ not in go}
        decide(kept, NOW)
        sums = [
            by_hand([row for row in there.values() if row.team == name], own)
            for name, own in (("a", 4_000), ("b", 2_000))
        ]
        assert [wanted(kept, name) for name in "ab"] == sums
        assert wanted(kept, "top")[:2] == (sums[0][0] + sums[1][0], sums[0][1] and sums[1][1])


# --- An oracle for leaves without ties ---------------------------------------------------------------------------


def oracle(capacity: int, leaves: list[tuple[int, int, int]]) -> list[Fraction]:
    """Exact entitlements of (guarantee, weight, demand) under one root: pour a thousandth of what is left at a time."""
    got = [Fraction(0)] * len(leaves)
    for goal, key in ((0, 0), (1, 1)):
        while True:
            left = capacity - sum(got)
            caps = [min(g, d) if goal == 0 else d for g, _, d in leaves]
            open_ = [i for i, cap in enumerate(caps) if got[i] < cap and leaves[i][key]]
            if left <= 0 or not open_:
                break
            total = sum(leaves[i][key] for i in open_)
            step = min(
                left / Fraction(total), *((caps[i] - got[i]) / Fraction(leaves[i][key]) for i in open_)
            )
            for i in open_:
                got[i] += step * leaves[i][key]
    return got


leaves = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5), st.integers(0, 12)), min_size=1, max_size=5)


@given(st.integers(0, 20), leaves)
@settings(deadline=None)
def test_entitlements_are_within_a_unit_of_exact_division(
    capacity: int, rows: list[tuple[int, int, int]]
) -> None:
    tree = Tree(
        team(f"t{i}", weight=weight, reserved=reserved) for i, (reserved, weight, _) in enumerate(rows)
    )
    accounts = QuotaAccounts.of(tree, "main")
    requests = PodRequests()
    demand = KeptDemand(accounts)
    for i, (_, _, wants) in enumerate(rows):
        workload = waiting(f"w{i}", f"t{i}", submitted=9 - i)
        if wants:
            leaf, request = tree.leaf_of[workload.team], requests.of(workload)
            demand.add(Candidate(workload, leaf, PoolRequest("main", request, 1000, 1, wants, None)))
    found = [0] * len(tree)
    stale = demand.work_out(list(accounts.quotas.own))
    divide_again(accounts, demand, capacity * 1000, found, stale)
    exact = oracle(capacity, rows)
    for i, (_, _, wants) in enumerate(rows):
        got = Fraction(found[tree.leaf_of[f"t{i}"]], 1000)
        assert abs(got - exact[i]) < 2
        assert got <= wants
    assert sum(found[tree.leaf_of[f"t{i}"]] for i in range(len(rows))) <= capacity * 1000
