"""Of all sets of victims that would do, the engine takes one that is as cheap as the page says."""

from __future__ import annotations

from functools import cache
from random import Random

from scheduling.engine import GPU_MILLI, GpuShare, Snapshot, WorkloadInfo, schedule
from scheduling.tests.engine.build import NOW
from scheduling.tests.proof.plain import cheapest
from scheduling.tests.proof.victims import Losses, chosen, cost, crowded, fits, sets_that_do

CASES = range(400)


@cache
def _case(seed: int) -> tuple[Snapshot, WorkloadInfo, Losses, list[Losses]]:
    """A world, its newcomer, the victims it gets, and all sets that would do."""
    world = crowded(Random(seed))
    newcomer = next(workload for workload in world.workloads if workload.id == "new")
    return world, newcomer, chosen(world, schedule(world, NOW)), list(sets_that_do(world, newcomer))


def test_victims_go_exactly_where_somebody_has_to_and_can() -> None:
    for seed in CASES:
        world, newcomer, taken, possible = _case(seed)
        assert bool(taken) == (bool(possible) and not fits(world, newcomer, ())), seed


def test_the_dearest_victim_is_no_dearer_than_any_set_needs() -> None:
    for seed in CASES:
        _, _, taken, possible = _case(seed)
        if taken:
            assert cost(taken)[0] == min(cost(losses)[0] for losses in possible), seed


def test_no_victim_can_be_spared() -> None:
    for seed in CASES:
        world, newcomer, taken, _ = _case(seed)
        for at in range(len(taken)):
            assert not fits(world, newcomer, taken[:at] + taken[at + 1 :]), seed


def test_the_cheapest_device_is_emptied_for_a_whole_gpu() -> None:
    """Then each device is a place of its own, and there is one set for each: nothing is cheaper than the cheapest."""
    seen = 0
    for seed in CASES:
        _, newcomer, taken, possible = _case(seed)
        if len(taken) > 1 and newcomer.pods == 1 and newcomer.request == GpuShare(GPU_MILLI):
            seen += 1
            assert cost(taken) == min(map(cost, possible)), seed
    assert seen


def test_no_place_has_a_cheaper_set_by_the_order_of_the_page() -> None:
    seen = 0
    for seed in CASES:
        world, newcomer, taken, _ = _case(seed)
        if taken:
            best = cheapest(world, schedule(world, NOW), newcomer)
            assert best is not None, seed
            assert cost(taken) <= best, seed
            seen += len(taken) > 1
    assert seen > len(CASES) // 10


def test_there_is_something_to_choose_from() -> None:
    counts = [len(possible) for _, _, taken, possible in map(_case, CASES) if taken]
    assert len(counts) > len(CASES) // 4
    assert max(counts) > 20
