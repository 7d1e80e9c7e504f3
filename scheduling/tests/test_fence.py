"""One plan for one picture, whoever stalls, dies or comes second; with schedulers in processes of their own."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from agentlink.models import Device, Hold, Placement
from scheduling.cycle import lease
from scheduling.cycle.cycle import run_cycle
from scheduling.models import Clock, Cycle, Turn
from scheduling.reading import cluster_nodes
from scheduling.reading.snapshot import take
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import run_pods
from teams.actors import Actor, Via
from workloads import actions
from workloads.models import Attempt, EndReason, Event, EventKind, Status, Workload
from workloads.tests.factories import make_workload

pytestmark = pytest.mark.django_db(transaction=True)


def address() -> str:
    """Return the URL of the database of this test."""
    at = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{at['NAME']}"
    return f"postgresql://{at['USER']}:{at['PASSWORD']}@{at['HOST']}:{at['PORT']}/{at['NAME']}"


@contextmanager
def scheduler(step: str, sign: str) -> Iterator[subprocess.Popen[str]]:
    """Start a scheduler, and give it when it has stopped or died at the step."""
    environment = os.environ | {"CHAMBER_DATABASE": address(), "DJANGO_SETTINGS_MODULE": "chamber.settings"}
    process = subprocess.Popen(
        [sys.executable, "-m", "scheduling.tests.process", step, sign],
        env=environment,
        cwd=settings.BASE_DIR,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        flags = os.WSTOPPED if sign == "STOP" else os.WEXITED | os.WNOWAIT
        os.waitid(os.P_PID, process.pid, flags)
        yield process
    finally:
        process.kill()
        process.communicate()


def goes_on(process: subprocess.Popen[str]) -> str:
    """Let a stopped scheduler go on; return what its cycle gave."""
    process.send_signal(signal.SIGCONT)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return printed.strip()


def let_its_turn_last() -> None:
    """Have the other process' lease last, however long this one takes from here on."""
    assert Turn.objects.update(held_until=timezone.now() + timedelta(hours=1)) == 1


def let_its_turn_end() -> None:
    """Have the other process been silent for longer than its lease."""
    assert Turn.objects.update(held_until=timezone.now() - timedelta(seconds=1)) == 1


def nothing_is_written(workloads: list[Workload], *, cycle: int = 0) -> None:
    assert Clock.objects.get().cycle == cycle
    assert Cycle.objects.count() == cycle
    assert not Attempt.objects.filter(workload__in=workloads).exists()
    assert not Event.objects.filter(workload__in=workloads).exclude(kind=EventKind.SUBMITTED).exists()
    assert {row.status for row in Workload.objects.filter(pk__in=[w.pk for w in workloads])} == {
        Status.PENDING
    }


def all_run_once(workloads: list[Workload]) -> None:
    """All have been started, once each, on devices that are theirs."""
    for workload in workloads:
        workload.refresh_from_db()
        assert workload.status == Status.QUEUED
        assert workload.attempts.count() == 1
        kinds = list(workload.events.order_by("sequence").values_list("sequence", "kind"))
        assert kinds == [(1, EventKind.SUBMITTED), (2, EventKind.STATUS)]
    assert not Device.objects.filter(allocated_milli__gt=1000).exists()
    assert Clock.objects.get().cycle == Cycle.objects.latest("number").number == Cycle.objects.count()


def test_of_one_that_stalls_before_applying_and_one_that_takes_over_exactly_one_commits(acme: Acme) -> None:
    workloads = [make_workload(acme.research, acme.owner) for _ in range(4)]
    with scheduler("decided", "STOP") as stalled:
        let_its_turn_end()
        taken_over = run_cycle()
        assert taken_over is not None
        assert taken_over.decisions == 4

        # It goes on, finds that it lost its turn, and stands by.
        assert goes_on(stalled) == "None"

    assert set(Cycle.objects.values_list("ran_by", flat=True)) == {lease.me()}
    run_cycle()
    all_run_once(workloads)


def test_while_one_stalls_within_its_lease_nobody_else_decides(acme: Acme) -> None:
    workloads = [make_workload(acme.research, acme.owner) for _ in range(2)]
    with scheduler("decided", "STOP") as stalled:
        let_its_turn_last()
        assert run_cycle() is None
        nothing_is_written(workloads)

        goes_on(stalled)
        assert Cycle.objects.get(number=1).decisions == 2

    assert lease.me() not in set(Cycle.objects.values_list("ran_by", flat=True))
    all_run_once(workloads)


