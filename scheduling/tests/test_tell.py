"""What a cycle tells: after its decisions, at a pace while cycles follow each other, and never of what is past."""

import time
from dataclasses import replace

import pytest
from django.utils import timezone

from scheduling import engine
from scheduling.acceleration.late import Late
from scheduling.cycle import cycle, decide, tell
from scheduling.cycle.apply import LostTurn, apply
from scheduling.cycle.cycle import run_cycle
from scheduling.engine import decide as decide_on
from scheduling.engine import schedule
from scheduling.explain import last_cycle
from scheduling.explain.workload import explain
from scheduling.models import Clock, Cycle
from scheduling.reading.snapshot import take
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import run_pods
from workloads.models import Status, Workload
from workloads.tests.factories import make_workload

LARGE = {"gpu_milli": 4000}


@pytest.fixture
def rung_again(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Have each cycle be followed by another at once, until the list is empty."""
    left: list[float] = []

    def looked() -> None:
        if left:
            left.pop()
            cycle._again.set()

    monkeypatch.setattr("scheduling.cycle.lease.looked", looked)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    return left


def full(acme: Acme) -> None:
    """Fill all 12 GPUs, and have it told."""
    running = [make_workload(acme.research, acme.owner, **LARGE) for _ in range(3)]
    run_cycle()
    run_pods(running)
    run_cycle()


def test_of_cycles_that_follow_each_other_the_last_one_tells(acme: Acme, rung_again: list[float]) -> None:
    run_cycle()
    starts, waits = (
        make_workload(acme.research, acme.owner),
        make_workload(acme.research, acme.owner, pods=99),
    )
    rung_again.append(1)

    run_cycle()

    first, second = Cycle.objects.order_by("number")[1:]
    assert (first.decisions, bytes(first.plan), "waiting" in first.figures) == (1, b"", False)
    assert (second.decisions, second.figures["waiting"]) == (0, {"larger-than-pool": 1})
    last = last_cycle.last()
    assert last is not None
    assert last.number == second.number
    starts.refresh_from_db()
    waits.refresh_from_db()
    assert (starts.status, waits.reason_code) == (Status.QUEUED, "larger-than-pool")


def test_people_are_told_again_when_it_is_time_though_cycles_follow_each_other(
    acme: Acme, rung_again: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_cycle()
    monkeypatch.setattr(tell, "_due", time.monotonic())
    make_workload(acme.research, acme.owner)
    rung_again.append(1)

    run_cycle()

    assert Cycle.objects.get(number=2).plan


def test_where_somebody_yields_each_cycle_tells_and_keeps_its_snapshot(
    acme: Acme, rung_again: list[float]
) -> None:
    full(acme)
    make_workload(acme.production, acme.outsider, priority=100, **LARGE)
    rung_again.append(1)

    run_cycle()

    yielding = Cycle.objects.get(figures__preemptions=1)
    assert yielding.plan
    assert yielding.snapshot
    assert "plan_sha256" in yielding.figures


def test_who_was_started_on_devices_that_are_emptied_is_explained_before_it_is_told(acme: Acme) -> None:
    full(acme)
    newcomer = make_workload(acme.production, acme.outsider, priority=100, **LARGE)

    apply(decide.decide(take(timezone.now())))

    newcomer.refresh_from_db()
    reason = explain(newcomer, acme.outsider)
    assert reason is not None
    assert (newcomer.status, reason.code) == (Status.QUEUED, "waiting-for-victims")


def test_what_is_past_is_told_to_nobody(acme: Acme) -> None:
    workload = make_workload(acme.research, acme.owner, pods=99)
    decided = decide.decide(take(timezone.now()))
    applied = apply(decided)
    Clock.objects.update(cycle=applied.number + 1)

    with pytest.raises(LostTurn):
        tell.tell(decided, applied)

    workload.refresh_from_db()
    assert workload.reason_code == ""
    assert last_cycle.last() is None


def cannot_tell_of(poison: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    def fragile(plan: engine.Plan, snapshot: engine.Snapshot) -> engine.Plan:
        known = {workload.id for workload in snapshot.workloads}
        if str(poison.pk) not in known:
            return plan
        return replace(plan, waits=Late(lambda: 1 // 0))  # type: ignore[arg-type, return-value]

    monkeypatch.setattr(decide, "schedule", lambda snapshot, now: fragile(schedule(snapshot, now), snapshot))
    monkeypatch.setattr(
        decide, "decide_on", lambda state, now: fragile(decide_on(state, now), state.snapshot)
    )


def test_decisions_are_written_though_the_engine_fails_on_what_to_tell_and_the_next_cycle_tells(
    acme: Acme, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    poison = make_workload(acme.research, acme.owner, pods=99)
    starts, waits = (
        make_workload(acme.research, acme.owner),
        make_workload(acme.research, acme.owner, pods=98),
    )
    cannot_tell_of(poison, monkeypatch)

    run_cycle()
    starts.refresh_from_db()
    assert starts.status == Status.QUEUED
    assert str(poison.pk) in caplog.text
    assert Cycle.objects.get(figures__has_key="error").snapshot

    run_cycle()
    waits.refresh_from_db()
    assert waits.reason_code == "larger-than-pool"
