"""The scenarios beside this file, and those of the folder CHAMBER_TEST_SCENARIOS, come out as they expect."""

import os
from pathlib import Path

import pytest

from scheduling.checker import check
from scheduling.engine import schedule
from scheduling.scenario.check import differences
from scheduling.scenario.document import Format
from scheduling.scenario.loader import load
from scheduling.scenario.output import as_object

from .oracle import broken_rules

OWN = Path(__file__).parent / "cases"
OTHERS = os.environ.get("CHAMBER_TEST_SCENARIOS")


def _cases() -> list[Path]:
    others = Path(OTHERS).glob("*.yaml") if OTHERS else ()
    return [*sorted(OWN.glob("*.yaml")), *sorted(others)]


@pytest.mark.parametrize("path", _cases(), ids=lambda path: path.stem)
def test_a_case_holds(path: Path) -> None:
    scenario = load(path.read_bytes(), Format.YAML)
    plan = schedule(scenario.snapshot, scenario.now)
    result = as_object(scenario.snapshot, scenario.now, plan)
    assert differences(scenario.expectations, result) == []
    assert broken_rules(scenario.snapshot, scenario.now, result) == []
    assert check(scenario.snapshot, plan, scenario.now) == ()


@pytest.mark.parametrize("path", sorted(OWN.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_own_case_expects_something(path: Path) -> None:
    expectations = load(path.read_bytes(), Format.YAML).expectations
    assert expectations.workloads or expectations.figures
