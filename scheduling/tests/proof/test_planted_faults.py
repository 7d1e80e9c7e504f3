"""The checker catches every planted fault of the engine, and finds nothing wrong with the engine as it is."""

from __future__ import annotations

import pytest

from scheduling.checker import BrokenRule, check
from scheduling.engine import schedule
from scheduling.tests.engine.build import NOW
from scheduling.tests.proof.faults import FAULTS, Fault

every_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)


@every_fault
def test_a_planted_fault_is_caught(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = schedule(fault.world, NOW)
    fault.plant(monkeypatch)
    plan = schedule(fault.world, NOW)
    assert plan != sound
    assert fault.rule in {violation.rule for violation in check(fault.world, plan, NOW)}


@every_fault
def test_the_engine_as_it_is_breaks_no_rule_there(fault: Fault) -> None:
    assert check(fault.world, schedule(fault.world, NOW), NOW) == ()


def test_there_is_a_fault_for_every_rule_and_each_is_named_once() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 30
    assert {fault.rule for fault in FAULTS} == set(BrokenRule)
