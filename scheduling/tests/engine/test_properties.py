"""What holds for every plan, whatever the organisation looks like."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.checker import check
from scheduling.engine import Fairness, Snapshot, schedule
from scheduling.tests.engine.audit import applied
from scheduling.tests.engine.build import NOW, preempted
from scheduling.tests.engine.worlds import worlds

examples = settings(max_examples=80, deadline=None, derandomize=True)


@given(worlds())
@examples
def test_no_plan_breaks_a_rule(world: Snapshot) -> None:
    assert check(world, schedule(world, NOW), NOW) == ()


@given(worlds(), st.integers())
@examples
def test_the_order_of_rows_makes_no_difference(world: Snapshot, seed: int) -> None:
    chance = random.Random(seed)
    shuffled = replace(
        world,
        teams=tuple(chance.sample(world.teams, len(world.teams))),
        nodes=tuple(chance.sample(world.nodes, len(world.nodes))),
        workloads=tuple(chance.sample(world.workloads, len(world.workloads))),
    )
    assert schedule(shuffled, NOW) == schedule(world, NOW)


@given(worlds(several_pools=False))
@examples
def test_a_cycle_right_after_one_that_only_started_elastic_work_finds_nothing_free_to_give(
    world: Snapshot,
) -> None:
    """Reserved starts shift entitlements, growth shifts start reservations, usage is only booked between cycles, and
    what this cycle started the next one may preempt."""
    plan = schedule(world, NOW)
    if plan.grows or world.pools[0].policy.fairness is Fairness.USAGE:
        return
    reserved = {workload.id for workload in world.workloads if workload.reserved}
    if plan.preemptions or plan.shrinks or reserved & {row.workload for row in plan.starts}:
        return
    again = schedule(applied(world, plan, stopped=False), NOW)
    if not (again.preemptions or again.shrinks):
        assert (again.starts, again.grows) == ((), ())


@given(worlds(several_pools=False))
@examples
def test_nobody_takes_back_at_once_what_he_was_just_preempted_for(world: Snapshot) -> None:
    plan = schedule(world, NOW)
    victims = {(row.by, row.workload) for row in plan.preemptions}
    again = schedule(applied(world, plan), NOW)
    assert not {(row.workload, row.by) for row in again.preemptions} & victims


@given(worlds(most_pending=1))
@examples
def test_without_any_one_of_the_victims_the_newcomer_would_not_fit(world: Snapshot) -> None:
    plan = schedule(world, NOW)
    if not plan.starts or not plan.starts[0].victims:
        return
    lost: list[tuple[str, int | None]] = [(row.workload, None) for row in plan.preemptions]
    lost += [(row.workload, pod) for row in plan.shrinks for pod in row.pods]
    for spared in lost:
        rest = [each for each in lost if each != spared]
        again = schedule(_without(world, rest), NOW)
        assert not [row for row in again.starts if not row.victims and row.pool == plan.starts[0].pool]


def _without(world: Snapshot, lost: list[tuple[str, int | None]]) -> Snapshot:
    """The world when these workloads, or these pods of theirs, are gone."""
    rows = []
    for workload in world.workloads:
        if (workload.id, None) not in lost:
            gone = {pod for id_, pod in lost if id_ == workload.id}
            pods = tuple(pod for pod in workload.placements if pod.pod_index not in gone)
            rows.append(replace(workload, placements=pods))
    return replace(world, workloads=tuple(rows))


@given(worlds())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_chains_of_preemptions_end(world: Snapshot) -> None:
    for _ in range(20):
        plan = schedule(world, NOW)
        if not preempted(plan):
            return
        world = applied(world, plan)
    raise AssertionError("preemptions go on for twenty cycles")
