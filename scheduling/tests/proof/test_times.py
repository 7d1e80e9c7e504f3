"""Peak hours, later starts and deadlines: the rules alone, the short cuts and what is kept agree, and the checker
finds nothing."""

from __future__ import annotations

from collections import Counter
from random import Random

from scheduling.checker import check
from scheduling.engine import Changes, State, decide
from scheduling.tests.engine.build import MINUTE, NOW, node, placed, pool, snapshot, team, waiting, waits
from scheduling.tests.proof.digests.worlds import world
from scheduling.tests.proof.faults.times import SOON
from scheduling.tests.proof.histories import as_bytes
from scheduling.tests.proof.organisation import Organisation, happen
from scheduling.tests.proof.times import timed, timed_pool, with_times

WORLDS, HISTORIES, CYCLES = 150, 25, 6


def test_random_worlds_are_decided_alike() -> None:
    met: Counter[str] = Counter()
    for number in range(WORLDS):
        there = with_times(world(5_000_000 + number, sound_teams=True), Random(f"times {number}"), NOW)
        plan = decide(State.of(there), NOW)
        assert as_bytes(plan) == as_bytes(decide(State.of(there), NOW, accelerate=False)), number
        met.update([wait.reason.code for wait in plan.waits])
        met.update([row.reason.code for row in plan.expiries])
    assert min(met["not-before"], met["peak-hours"], met["deadline-passed"]) > 10


def test_what_is_kept_knows_when_time_changes_something() -> None:
    for number in range(HISTORIES):
        chance = Random(f"timed life {number}")
        there = Organisation(chance)
        there.pools = tuple([timed_pool(pool, chance) for pool in there.pools])
        for _ in range(6):
            there.submit(chance)
        state = State.of(there.snapshot)
        for cycle in range(CYCLES):
            happen(there, chance, chance.choice((0, 1, 2, 4, 8)))
            for id_, workload in sorted(there.workloads.items()):
                if chance.random() < 0.1:
                    there.workloads[id_] = timed(workload, chance, there.now)
            state.apply(Changes.between(state.snapshot, there.snapshot))
            plan = decide(state, there.now)
            plain = decide(state, there.now, accelerate=False)
            assert as_bytes(plan) == as_bytes(plain), (number, cycle)
            assert check(there.snapshot, plan, there.now) == (), (number, cycle)
            there.carry_out(plan)
            for expiry in plan.expiries:
                del there.workloads[expiry.workload]


def test_a_kept_state_notices_that_a_peak_begins_and_ends() -> None:
    """Two GPUs are in use, so that the large one waits; the peak is from minute 15 to 60."""
    rows = [placed("r", "a", on="n:0", priority=90), waiting("w", "a", 2)]
    state = State.of(snapshot([node("n", 2)], [team("a")], rows, pool(peak=SOON)))
    told = {minutes: waits(decide(state, NOW + minutes * MINUTE))["w"] for minutes in (0, 20, 30, 70)}
    assert told == {0: "waiting-for-gpus", 20: "peak-hours", 30: "peak-hours", 70: "waiting-for-gpus"}
