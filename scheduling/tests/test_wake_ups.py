"""Rings: the version, one message on its way, and callers who are never kept waiting."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.core.cache import cache
from django.db import OperationalError, connection

from chamber.celery import app
from scheduling.cycle import cycle, pending_changes, wake_ups
from scheduling.cycle.cycle import run_cycle
from scheduling.models import Bell
from scheduling.reading.snapshot import take
from scheduling.tests.conftest import Acme
from workloads.models import Status, Workload
from workloads.tests.factories import make_workload

Sent = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """The messages that were sent; none is on its way at first."""
    messages: Sent = []
    monkeypatch.setattr(app, "send_task", lambda name, **options: messages.append((name, options)))
    monkeypatch.setattr(wake_ups, "_complained_at", -wake_ups.COMPLAINED_EVERY_SECONDS)
    cache.delete(wake_ups.ON_ITS_WAY)
    return messages


def fail(error: Exception) -> Callable[..., None]:
    def failing(*_: object, **__: object) -> None:
        raise error

    return failing


@pytest.mark.django_db
def test_a_ring_raises_the_version_and_sends_one_message_while_one_is_on_its_way(sent: Sent) -> None:
    assert wake_ups.pass_on()
    assert wake_ups.pass_on()

    assert wake_ups.rings() == 2
    assert [(name, options["queue"]) for name, options in sent] == [
        ("scheduling.tasks.run_cycle", "scheduling")
    ]


@pytest.mark.django_db
def test_a_message_is_good_though_the_workers_clock_is_a_minute_ahead(sent: Sent) -> None:
    wake_ups.pass_on()

    [(_, options)] = sent
    assert options["expires"] == wake_ups.MESSAGE_SECONDS + 60


@pytest.mark.django_db
def test_once_a_cycle_has_heard_the_next_ring_sends_a_message_again(sent: Sent) -> None:
    wake_ups.pass_on()

    assert wake_ups.hear() == 1

    wake_ups.pass_on()
    assert len(sent) == 2


@pytest.mark.django_db
def test_a_message_that_could_not_be_sent_is_not_on_its_way(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as away:
        away.setattr(app, "send_task", fail(ConnectionError("refused")))
        assert not wake_ups.pass_on()

    assert wake_ups.pass_on()
    assert len(sent) == 1


@pytest.mark.django_db
def test_with_redis_away_the_version_rises_and_one_line_a_minute_says_why(
    sent: Sent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cache, "add", fail(ConnectionError("Redis is away")))
    monkeypatch.setattr(cache, "delete", fail(ConnectionError("Redis is away")))

    for _ in range(3):
        assert not wake_ups.pass_on()
        wake_ups.hear()

    assert wake_ups.rings() == 3
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "Redis is away" in caplog.text


@pytest.mark.django_db
def test_with_the_database_away_the_message_is_sent(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake_ups, "RAISE", "no such statement")
    monkeypatch.setattr(wake_ups, "RAISE_ON_POSTGRESQL", "no such statement")
    monkeypatch.setattr(connection, "cursor", fail(OperationalError("away")))

    assert wake_ups.pass_on()

    assert len(sent) == 1


@pytest.mark.django_db(transaction=True)
def test_many_rings_of_a_process_raise_the_version_a_few_times(sent: Sent) -> None:
    began, busy = time.monotonic(), time.thread_time()
    for _ in range(5_000):
        wake_ups.ring()
    rung_for = time.thread_time() - busy
    deadline = began + 60
    while (not wake_ups.rings() or wake_ups._ringer().rung.is_set()) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(3 * wake_ups.GATHERED_SECONDS)

    assert rung_for < 1
    assert 1 <= Bell.objects.get().rings <= 2 + (time.monotonic() - began) / wake_ups.GATHERED_SECONDS
    assert len(sent) == 1


@pytest.mark.django_db(transaction=True)
def test_a_caller_is_not_kept_waiting_by_a_bell_that_hangs(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released = threading.Event(), threading.Event()

    def hangs() -> bool:
        begun.set()
        return released.wait(30)

    monkeypatch.setattr(wake_ups, "pass_on", hangs)
    began = time.monotonic()

    for _ in range(100):
        wake_ups.ring()
        begun.wait(30)

    assert time.monotonic() - began < 30
    released.set()


def test_who_is_rung_for_meanwhile_is_answered_by_one_more_cycle(
    acme: Acme, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_workload(acme.research, acme.owner)

    def submit_meanwhile(*now: Any) -> Any:
        picture = take(*now)
        if Workload.objects.count() == 1:
            make_workload(acme.research, acme.owner)
            wake_ups.pass_on()
        return picture

    monkeypatch.setattr(cycle, "take", submit_meanwhile)

    run_cycle()

    assert Workload.objects.filter(status=Status.QUEUED).count() == 2


def test_a_cycle_that_was_rung_for_looks_without_asking_the_sums(
    acme: Acme, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_cycle()
    make_workload(acme.research, acme.owner)
    wake_ups.pass_on()
    monkeypatch.setattr(pending_changes, "fingerprint", fail(AssertionError("asked")))

    run_cycle()

    assert Workload.objects.get().status == Status.QUEUED
