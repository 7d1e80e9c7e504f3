"""How cycles run: one at a time, again when rung, past a workload that the engine stumbles over, and pruned."""

import threading
import time
from datetime import timedelta

import pytest
from django.utils import timezone

from agentlink.models import Device
from agentlink.pace import Pace
from scheduling import engine, tasks
from scheduling.cycle import cycle, decide, pending_changes, wake_ups
from scheduling.cycle.cycle import prune, run_cycle
from scheduling.engine import schedule
from scheduling.models import Clock, Cycle, UsageSample
from scheduling.reading.picture import SnapshotPicture
from scheduling.reading.snapshot import take
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import run_pods
from teams.models import Pool, Team
from teams.tests.factories import make_pool
from workloads.models import Status, Workload
from workloads.tests.factories import make_workload


@pytest.mark.django_db
def test_who_rings_during_a_cycle_returns_at_once_and_has_it_run_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs: list[str] = []

    def one_cycle(rung: int) -> None:
        runs.append(threading.current_thread().name)
        if len(runs) == 1:
            other = threading.Thread(target=run_cycle, name="other")
            other.start()
            other.join(60)
            assert not other.is_alive()

    monkeypatch.setattr(cycle, "_one_cycle", one_cycle)

    run_cycle()

    assert runs == [threading.current_thread().name] * 2


@pytest.mark.django_db
def test_messages_that_come_one_after_the_other_are_answered_at_the_pace_of_cycles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rests: list[float] = []
    monkeypatch.setattr(time, "sleep", rests.append)
    monkeypatch.setattr(cycle, "_pace", Pace(at_once=2, every_seconds=0.2, clock=lambda: 0.0))

    for _ in range(4):
        tasks.run_cycle()

    assert rests == pytest.approx([0, 0, 0.2, 0.2])


