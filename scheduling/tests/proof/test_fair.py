"""A newcomer by the fair-share rule takes a lawful set of victims, none of whom can be spared, if there is one."""

from __future__ import annotations

from functools import cache
from random import Random

from scheduling.engine import Snapshot, WorkloadInfo, schedule
from scheduling.tests.engine.audit import applied
from scheduling.tests.engine.build import NOW
from scheduling.tests.proof.fair import lawful_sets, named, shared
from scheduling.tests.proof.victims import Losses, chosen, fits

CASES = range(300)
GANGS = (577, 926, 1712, 1713, 2162, 6009, 6226)
"""Gangs for which the order of victims alone finds nobody: somebody must leave earlier or later than it says."""


@cache
def _case(seed: int) -> tuple[Snapshot, WorkloadInfo, Losses, list[Losses]]:
    """A world, its newcomer, the victims it takes, and the sets that would be lawful."""
    world = shared(Random(seed))
    newcomer = next(workload for workload in world.workloads if workload.id == "new")
    plan = schedule(world, NOW)
    return world, newcomer, chosen(world, plan), list(lawful_sets(world, plan, newcomer))


def test_the_set_is_lawful_and_none_of_it_can_be_spared() -> None:
    seen = 0
    for seed in CASES:
        _, _, taken, lawful = _case(seed)
        if taken:
            seen += 1
            names = [named(losses) for losses in lawful]
            assert named(taken) in names, seed
            assert not any(named(taken[:at] + taken[at + 1 :]) in names for at in range(len(taken))), seed
    assert seen > len(CASES) // 10


def test_a_newcomer_waits_only_where_no_set_is_lawful() -> None:
    seen = 0
    for seed in (*CASES, *GANGS):
        world, newcomer, taken, lawful = _case(seed)
        if not fits(world, newcomer, ()):
            assert bool(taken) == bool(lawful), seed
            seen += bool(lawful)
    assert seen > len(CASES) // 10


def test_no_victim_takes_its_place_back_and_chains_end() -> None:
    seen = 0
    for seed in CASES:
        world, taken = shared(Random(seed)), set[tuple[str, str]]()
        for _ in range(10):
            plan = schedule(world, NOW)
            assert not taken & {(gone.workload, gone.by) for gone in plan.preemptions}, seed
            taken = {(gone.by, gone.workload) for gone in plan.preemptions}
            if not taken:
                break
            seen += 1
            world = applied(world, plan)
        assert not taken, seed
    assert seen > len(CASES) // 10