@pytest.mark.parametrize("step", ["decided", "fenced", "started"])
def test_of_one_that_is_killed_on_its_way_nothing_is_written_and_the_next_one_does_it(
    acme: Acme, step: str
) -> None:
    workloads = [make_workload(acme.research, acme.owner) for _ in range(3)]
    with scheduler(step, "KILL") as killed:
        assert killed.wait() == -signal.SIGKILL
        nothing_is_written(workloads)

        let_its_turn_last()
        assert run_cycle() is None
        let_its_turn_end()
        run_cycle()

    all_run_once(workloads)


def test_what_one_that_is_killed_has_decided_stands_and_the_next_one_tells_who_waits_why(acme: Acme) -> None:
    workloads = [make_workload(acme.research, acme.owner) for _ in range(3)]
    waits = make_workload(acme.research, acme.owner, pods=99)
    with scheduler("written", "KILL") as killed:
        killed.wait()
        assert Cycle.objects.get().decisions == 3
        let_its_turn_end()
        run_cycle()

    all_run_once(workloads)
    waits.refresh_from_db()
    assert waits.reason_code == "larger-than-pool"


def test_preemptions_and_starts_of_one_that_is_killed_are_undone_together(acme: Acme) -> None:
    elastic = [make_workload(acme.research, acme.owner) for _ in range(12)]
    run_cycle()
    run_pods(elastic)
    lease.give_back()
    newcomer = make_workload(acme.production, acme.outsider, gpu_milli=4000, priority=100)
    with scheduler("started", "KILL") as killed:
        killed.wait()

    nothing_is_written([newcomer], cycle=1)
    assert Workload.objects.filter(status=Status.RUNNING).count() == 12
    assert not Event.objects.filter(kind=EventKind.PREEMPTED_OTHERS).exists()
    assert not Placement.objects.exclude(hold=Hold.HELD).exists()
    let_its_turn_end()
    run_cycle()

    newcomer.refresh_from_db()
    assert newcomer.status == Status.QUEUED
    assert Attempt.objects.filter(end_reason=EndReason.PREEMPTED).count() == 4


def test_who_changed_while_the_plan_was_made_is_left_out_and_decided_again(acme: Acme) -> None:
    cancelled, held, kept = (make_workload(acme.research, acme.owner) for _ in range(3))
    by = Actor.person(acme.owner, Via.PAGE)
    with scheduler("decided", "STOP") as stalled:
        actions.cancel(by=by, workload=cancelled)
        actions.hold(by=by, workload=held)
        actions.release(by=by, workload=held)

        goes_on(stalled)
        first = Cycle.objects.get(number=1)
        assert (first.decisions, first.left_out) == (1, 2)

    let_its_turn_end()
    run_cycle()

    for workload in (held, kept):
        workload.refresh_from_db()
        assert (workload.status, workload.attempts.count()) == (Status.QUEUED, 1)
    cancelled.refresh_from_db()
    assert (cancelled.status, cancelled.attempts.exists()) == (Status.CANCELLED, False)


def test_a_picture_is_of_one_moment_whoever_writes_meanwhile(
    acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_workload(acme.research, acme.owner)
    devices = cluster_nodes.device_lines
    writers: list[threading.Thread] = []

    def submit_and_admit() -> None:
        late = make_workload(acme.research, acme.owner)
        Device.objects.filter(index=3).update(foreign=True)
        Workload.objects.exclude(pk=late.pk).update(held=True, version=9)
        connection.close()

    def devices_after_a_write() -> object:
        writer = threading.Thread(target=submit_and_admit)
        writer.start()
        # PostgreSQL lets it commit; on SQLite it waits until the picture is done.
        writer.join(0.3 if connection.vendor == "sqlite" else 30)
        writers.append(writer)
        return devices()

    monkeypatch.setattr(cluster_nodes, "device_lines", devices_after_a_write)

    picture = take(timezone.now())

    writers[0].join(60)
    assert [(row.held, picture.rows[row.id].version) for row in picture.snapshot.workloads] == [(False, 1)]
    assert Workload.objects.filter(held=True, version=9).count() == 1