@pytest.mark.django_db
def test_who_rings_without_end_is_answered_by_the_next_message(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []
    rings: list[str] = []
    monkeypatch.setattr(cycle, "_one_cycle", lambda _: cycle._again.set())
    monkeypatch.setattr(cycle, "LONGEST_RUN_SECONDS", 0.5)
    monkeypatch.setattr(wake_ups, "ring", lambda: rings.append("rung"))
    sleep, ours = time.sleep, threading.get_ident()

    def rest(seconds: float) -> None:
        if threading.get_ident() == ours:  # not a thread that another test left running
            rests.append(seconds)
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", rest)

    run_cycle()

    assert rings == ["rung"]
    assert 0 < max(rests) <= cycle.CYCLES_EVERY_SECONDS + 1e-9
    assert len(rests) <= cycle.CYCLES_AT_ONCE + 0.5 / cycle.CYCLES_EVERY_SECONDS


def test_a_cycle_that_lost_its_turn_looks_again(acme: Acme, monkeypatch: pytest.MonkeyPatch) -> None:
    make_workload(acme.research, acme.owner)
    stolen: list[int] = []

    def steal(picture: SnapshotPicture) -> decide.Decided:
        if not stolen:
            stolen.append(Clock.objects.update(cycle=41))
        return decide.decide(picture)

    monkeypatch.setattr(cycle, "decide", steal)

    result = run_cycle()

    assert result is not None
    assert result.number == 42
    assert Workload.objects.get().status == Status.QUEUED


def test_who_begins_while_a_cycle_looks_for_changes_does_not_seem_to_begin_later_than_now(
    acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins = make_workload(acme.research, acme.owner)
    run_cycle()
    make_workload(acme.research, acme.owner)
    monkeypatch.setattr(cycle, "_reassign_nodes", lambda: run_pods([begins]))

    run_cycle()

    assert Cycle.objects.latest("number").figures["findings"] == []


def stumble_over(poison: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    def fragile(snapshot: engine.Snapshot, now: int) -> engine.Plan:
        if str(poison.pk) in {workload.id for workload in snapshot.workloads}:
            raise RuntimeError("stumbled")
        return schedule(snapshot, now)

    monkeypatch.setattr(decide, "schedule", fragile)
    monkeypatch.setattr(decide, "decide_on", lambda state, now: fragile(state.snapshot, now))


def test_a_workload_that_the_engine_fails_on_does_not_stop_the_others(
    acme: Acme, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before, poison, after = (make_workload(acme.research, acme.owner) for _ in range(3))
    stumble_over(poison, monkeypatch)

    run_cycle()

    statuses = dict(Workload.objects.values_list("pk", "status"))
    assert statuses == {before.pk: "queued", poison.pk: "pending", after.pk: "queued"}
    assert str(poison.pk) in caplog.text
    assert [row["id"] for row in Cycle.objects.get().figures["left_aside"]] == [str(poison.pk)]

    caplog.clear()
    make_workload(acme.research, acme.owner)
    run_cycle()
    assert "fails on" not in caplog.text
    assert Workload.objects.filter(status=Status.QUEUED).count() == 3


def test_an_engine_that_fails_anyway_is_stored_to_be_replayed_and_the_next_cycle_goes_on(
    acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_workload(acme.research, acme.owner)
    with monkeypatch.context() as broken:
        broken.setattr(decide, "schedule", lambda *_: 1 // 0)
        broken.setattr(decide, "decide_on", lambda *_: 1 // 0)
        assert run_cycle() is None

    failure = Cycle.objects.get()
    assert failure.figures["error"] == "ZeroDivisionError('integer division or modulo by zero')"
    assert failure.plan == b""
    assert failure.snapshot

    make_workload(acme.research, acme.owner)
    assert run_cycle() is not None
    assert Workload.objects.filter(status=Status.QUEUED).count() == 2


def test_a_workload_whose_row_cannot_be_read_is_left_aside(
    acme: Acme, caplog: pytest.LogCaptureFixture
) -> None:
    broken = make_workload(acme.research, acme.owner, tolerations=[7])
    fine = make_workload(acme.research, acme.owner)

    run_cycle()

    fine.refresh_from_db()
    assert fine.status == Status.QUEUED
    assert str(broken.pk) in caplog.text


def test_a_pool_whose_rules_cannot_be_read_starts_nothing(acme: Acme) -> None:
    Pool.objects.update(policy={"queueing": "by-magic"})
    make_workload(acme.research, acme.owner)

    run_cycle()

    assert Workload.objects.get().reason_code == "pool-paused"


def test_any_change_that_a_cycle_would_look_at_changes_the_fingerprint(acme: Acme) -> None:
    workload = make_workload(acme.research, acme.owner)
    seen = [pending_changes.fingerprint()]

    def look() -> None:
        seen.append(pending_changes.fingerprint())
        assert seen[-1] != seen[-2]

    Workload.objects.update(held=True)
    look()
    Team.objects.filter(pk=acme.research.pk).update(version=2)
    look()
    acme.pool.shares.update(version=7)
    look()
    acme.cluster.connected = False
    acme.cluster.save()
    look()
    acme.cluster.nodes.filter(name="n1").update(ready=False)
    look()
    make_workload(acme.research, workload.owner)
    look()


def test_a_backoff_that_ends_makes_the_next_cycle_due(acme: Acme) -> None:
    now = timezone.now()
    make_workload(acme.research, acme.owner, backoff_until=now + timedelta(seconds=5))
    picture = take(now)

    due = pending_changes.due(picture.snapshot, now, picture.now)

    assert timedelta(seconds=4.9) < due - now < timedelta(seconds=5.1)
    assert (
        pending_changes.due(engine.Snapshot((), (), (), ()), now, picture.now) - now
        == pending_changes.LOOKED_AT_LEAST_EVERY
    )


@pytest.mark.django_db
def test_old_cycles_are_pruned_in_batches_and_new_ones_kept() -> None:
    now = timezone.now()
    for number in range(1, 8):
        Cycle.objects.create(
            number=number,
            began_at=now - timedelta(days=10 - number),
            took_ms=0,
            decide_ms=0,
            ran_by="x",
            figures={},
            plan=b"",
            snapshot=b"",
            decisions=0,
        )

    assert prune(older_than=timedelta(days=7), now=now, batch=1) == 2
    assert set(Cycle.objects.values_list("number", flat=True)) == {3, 4, 5, 6, 7}

    assert prune(older_than=timedelta(days=7), now=now, most=2) == 3
    assert set(Cycle.objects.values_list("number", flat=True)) == {6, 7}


def test_tasks_call_their_functions(acme: Acme) -> None:
    make_workload(acme.research, acme.owner)

    tasks.run_cycle()
    tasks.sample_usage()
    tasks.prune_cycles()

    assert Cycle.objects.count() == UsageSample.objects.count() == 1


def announced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list that topics go into as they are announced by cycles."""
    topics: list[str] = []
    monkeypatch.setattr("scheduling.cycle.tell.live.announce", lambda *names: topics.extend(names))
    return topics


def test_pages_are_told_of_new_entitlements_though_nobody_starts(
    acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_workload(acme.research, acme.owner, gpu_milli=4000, pods=3)
    run_cycle()
    run_cycle()
    topics = announced(monkeypatch)
    acme.pool.shares.filter(team=acme.research).update(reservation_milli=2000, version=2)

    run_cycle()

    assert {"teams", "overview"} <= set(topics)
    assert (
        Cycle.objects.latest("number").figures["teams"] != Cycle.objects.earliest("number").figures["teams"]
    )


def test_a_queue_is_announced_when_it_reads_differently_and_only_then(
    acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_pool("Lab", order=1)
    make_workload(acme.research, acme.owner, gpu_milli=8000, pool_choice=[str(acme.pool.pk)])
    topics = announced(monkeypatch)

    run_cycle()
    assert "queue:main" in topics
    assert "queue:lab" not in topics

    topics.clear()
    monkeypatch.setattr(cycle, "_seen", None)
    run_cycle()
    assert topics == []


def test_a_start_that_the_database_refuses_does_not_stop_the_others(
    acme: Acme, caplog: pytest.LogCaptureFixture
) -> None:
    make_workload(acme.research, acme.owner, gpu_milli=4000)
    make_workload(acme.research, acme.owner, gpu_milli=4000)
    # A counter that says more than the placements do: the engine cannot know, the database holds to it.
    Device.objects.filter(node__name="n1", index=0).update(allocated_milli=1000, occupied_milli=1000)

    result = run_cycle()

    assert result is not None
    assert (result.decisions, result.left_out) == (1, 1)
    assert sorted(Workload.objects.values_list("status", flat=True)) == ["pending", "queued"]
    assert "is left out" in caplog.text
    assert [(each["name"], each["count"]) for each in Cycle.objects.get().figures["tally"]] == [("wait", 1)]
