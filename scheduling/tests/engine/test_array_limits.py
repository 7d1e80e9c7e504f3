"""At most so many members of an array are placed or in a queue, by the rules alone as with what makes them fast."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.checker import check
from scheduling.engine import (
    PLACED,
    Changes,
    DependencyState,
    OpenStatus,
    Plan,
    Snapshot,
    State,
    WorkloadInfo,
    decide,
)
from scheduling.tests.engine.build import MINUTE, NOW, node, placed, plan, pool, snapshot, team, waiting
from scheduling.tests.engine.test_state import carried_out, happened
from scheduling.tests.engine.worlds import worlds

LIMITS = {"x": 1, "y": 3}


def member(name: str, most: int = 2, **fields: Any) -> WorkloadInfo:
    return waiting(name, "a", array="sweep", max_parallel=most, **fields)


def beyond(found: Plan) -> list[str]:
    return sorted(wait.workload for wait in found.waits if wait.reason.code == "array-limit")


def test_those_placed_count_and_those_that_stop_do_not() -> None:
    array: dict[str, Any] = {"array": "sweep", "max_parallel": 2}
    runs = placed("runs", "a", on="n0:0", **array)
    stops = placed("stops", "a", on="n0:1", status=OpenStatus.STOPPING, **array)
    found = plan([node("n0")], [team("a")], [runs, stops, member("m1"), member("m2")])
    assert ([start.workload for start in found.starts], beyond(found)) == (["m1"], ["m2"])


def test_its_reason_has_the_number_and_is_for_time_to_solve() -> None:
    found = plan([node("n0")], [team("a")], [member("m1", 1), member("m2", 1)])
    (wait,) = found.waits
    assert (wait.workload, wait.position, wait.reason.kind, wait.eta.earliest) == ("m2", None, "wait", None)
    assert wait.reason.message == (
        "Its array has GPUs for at most 1 member at once, and so many have them or come before it."
    )


def test_held_ones_and_those_that_depend_on_others_leave_their_place_to_others() -> None:
    rows = [
        member("m1", held=True),
        member("m2", dependency=DependencyState.WAITING),
        member("m3"),
        member("m4"),
        member("m5"),
    ]
    found = plan([node("n0")], [team("a")], rows)
    assert sorted(start.workload for start in found.starts) == ["m3", "m4"]
    assert beyond(found) == ["m5"]


def test_the_higher_priority_comes_first_and_what_is_tried_again_last() -> None:
    rows = [
        member("m1", 1, backing_off_until=NOW - 1),
        member("m2", 1),
        member("m3", 1, priority=60, submitted=1),
    ]
    assert [start.workload for start in plan([node("n0")], [team("a")], rows).starts] == ["m3"]
    assert [start.workload for start in plan([node("n0")], [team("a")], rows[:2]).starts] == ["m2"]
    assert [start.workload for start in plan([node("n0")], [team("a")], rows[:1]).starts] == ["m1"]


def test_an_end_lets_the_next_one_in() -> None:
    array: dict[str, Any] = {"array": "sweep", "max_parallel": 1}
    runs = placed("runs", "a", on="n0:0", **array)
    state = State.of(snapshot([node("n0")], [team("a")], [runs, member("m1", 1), member("m2", 1)]))
    assert beyond(decide(state, NOW)) == ["m1", "m2"]
    state.apply(Changes(gone_workloads=("runs",)))
    found = decide(state, NOW)
    assert ([start.workload for start in found.starts], beyond(found)) == (["m1"], ["m2"])
    state.apply(Changes(workloads=(replace(member("m1", 1), held=True),)))
    assert [start.workload for start in decide(state, NOW).starts] == ["m2"]


def test_two_arrays_know_nothing_of_each_other() -> None:
    rows = [member("m1", 1), replace(member("m2", 1), array="other"), waiting("w", "a")]
    assert not beyond(plan([node("n0")], [team("a")], rows))


def in_arrays(world: Snapshot, chance: Random) -> Snapshot:
    """The world with most of its workloads in two arrays."""
    rows = []
    for row in world.workloads:
        name = chance.choice(["x", "y", None])
        rows.append(row if name is None else replace(row, array=name, max_parallel=LIMITS[name]))
    return replace(world, workloads=tuple(rows))


def most_placed(world: Snapshot, found: Plan) -> None:
    """No array comes to have more placed than its limit by what the plan starts."""
    started = {start.workload for start in found.starts}
    for name, limit in LIMITS.items():
        members = [row for row in world.workloads if row.array == name]
        before = sum(row.status in PLACED for row in members)
        new = sum(row.id in started for row in members)
        assert not new or before + new <= limit


@given(worlds(), st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_through_any_history_rules_and_what_makes_them_fast_agree(world: Snapshot, chance: Random) -> None:
    world = in_arrays(world, chance)
    state, now = State.of(world), NOW
    for step in range(5):
        found = decide(state, now)
        most_placed(world, found)
        assert found == decide(State.of(state.snapshot), now, accelerate=False)
        assert not [each for each in check(world, found, now) if "array-limit" in str(each)]
        assert state.array_limits.beyond == State.of(state.snapshot).array_limits.beyond
        rows = carried_out(world, found, now, chance)
        now += chance.choice([0, 1, 7, -2]) * MINUTE
        after = replace(world, workloads=tuple(happened(rows, step, now, chance)))
        state.apply(Changes.between(world, after))
        world = after


def test_the_checker_finds_who_starts_beyond_the_limit() -> None:
    world = snapshot([node("n0")], [team("a")], [member("m1", 1), member("m2", 1)], pool())
    free = replace(world, workloads=tuple([replace(row, array=None) for row in world.workloads]))
    wrong = decide(State.of(free), NOW)
    assert "not-eligible" in [each.rule for each in check(world, wrong, NOW)]
    assert not check(free, wrong, NOW)
