"""The checker's verdict on the plans of a run."""

from dataclasses import replace

from scheduling.engine import Plan, schedule
from scheduling.simulation.verify import MOST_SENTENCES, CheckerVerdict

from .builder import scenario


def verdict_on(rows: str, *, times: int = 1, spoilt: bool = False) -> CheckerVerdict:
    described = scenario(rows)
    plan: Plan = schedule(described.snapshot, described.now)
    if spoilt:
        plan = replace(plan, waits=())
    verdict = CheckerVerdict()
    for _ in range(times):
        verdict.look(described.snapshot, plan, described.now)
    return verdict


def test_a_plan_without_fault_is_well() -> None:
    verdict = verdict_on("name: x, team: a\nname: y, team: a")
    assert (verdict.sentences(), verdict.well()) == ([], "no rule is broken in 1 plan")
    assert verdict_on("name: x, team: a", times=2).well() == "no rule is broken in 2 plans"


def test_a_fault_is_told_with_its_time_and_whom_it_is_about() -> None:
    first = verdict_on("name: x, team: a\nname: y, team: a", spoilt=True).sentences()[0]
    assert first.startswith("2026-01-01T00:00:00Z: ")
    assert "y" in first


def test_a_flood_of_faults_is_cut() -> None:
    sentences = verdict_on(
        "name: x, team: a\nname: y, team: a", times=MOST_SENTENCES + 5, spoilt=True
    ).sentences()
    assert len(sentences) == MOST_SENTENCES + 1
    assert sentences[-1].startswith("and ")
