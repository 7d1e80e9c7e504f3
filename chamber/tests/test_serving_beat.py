"""The beat's table of duties: all due at once, then at their intervals, on a clock that nobody can set."""

import logging
import time
from datetime import timedelta
from typing import Any

import pytest
from celery.beat import ScheduleEntry
from django.conf import settings
from kombu.exceptions import OperationalError

from chamber.celery import app
from chamber.serving import beat


class Recorded(beat.Steady):
    """Sends nothing, and remembers what it would have sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.away = False
        super().__init__(app)

    def apply_async(self, entry: ScheduleEntry, **_: Any) -> None:
        if self.away:
            raise OperationalError("Error 111 connecting")
        self.sent.append(entry.name)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [beat._STARTED_MONOTONIC + 1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def ticks(steady: beat.Steady) -> None:
    """Send whatever is due now."""
    while steady.tick() == 0:
        pass


def test_at_the_start_every_duty_is_due(clock: list[float]) -> None:
    steady = Recorded()
    ticks(steady)
    assert sorted(steady.sent) == sorted(settings.CELERY_BEAT_SCHEDULE)


def test_then_each_is_sent_at_its_interval(clock: list[float]) -> None:
    steady = Recorded()
    for _ in range(120):
        ticks(steady)
        clock[0] += 0.5
    for name, entry in settings.CELERY_BEAT_SCHEDULE.items():
        expected = 60 / entry["schedule"]
        assert expected - 1 <= steady.sent.count(name) <= expected + 1, name


def test_a_system_clock_that_is_set_back_changes_nothing(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    steady = Recorded()
    ticks(steady)
    yesterday = app.now() - timedelta(days=1)
    monkeypatch.setattr(app, "now", lambda: yesterday)
    clock[0] += 2
    ticks(steady)
    assert steady.sent.count("schedule") == 2


def test_a_duty_is_good_for_its_interval_though_the_workers_clock_is_a_minute_ahead() -> None:
    for entry in Recorded().schedule.values():
        assert entry.options["expires"] == entry.schedule.run_every.total_seconds() + 60


def test_an_absent_redis_is_said_once_and_once_that_it_is_back(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    steady = Recorded()
    steady.away = True
    with caplog.at_level(logging.WARNING, logger="chamber.serving.beat"):
        for _ in range(3):
            ticks(steady)
            clock[0] += 1
        steady.away = False
        ticks(steady)
    assert [record.getMessage() for record in caplog.records] == [
        "Redis is away, nothing is sent until it is back: Error 111 connecting.",
        "Redis is back.",
    ]
