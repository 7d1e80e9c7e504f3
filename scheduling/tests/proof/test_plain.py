"""The rules alone decide byte for byte what they decide with acceleration; they need neither that nor numpy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import scheduling.engine
from scheduling.engine import Changes, Snapshot, State, decide
from scheduling.scenario.document import Format, ScenarioError
from scheduling.scenario.loader import load
from scheduling.tests.engine.build import NOW
from scheduling.tests.proof.digests.sources import OWN_CASES
from scheduling.tests.proof.digests.worlds import world
from scheduling.tests.proof.faults import FAULTS, Fault
from scheduling.tests.proof.histories import as_bytes
from scheduling.tests.proof.organisation import Organisation, happen

WORLDS, PARTS = 400, 4
HISTORIES, CYCLES = 20, 5


def cases() -> Iterator[tuple[str, Snapshot, int]]:
    """The scenario files that the loader takes."""
    for path in sorted(OWN_CASES.glob("*.yaml")):
        try:
            scenario = load(path.read_bytes(), Format.YAML)
        except ScenarioError:
            continue
        yield path.stem, scenario.snapshot, scenario.now


def both(snapshot: Snapshot, now: int) -> tuple[bytes, bytes]:
    """The whole plan with acceleration, and without."""
    fast, plain = (decide(State.of(snapshot), now, accelerate=accelerate) for accelerate in (True, False))
    return as_bytes(fast), as_bytes(plain)


def test_every_case_is_decided_alike() -> None:
    decided = 0
    for name, snapshot, now in cases():
        fast, plain = both(snapshot, now)
        assert fast == plain, name
        decided += 1
    assert decided > 100


@pytest.mark.parametrize("part", range(PARTS))
def test_random_worlds_are_decided_alike(part: int) -> None:
    for number in range(part, WORLDS, PARTS):
        fast, plain = both(world(number), NOW)
        assert fast == plain, number


def test_what_is_kept_from_cycle_to_cycle_decides_as_the_rules_do_from_the_rows() -> None:
    for number in range(HISTORIES):
        chance = Random(f"plain {number}")
        there = Organisation(chance, world=world(2_000_000 + number, sound_teams=True))
        state = State.of(there.snapshot)
        for cycle in range(CYCLES):
            happen(there, chance, chance.choice((0, 1, 2, 4, 8)))
            state.apply(Changes.between(state.snapshot, there.snapshot))
            plan = decide(state, there.now)
            plain = decide(state, there.now, accelerate=False)
            assert as_bytes(plan) == as_bytes(plain), (number, cycle)
            there.carry_out(plan)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_of_a_rule_is_one_with_and_without_acceleration(
    fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rule is stated once: who breaks it breaks both."""
    fault.plant(monkeypatch)
    fast, plain = both(fault.world, NOW)
    assert fast == plain


def test_the_rules_run_where_there_is_no_numpy_and_no_acceleration() -> None:
    program = """
import sys
sys.modules["numpy"] = None
from scheduling.engine import Snapshot, State, decide
plan = decide(State.of(Snapshot((), (), (), ())), 0, accelerate=False)
assert plan.starts == () and tuple(plan.waits) == ()
print([name for name in sys.modules if name.startswith("scheduling.acceleration")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_module_of_the_rules_needs_a_circle_for_its_types() -> None:
    home = Path(scheduling.engine.__file__).parent
    assert [path.name for path in home.rglob("*.py") if "TYPE_CHECKING" in path.read_text()] == []
