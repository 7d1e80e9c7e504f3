"""Positions are given in the order in which the turns came, also where nobody of a priority could start."""

from __future__ import annotations

from scheduling.checker import check
from scheduling.engine import Queueing, schedule
from scheduling.tests.engine.build import NOW, node, placed, pool, snapshot, team, waiting


def test_who_starts_at_a_lower_priority_does_not_move_those_above() -> None:
    """a is ahead of b until its small ones start; the large ones had their turns before.

    a  0 of its 3 GPUs in use    b  2 of its 3    firm  10 reserved
    """
    world = snapshot(
        [node("n", 8), node("m", 8)],
        [team("a"), team("b"), team("firm", reserved=10)],
        [
            *(placed(f"b{at}", "b", on=f"n:{at}") for at in (0, 1)),
            *(placed(f"n{at}", "firm", on=f"n:{at}", priority=100) for at in range(2, 8)),
            *(placed(f"m{at}", "firm", on=f"m:{at}", priority=100) for at in range(4)),
            waiting("large-a", "a", 8, priority=60),
            waiting("large-b", "b", 8, priority=60),
            *(waiting(f"small-a{at}", "a", priority=50) for at in range(3)),
        ],
        pool(queueing=Queueing.BEST_EFFORT_FIFO),
    )
    plan = schedule(world, NOW)
    assert [start.workload for start in plan.starts] == ["small-a0", "small-a1", "small-a2"]
    assert [wait.workload for wait in plan.waits] == ["large-a", "large-b"]
    assert check(world, plan, NOW) == ()
