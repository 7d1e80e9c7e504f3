"""What is kept of a pool says of the workloads that are placed in it what one read anew says."""

from __future__ import annotations

from bisect import insort

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.acceleration.kept_state import KeptState
from scheduling.engine import Changes, Plan, State, WorkloadInfo, decide
from scheduling.tests.engine.build import MINUTE, NOW, node, placed, pool, snapshot, team

LAB = (team("lab", reserved=6), team("x", "lab", reserved=4), team("y", "lab"))


def allocations(found: Plan) -> dict[str, dict[str | None, int]]:
    rows = {row.workload: row.allocation for row in found.keeps}
    rows |= {row.workload: row.allocation for row in found.grows}
    return {id_: {part.team: part.milli for part in allocation} for id_, allocation in rows.items()}


def hard(name: str, on: str, pods: int = 1) -> WorkloadInfo:
    """Reserved work of team x with a GPU for each pod, of which those lie there that it has."""
    return placed(name, "x", on=on, pods=pods, min_pods=1, priority=100)


def test_who_grows_is_charged_more_and_nobody_else_who_held_as_much_as_he() -> None:
    """x has four of its own: the growing one and another hold one each, a third two. Two more are charged to lab."""
    one, wide = hard("one", "n0:1"), hard("wide", "n0:2 n0:3", pods=2)
    kept = State.of(snapshot([node("n0", 6)], LAB, [hard("grows", "n0:0", pods=3), one, wide]))
    alone = {"one": {"x": 1_000}, "wide": {"x": 2_000}}
    for _ in range(2):  # the second time nothing has come of the first
        assert allocations(decide(kept, NOW)) == {"grows": {"x": 1_000, "lab": 2_000}, **alone}
    kept.apply(Changes(workloads=(hard("grows", "n0:0 n0:4", pods=2),)))
    shared = {"one": {"x": 1_000}, "wide": {"x": 1_000, "lab": 1_000}}
    assert allocations(decide(kept, NOW)) == {"grows": {"x": 2_000}, **shared}
    kept.apply(Changes(gone_workloads=("one",)))
    assert allocations(decide(kept, NOW)) == {"grows": {"x": 2_000}, "wide": {"x": 2_000}}
    kept.apply(Changes(workloads=(hard("grows", "n0:0"), one)))
    assert allocations(decide(kept, NOW)) == {"grows": {"x": 1_000}, **alone}


#: Two end together in half an hour; one now, by the pool's limit; the others alone.
ENDING = [
    placed("b", "a", on="n0:0", started=30, limit=60),
    placed("a", "a", on="n0:1", started=10, limit=40),
    placed("z", "a", on="n0:2", started=45),
    placed("c", "a", on="n0:3", started=50, limit=60),
    placed("d", "a", on="n0:4", started=5, limit=90),
]
ENDS = [
    (NOW, "z"),
    (NOW + 10 * MINUTE, "c"),
    (NOW + 30 * MINUTE, "a"),
    (NOW + 30 * MINUTE, "b"),
    (NOW + 85 * MINUTE, "d"),
]


@given(st.permutations(ENDING), st.permutations(ENDING))
@settings(deadline=None)
def test_ends_are_in_the_order_of_time_and_id_whoever_came_and_whoever_goes_first(
    came: list[WorkloadInfo], gone: list[WorkloadInfo]
) -> None:
    rules = pool(default_time_limit_ms=45 * MINUTE)
    kept = State.of(snapshot([node("n0")], [team("a")], came, rules))
    decide(kept, NOW)
    left = list(ENDS)
    assert KeptState.of(kept).pools["main"].ends == left
    for row in gone:
        kept.apply(Changes(gone_workloads=(row.id,)))
        left = [end for end in left if end[1] != row.id]
        assert KeptState.of(kept).pools["main"].ends == left
    for row in came:
        kept.apply(Changes(workloads=(row,)))
        insort(left, next(end for end in ENDS if end[1] == row.id))
        assert KeptState.of(kept).pools["main"].ends == left
