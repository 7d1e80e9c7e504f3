"""Whatever the organisation, no plan breaks a rule, depends on the order of rows, or is undone by its victims."""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine import Snapshot, schedule
from scheduling.scenario.output import as_object

from .oracle import broken_rules
from .organisations import carried_out, loaded, organisations

EXAMPLES = 60
CYCLES = 30


@settings(max_examples=EXAMPLES, deadline=None)
@given(organisations())
def test_no_plan_breaks_a_rule(document: str) -> None:
    scenario = loaded(document)
    plan = schedule(scenario.snapshot, scenario.now)
    result = as_object(scenario.snapshot, scenario.now, plan)
    assert broken_rules(scenario.snapshot, scenario.now, result) == []


@settings(max_examples=EXAMPLES, deadline=None)
@given(organisations(), st.randoms(use_true_random=False))
def test_the_order_of_rows_means_nothing(document: str, random: Random) -> None:
    scenario = loaded(document)
    snapshot = scenario.snapshot
    shuffled = replace(
        snapshot,
        teams=tuple(random.sample(snapshot.teams, len(snapshot.teams))),
        nodes=tuple(random.sample(snapshot.nodes, len(snapshot.nodes))),
        workloads=tuple(random.sample(snapshot.workloads, len(snapshot.workloads))),
    )
    assert schedule(shuffled, scenario.now) == schedule(snapshot, scenario.now)


@settings(max_examples=EXAMPLES, deadline=None)
@given(organisations())
def test_no_victim_takes_its_place_back_and_chains_end(document: str) -> None:
    scenario = loaded(document)
    snapshot: Snapshot = scenario.snapshot
    taken: set[tuple[str, str]] = set()
    for _ in range(CYCLES):
        plan = schedule(snapshot, scenario.now)
        if not (plan.starts or plan.grows or plan.shrinks or plan.preemptions):
            return
        for start in plan.starts:
            assert not taken & {(victim, start.workload) for victim in start.victims}
        taken = {(start.workload, victim) for start in plan.starts for victim in start.victims}
        snapshot = carried_out(snapshot, plan, scenario.now)
    raise AssertionError(f"after {CYCLES} cycles with nothing new there is still something to do")
