"""A state that is kept up to date decides as one that is made anew."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.acceleration.kept_state import KeptState
from scheduling.engine import (
    Changes,
    Doubt,
    OpenStatus,
    Plan,
    Queueing,
    Snapshot,
    Start,
    State,
    WorkloadInfo,
    decide,
)
from scheduling.tests.engine.build import MINUTE, NOW, node, placed, pool, team, waiting
from scheduling.tests.engine.worlds import worlds

WORLD = Snapshot(
    (pool(),),
    (team("a"), team("b")),
    (node("n0", 2),),
    (placed("old", "a", on="n0:0"), waiting("new", "b", 2)),
)


def carried_out(world: Snapshot, plan: Plan, now: int, chance: Random) -> list[WorkloadInfo]:
    """The rows after (most of) a plan: starts run or are on their way, victims wait again and are still stopping."""
    starts = {each.workload: each for each in plan.starts if chance.random() < 0.9}
    shrinks = {each.workload: each for each in plan.shrinks}
    grows = {each.workload: each for each in plan.grows}
    gone = {each.workload for each in plan.preemptions}
    rows = []
    for row in world.workloads:
        if row.id in starts:
            rows.append(started(row, starts[row.id], now))
        elif row.id in grows:
            rows.append(replace(row, placements=row.placements + grows[row.id].placements))
        elif row.id in shrinks:
            left = tuple(pod for pod in row.placements if pod.pod_index not in shrinks[row.id].pods)
            rows.append(replace(row, placements=left))
        elif row.id in gone:
            rows.append(replace(row, id=f"{row.id}@{len(world.workloads)}", status=OpenStatus.STOPPING))
            rows.append(again(row))
        else:
            rows.append(row)
    return rows


def started(row: WorkloadInfo, start: Start, now: int) -> WorkloadInfo:
    status = OpenStatus.QUEUED if start.waits_for_victims else OpenStatus.RUNNING
    return replace(row, status=status, pool=start.pool, placements=start.placements, started_at=now)


def again(row: WorkloadInfo, **fields: Any) -> WorkloadInfo:
    """The row as one that waits."""
    return replace(row, status=OpenStatus.PENDING, pool=None, placements=(), started_at=None, **fields)


def happened(rows: list[WorkloadInfo], step: int, now: int, chance: Random) -> list[WorkloadInfo]:
    """The rows after something else has happened: some are over, some are changed, some are new."""
    kept = [row for row in rows if chance.random() < (0.5 if row.status is OpenStatus.STOPPING else 0.9)]
    new = chance.sample(kept, min(2, len(kept)))
    return [
        *(changed(row, now, chance) for row in kept),
        *(again(row, id=f"{row.id}+{step}", submitted_at=now, partition=None) for row in new),
    ]


def changed(row: WorkloadInfo, now: int, chance: Random) -> WorkloadInfo:
    if row.status is OpenStatus.QUEUED and chance.random() < 0.5:
        return replace(row, status=OpenStatus.RUNNING, started_at=now)
    if row.status is not OpenStatus.PENDING or chance.random() < 0.8:
        return row
    edits: list[dict[str, Any]] = [
        {"held": not row.held},
        {"priority": chance.choice([10, 50, 90, 100])},
        {"backing_off_until": now + chance.choice([-1, 1, 3]) * MINUTE},
    ]
    return replace(row, **chance.choice(edits))


@given(worlds(), st.randoms(use_true_random=False))
@settings(max_examples=120, deadline=None)
def test_after_any_history_the_plan_is_that_of_a_state_made_anew(world: Snapshot, chance: Random) -> None:
    state, now = State.of(world), NOW
    for step in range(5):
        plan = decide(state, now)
        assert plan == decide(State.of(state.snapshot), now)
        rows = carried_out(world, plan, now, chance)
        now += chance.choice([0, 0, 1, 7, 30, -2]) * MINUTE
        after = replace(world, workloads=tuple(happened(rows, step, now, chance)))
        if chance.random() < 0.2:
            odd = chance.choice(after.nodes)
            nodes = [replace(odd, cordoned=not odd.cordoned) if each is odd else each for each in after.nodes]
            after = replace(after, nodes=tuple(nodes))
        if chance.random() < 0.2:
            odd_team = chance.choice(after.teams)
            teams = [replace(each, weight=2) if each is odd_team else each for each in after.teams]
            after = replace(after, teams=tuple(teams))
        state.apply(Changes.between(world, after))
        world = after
        assert sorted(state.snapshot.workloads, key=str) == sorted(after.workloads, key=str)


@given(worlds())
@settings(max_examples=60, deadline=None)
def test_deciding_twice_gives_the_same_plan(world: Snapshot) -> None:
    state = State.of(world)
    assert decide(state, NOW) == decide(state, NOW)


def test_changes_between_two_snapshots_are_the_rows_that_differ() -> None:
    later = replace(WORLD, workloads=(WORLD.workloads[1], waiting("newer", "a")))
    assert Changes.between(WORLD, later) == Changes(workloads=(later.workloads[1],), gone_workloads=("old",))
    assert not Changes.between(WORLD, replace(WORLD, workloads=WORLD.workloads[::-1]))


def test_a_completion_lets_the_next_one_start() -> None:
    state = State.of(WORLD)
    assert not decide(state, NOW).starts
    state.apply(Changes(gone_workloads=("old",)))
    assert [start.workload for start in decide(state, NOW).starts] == ["new"]


@pytest.mark.parametrize(
    "changes",
    [
        Changes(gone_workloads=("nobody",)),
        Changes(gone_nodes=("nowhere",)),
        Changes(workloads=(waiting("x", "a"), waiting("x", "b"))),
        Changes(workloads=(WORLD.workloads[0],), gone_workloads=("old",)),
    ],
)
def test_changes_that_do_not_fit_are_refused_and_change_nothing(changes: Changes) -> None:
    state = State.of(WORLD)
    before = decide(state, NOW)
    with pytest.raises(Doubt):
        state.apply(changes)
    assert state.snapshot == WORLD
    assert decide(state, NOW) == before


def test_a_state_that_the_engine_stumbled_over_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    state = State.of(WORLD)
    expected = decide(state, NOW)
    with monkeypatch.context() as broken:
        broken.setattr("scheduling.acceleration.decide.scale_up", None)
        with pytest.raises(TypeError):
            decide(state, NOW)
    assert decide(state, NOW) == expected


def test_what_is_noted_of_those_who_are_gone_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.acceleration.kept_pool.MOST_NOTES", 30)
    kept = State.of(replace(WORLD, workloads=()))
    for round_ in range(60):
        kept.apply(Changes(workloads=(placed(f"w{round_}", "a", on="n0:0"),)))
        assert decide(kept, NOW) == decide(State.of(kept.snapshot), NOW)
        kept.apply(Changes(gone_workloads=(f"w{round_}",)))
    pool_books = KeptState.of(kept).pools["main"]
    notes = (pool_books.ledger.freed, pool_books.ledger.later.changed, pool_books.accounts.usage.changed)
    assert max(map(len, notes)) < 40


def test_whom_a_roster_has_seen_join_is_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.acceleration.kept_pool.MOST_JOINED", 20)
    kept = State.of(replace(WORLD, workloads=(waiting("boss", "b", 2, priority=60),)))
    for round_ in range(60):
        kept.apply(Changes(workloads=(placed(f"w{round_}", "a", on="n0:0"),)))
        assert decide(kept, NOW) == decide(State.of(kept.snapshot), NOW)
        kept.apply(Changes(gone_workloads=(f"w{round_}",)))
    (eligible,) = KeptState.of(kept).pools["main"].victim_indexes()
    assert 0 < len(eligible.joined) < 25


def test_requests_that_nobody_makes_any_more_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.acceleration.kept_state.MOST_NEW_ASKS", 20)
    kept = State.of(WORLD)
    for cpu in range(60):
        kept.apply(Changes(workloads=(waiting("odd", "a", cpu_milli=cpu),)))
        assert decide(kept, NOW) == decide(State.of(kept.snapshot), NOW)
    assert len(KeptState.of(kept).requests) < 25


def test_cpu_that_a_cycle_tried_out_is_free_again_for_the_next() -> None:
    """boss takes the device that low leaves, and more CPU: with boss gone, some comes free that small failed for."""
    rows = (
        placed("low", "b", on="n0:0", cpu_milli=3600, priority=60),
        placed("held", "c", on="n0:1", cpu_milli=3900, priority=100),
        waiting("boss", "a", priority=100, cpu_milli=4000),
        waiting("small", "c", priority=10, cpu_milli=300),
    )
    teams = (team("a", reserved=1), team("b"), team("c"))
    rules = pool(queueing=Queueing.BEST_EFFORT_FIFO)
    kept = State.of(Snapshot((rules,), teams, (node("n0", 3, cpu_milli=8000),), rows))
    assert {each.workload for each in decide(kept, NOW).starts} == {"boss"}
    kept.apply(Changes(gone_workloads=("boss",)))
    assert {each.workload for each in decide(kept, NOW).starts} == {"small"}
