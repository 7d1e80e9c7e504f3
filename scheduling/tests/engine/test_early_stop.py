"""A cycle that stops early decides the same as one that gives each workload its turn."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.acceleration import early_stop
from scheduling.acceleration.skipped_leaves import SkippedLeaves
from scheduling.engine import ElasticPreemption, Plan, Policy, Queueing, Snapshot, State, decide, schedule
from scheduling.tests.engine.build import NOW, node, placed, pool, team, waiting
from scheduling.tests.engine.worlds import worlds


def to_the_end(world: Snapshot) -> Plan:
    """The plan when no level is passed over and nobody's turn is left out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SkippedLeaves, "with_turns", lambda *_: None)
        patch.setattr(early_stop, "nothing_left", lambda *_: False)
        found = decide(State.of(world), NOW)
        return replace(found, waits=tuple(found.waits))


@given(worlds(most_pending=12), st.sampled_from(Queueing), st.sampled_from(ElasticPreemption))
@settings(max_examples=150, deadline=None)
def test_who_starts_who_goes_and_who_waits_why_is_the_same(
    world: Snapshot, queueing: Queueing, mode: ElasticPreemption
) -> None:
    policy = Policy(queueing=queueing, elastic_preemption=mode)
    world = replace(world, pools=tuple(replace(each, policy=policy) for each in world.pools))
    found, whole = schedule(world, NOW), to_the_end(world)
    assert found == whole


@pytest.mark.parametrize("lower_in", ["a-x", "a-y"])
def test_it_goes_on_for_one_who_may_take_from_others_once_lower_ones_of_his_own_branch_are_gone(
    lower_in: str,
) -> None:
    """Team a stays within its two GPUs only if the lower one leaves; then b, above its two, gives one as well."""
    rows = [placed("lower", lower_in, on="n0:0", priority=10), waiting("new", "a-x", 2)]
    rows += [placed(f"b{at}", "b", on=f"n0:{at}") for at in (1, 2, 3)]
    teams = (team("a", reserved=2), team("a-x", "a", reserved=2), team("a-y", "a"), team("b", reserved=2))
    rules = pool(queueing=Queueing.BEST_EFFORT_FIFO)
    world = Snapshot((rules,), teams, (node("n0", 4),), tuple(rows))
    found = schedule(world, NOW)
    assert found == to_the_end(world)
    assert {each.workload for each in found.preemptions} == {"lower", "b1"}


def test_nobody_is_looked_at_who_has_no_guarantee_left_and_all_are_told_where_they_stand() -> None:
    rows = [placed("busy", "a", 2, on="n0:0,1", priority=100), waiting("free", "b", submitted=1)]
    rows += [waiting(f"r{index}", "a", priority=100, submitted=9 - index) for index in range(3)]
    world = Snapshot((pool(),), (team("a", reserved=2), team("b")), (node("n0", 3),), tuple(rows))
    found = schedule(world, NOW)
    assert [start.workload for start in found.starts] == ["free"]
    assert [(wait.workload, wait.position) for wait in found.waits] == [("r0", 1), ("r1", 2), ("r2", 3)]
    assert {wait.reason.code.value for wait in found.waits} == {"waiting-for-reservation"}


def test_a_plan_says_the_same_when_somebody_looks_after_the_state_has_moved_on() -> None:
    rows = (placed("busy", "a", on="n0:0"), waiting("next", "b"))
    world = Snapshot((pool(),), (team("a"), team("b")), (node("n0", 1),), rows)
    state = State.of(world)
    unread = decide(state, NOW)
    decide(state, NOW + 1)
    assert unread == schedule(world, NOW)
