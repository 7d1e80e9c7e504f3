"""What a cycle finds to do right after one without victims, and which rules make it so.

``docs/scheduling.md`` says where the rules pull against each other: these are its examples.
"""

from __future__ import annotations

from hypothesis import given, settings

from scheduling.engine import Fairness, Plan, Rule, Snapshot, schedule
from scheduling.tests.engine.audit import applied
from scheduling.tests.engine.build import NOW, node, pool, preempted, snapshot, started, team, waiting
from scheduling.tests.engine.worlds import worlds


def twice(world: Snapshot) -> tuple[Plan, Plan]:
    """A plan, and the one for what it leaves behind when all of it is carried out at once."""
    first = schedule(world, NOW)
    return first, schedule(applied(world, first, stopped=False), NOW)


@given(worlds(several_pools=False))
@settings(max_examples=100, deadline=None)
def test_after_a_cycle_without_victims_the_next_at_most_takes_back_what_that_one_started_above_its_share(
    world: Snapshot,
) -> None:
    """As long as nothing moved entitlements, usage or start reservations meanwhile: no reserved start, no growth, no
    fairness by usage."""
    first, second = twice(world)
    reserved = {workload.id for workload in world.workloads if workload.reserved}
    if first.preemptions or first.shrinks or first.grows or started(first) & reserved:
        return
    if world.pools[0].policy.fairness is Fairness.USAGE:
        return
    taken = {(row.workload, row.rule) for row in second.preemptions}
    taken |= {(row.workload, row.rule) for row in second.shrinks}
    assert {rule for _, rule in taken} <= {Rule.FAIR_SHARE}
    assert {victim for victim, _ in taken} <= started(first)
    if not taken:
        assert (second.starts, second.grows) == ((), ())


def test_the_order_starts_who_comes_first_although_a_share_takes_it_back() -> None:
    """Below top, which may have four, a and b are due two each. The order goes by the next one of each team: both ask
    for three, so that b's, which is older, starts, and a's waits for the ceiling. Behind it stands one of two, inside
    a's share: the next cycle gives it what b has too much."""
    teams = [team("top", maximum=4), team("a", "top"), team("b", "top")]
    rows = [
        waiting("wide", "b", 3, submitted=90),
        waiting("big", "a", 3, submitted=60),
        waiting("small", "a", 2, submitted=30),
    ]
    first, second = twice(snapshot([node("n0", 8)], teams, rows))
    assert (started(first), preempted(first)) == ({"wide"}, set())
    assert (started(second), preempted(second)) == ({"small"}, {"wide"})


def test_a_reserved_start_moves_the_entitlements_of_the_next_cycle() -> None:
    """Before it runs, hard is part of what a wants, and a and b are due two each. As soon as it runs it counts first:
    a is due three, b one, and a's other one may have b's."""
    teams = [team("top", reserved=2), team("a", "top"), team("b", "top")]
    rows = [
        waiting("hard", "a", 2, priority=100),
        waiting("soft-a", "a", 1),
        waiting("soft-b", "b", 2),
    ]
    first, second = twice(snapshot([node("n0", 4)], teams, rows))
    assert (started(first), preempted(first)) == ({"hard", "soft-b"}, set())
    assert (started(second), preempted(second)) == ({"soft-a"}, {"soft-b"})


def test_the_hour_that_a_cycle_gives_counts_in_that_cycle_only() -> None:
    """By usage it is b's turn as soon as a has its first two; the next cycle, which does not see them in the usage yet,
    begins with a again."""
    teams = [team("a"), team("b")]
    rows = [
        waiting("a1", "a", 2, submitted=9),
        waiting("a2", "a", 4, submitted=8),
        waiting("b1", "b", 4, submitted=7),
    ]
    first, second = twice(snapshot([node("n0", 4)], teams, rows, pool(fairness=Fairness.USAGE)))
    order = [[wait.workload for wait in plan.waits] for plan in (first, second)]
    assert (started(first), order) == ({"a1"}, [["b1", "a2"], ["a2", "b1"]])


def test_a_start_in_the_second_pool_moves_the_demand_there() -> None:
    """Who may use both pools counts in the first, until it has started in the other."""
    nodes = [node("n0", 1), node("m0", 4, pool="spare")]
    rows = [waiting("both", "a", 2), waiting("main", "a", 1, pools=("main",), submitted=90)]
    world = snapshot(nodes, [team("a")], rows, pool(), pool("spare"))
    demand = [{row.pool: row.demand_milli for row in plan.teams} for plan in twice(world)]
    assert demand == [{"main": 1_000, "spare": 2_000}, {"main": 1_000, "spare": 2_000}]
