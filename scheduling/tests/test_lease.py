"""Whose turn it is to run cycles: one process's, until it gives it back or is silent for too long."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chamber.celery import app
from scheduling import tasks
from scheduling.cycle import lease
from scheduling.cycle.cycle import run_cycle
from scheduling.models import Cycle, Turn
from scheduling.tests.conftest import Acme
from workloads.tests.factories import make_workload

pytestmark = pytest.mark.django_db

ROUNDING = timedelta(milliseconds=1)
"""SQLite's clock counts milliseconds, this process' microseconds."""


def held_by_another(*, until: timedelta) -> None:
    Turn.objects.update_or_create(
        pk=1, defaults={"held_by": "elsewhere:1", "held_until": timezone.now() + until}
    )


def test_nobodys_turn_is_taken_for_ten_seconds_and_asked_for_once() -> None:
    began = timezone.now()
    assert lease.take()

    held = Turn.objects.get()
    assert held.held_by == lease.me()
    assert held.held_until is not None
    held_from = held.held_until - timedelta(seconds=10)
    assert began - ROUNDING <= held_from <= timezone.now() + ROUNDING
    with CaptureQueriesContext(connection) as queries:
        assert lease.take()
    assert len(queries) == 0


def test_while_another_process_has_the_turn_no_cycle_runs(acme: Acme) -> None:
    make_workload(acme.research, acme.owner)
    held_by_another(until=timedelta(seconds=5))

    assert run_cycle() is None

    assert not Cycle.objects.exists()


def test_the_turn_of_a_process_that_was_silent_is_taken_over() -> None:
    held_by_another(until=timedelta(seconds=-1))

    assert lease.take()

    assert Turn.objects.get().held_by == lease.me()


def test_a_turn_that_was_given_back_is_free_at_once() -> None:
    lease.take()

    lease.give_back()

    assert (Turn.objects.get().held_by, Turn.objects.get().held_until) == ("", None)


def test_a_worker_that_stops_in_order_gives_its_turn_back() -> None:
    lease.take()

    tasks.give_turn_back()

    assert Turn.objects.get().held_by == ""


def test_a_worker_stops_though_the_database_is_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away() -> None:
        raise OperationalError("away")

    monkeypatch.setattr(lease, "give_back", away)
    caplog.set_level("INFO", "scheduling")

    tasks.give_turn_back()

    assert "The turn could not be given back" in caplog.text


def test_looking_prolongs_the_turn_and_is_noted_now_and_then() -> None:
    lease.take()
    Turn.objects.update(held_until=timezone.now() + timedelta(seconds=1))

    lease.looked()

    held = Turn.objects.get()
    assert held.looked_at is not None
    assert held.held_until is not None
    assert held.held_until - held.looked_at == lease.LEASE
    with CaptureQueriesContext(connection) as queries:
        lease.looked()
    assert len(queries) == 0


def test_whoever_lost_his_turn_while_he_looked_asks_again() -> None:
    lease.take()
    held_by_another(until=timedelta(seconds=5))

    lease.looked()

    assert not lease.take()


def test_what_a_cycle_that_finds_nothing_changed_leaves_is_that_it_looked(acme: Acme) -> None:
    run_cycle()
    run_cycle()
    Turn.objects.update(looked_at=None)
    lease.forget()

    assert run_cycle() is None

    assert Turn.objects.get().looked_at is not None


@pytest.fixture
def handed_on(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The messages that were sent again, of a worker among several processes that does not wait."""
    monkeypatch.setattr(tasks, "settings", SimpleNamespace(REDIS="redis://nowhere"))
    messages: list[str] = []
    monkeypatch.setattr(app, "send_task", lambda name, **_: messages.append(name))
    monkeypatch.setattr(tasks, "STANDS_BY_SECONDS", 0)
    return messages


def test_a_message_that_came_to_who_stands_by_goes_to_the_other_one(handed_on: list[str]) -> None:
    held_by_another(until=timedelta(seconds=5))

    tasks.run_cycle()

    assert handed_on == ["scheduling.tasks.run_cycle"]


def test_a_message_that_came_to_whose_turn_it_is_goes_no_further(handed_on: list[str]) -> None:
    tasks.run_cycle()

    assert lease.is_mine()
    assert handed_on == []
