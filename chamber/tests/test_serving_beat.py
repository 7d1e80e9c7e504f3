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


def test_a_duty_that_cannot_be_sent_is_said_with_its_reason_and_sent_at_its_next_turn(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    steady = Recorded()
    steady.away = True
    with caplog.at_level(logging.WARNING, logger="chamber.serving.beat"):
        ticks(steady)
    assert steady.sent == []
    assert "The duty 'schedule' cannot be sent." in caplog.text
    assert "Error 111 connecting" in caplog.text
    steady.away = False
    clock[0] += max(entry["schedule"] for entry in settings.CELERY_BEAT_SCHEDULE.values())
    ticks(steady)
    assert sorted(steady.sent) == sorted(settings.CELERY_BEAT_SCHEDULE)
