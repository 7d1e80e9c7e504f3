"""Stored cycles decided again: the same plan, another one, and what cannot be replayed."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import TypeAdapter

from chamber.errors import NotVisible, Refusal
from scheduling import engine
from scheduling.cycle import cycle as cycles
from scheduling.cycle import replay as replaying
from scheduling.cycle.codec import decode_snapshot
from scheduling.cycle.cycle import run_cycle
from scheduling.cycle.fingerprint import digest, engine_version, plan_bytes, whole
from scheduling.cycle.replay import replay
from scheduling.engine import schedule
from scheduling.models import Cycle
from scheduling.reading.translate import milliseconds
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import run_pods
from workloads.tests.factories import make_workload

Alter = Callable[[engine.Plan], engine.Plan]


@pytest.fixture
def disputed(acme: Acme) -> Cycle:
    """Return a cycle in which a reserved workload preempted, and others wait."""
    running = [make_workload(acme.research, acme.owner) for _ in range(12)]
    run_cycle()
    run_pods(running)
    make_workload(acme.production, acme.outsider, gpu_milli=2000, priority=100)
    make_workload(acme.research, acme.owner, gpu_milli=8000)
    run_cycle()
    found = Cycle.objects.exclude(snapshot=b"").order_by("-number").first()
    assert found is not None
    return found


def altered(monkeypatch: pytest.MonkeyPatch, alter: Alter) -> None:
    """Have the engine decide something else."""
    monkeypatch.setattr(replaying, "schedule", lambda snapshot, now: alter(schedule(snapshot, now)))


def test_a_cycle_decided_again_has_the_same_plan_byte_for_byte(disputed: Cycle) -> None:
    found = replay(disputed.number)

    assert (found.same, found.whole, found.differences) == (True, True, ())
    assert (found.decisions["starts"], found.decisions["preemptions"]) == (1, 2)
    assert found.engine_then == found.engine_now == engine_version()


def test_the_newest_with_a_snapshot_is_taken_where_no_number_is_given(disputed: Cycle) -> None:
    assert replay(None).cycle == disputed.number


def test_a_preemption_that_is_not_decided_any_more_is_named(
    disputed: Cycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    altered(monkeypatch, lambda plan: dataclasses.replace(plan, preemptions=plan.preemptions[1:]))
    found = replay(disputed.number)

    assert not found.same
    (difference,) = found.differences
    assert difference.endswith("preempt was applied then, nothing is decided now.")


def test_another_reason_is_named(disputed: Cycle, monkeypatch: pytest.MonkeyPatch) -> None:
    def alter(plan: engine.Plan) -> engine.Plan:
        held = dataclasses.replace(plan.waits[0].reason, code=engine.ReasonCode.HELD)
        return dataclasses.replace(
            plan, waits=(dataclasses.replace(plan.waits[0], reason=held), *plan.waits[1:])
        )

    altered(monkeypatch, alter)
    (difference,) = replay(disputed.number).differences

    assert "told larger-than-any-node" in difference
    assert "held (position" in difference


def test_other_figures_are_named(disputed: Cycle, monkeypatch: pytest.MonkeyPatch) -> None:
    altered(monkeypatch, lambda plan: dataclasses.replace(plan, teams=plan.teams[1:]))

    (difference,) = replay(disputed.number).differences
    assert difference.startswith("Only then, figures of a team: ")


def test_what_differs_only_in_what_was_not_stored_is_another_plan_all_the_same(
    disputed: Cycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    altered(monkeypatch, lambda plan: dataclasses.replace(plan, keeps=plan.keeps[1:]))
    found = replay(disputed.number)

    assert (found.same, found.differences) == (False, ())


def test_a_cycle_without_a_digest_is_compared_by_what_was_stored(disputed: Cycle) -> None:
    disputed.figures = {key: value for key, value in disputed.figures.items() if key != "plan_sha256"}
    disputed.save(update_fields=["figures"])

    found = replay(disputed.number)

    assert (found.same, found.whole) == (True, False)


def test_a_decision_that_was_not_applied_then_is_no_difference(
    disputed: Cycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    disputed.figures["plan_sha256"] = ""
    disputed.left_out = 1
    disputed.save(update_fields=["figures", "left_out"])
    keep = engine.Grow("somebody", "pool", (), ())
    altered(monkeypatch, lambda plan: dataclasses.replace(plan, grows=(keep,)))

    assert replay(disputed.number).same


def test_another_engine_is_told(disputed: Cycle) -> None:
    disputed.figures["engine"] = "0123456789ab"
    disputed.save(update_fields=["figures"])

    assert replay(disputed.number).other_engine


def test_the_checker_finds_nothing_in_what_the_engine_decides(disputed: Cycle) -> None:
    assert replay(disputed.number, verify=True).violations == ()
    assert replay(disputed.number).violations is None


def test_the_checker_names_what_is_broken(disputed: Cycle, monkeypatch: pytest.MonkeyPatch) -> None:
    altered(monkeypatch, lambda plan: dataclasses.replace(plan, preemptions=()))

    violations = replay(disputed.number, verify=True).violations

    assert violations
    assert all(violation.message for violation in violations)


def test_a_cycle_on_which_the_engine_failed_says_whether_it_fails_again(
    acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise ZeroDivisionError("by plan")

    make_workload(acme.research, acme.owner)
    monkeypatch.setattr(cycles, "decide", fail)
    run_cycle()
    failed = Cycle.objects.get(plan=b"")

    now_decides = replay(failed.number)
    monkeypatch.setattr(replaying, "schedule", fail)
    fails_again = replay(failed.number)

    assert not now_decides.same
    assert "ZeroDivisionError('by plan')" in now_decides.differences[0]
    assert (fails_again.same, fails_again.error_now) == (True, "ZeroDivisionError('by plan')")


def test_a_cycle_that_is_not_stored_is_told_with_those_that_are(disputed: Cycle) -> None:
    oldest = Cycle.objects.order_by("number")[0].number

    with pytest.raises(NotVisible, match=f"no cycle 4711: stored are some of {oldest} to {disputed.number}"):
        replay(4711)


@pytest.mark.django_db
def test_where_no_cycle_ran_yet_there_is_none() -> None:
    with pytest.raises(NotVisible, match="none is stored yet"):
        replay(1)
    with pytest.raises(NotVisible, match="No stored cycle has a snapshot"):
        replay(None)


def test_one_without_a_snapshot_names_the_nearest_with_one(disputed: Cycle) -> None:
    kept = disputed.number
    disputed.number, disputed.snapshot = kept + 1, b""
    disputed.save(force_insert=True)

    with pytest.raises(Refusal, match=rf"cycle {kept + 1} was not kept.*The nearest with one: {kept}\."):
        replay(kept + 1)


def test_a_damaged_snapshot_is_told(disputed: Cycle) -> None:
    Cycle.objects.filter(pk=disputed.pk).update(snapshot=b"damaged")

    with pytest.raises(Refusal, match="cannot be read"):
        replay(disputed.number)


def test_a_damaged_plan_is_told_where_it_would_be_compared(disputed: Cycle) -> None:
    Cycle.objects.filter(pk=disputed.pk).update(
        plan=b"damaged", figures={**disputed.figures, "plan_sha256": "0"}
    )

    found = replay(disputed.number)

    assert not found.same
    assert found.differences == ("What the plan told then is damaged and is not compared.",)


def test_the_digest_of_a_plan_does_not_depend_on_how_it_holds_its_rows(disputed: Cycle) -> None:
    plan = engine.Plan(findings=(engine.Finding(engine.FindingCode.OVERSUBSCRIBED, "p", None, "x"),))

    assert digest(plan) == digest(dataclasses.replace(plan, findings=list(plan.findings)))
    assert digest(plan) != digest(engine.Plan())


def test_a_plan_is_written_with_every_kind_of_row(disputed: Cycle) -> None:
    plan = schedule(decode_snapshot(disputed.snapshot), milliseconds(disputed.began_at) or 0)

    assert plan_bytes(plan) == TypeAdapter(engine.Plan).dump_json(whole(plan))
