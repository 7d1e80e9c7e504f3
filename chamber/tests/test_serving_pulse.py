"""The pulse of a process that listens: seen while it lives, gone when it stops in order, and outlives its servers."""

import time

import pytest
from django.db import DatabaseError

from chamber import marks
from chamber.metrics import requests
from chamber.models import Mark
from chamber.serving.pulse import Pulse

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE_SECONDS = 60.0


def parts() -> list[str]:
    return [name.split(":")[1] for name in Mark.objects.values_list("name", flat=True)]


def test_a_part_is_seen_while_its_process_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "PART_SECONDS", 0.05)
    pulse = Pulse("live")
    pulse.start()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while parts() != ["live"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    pulse.stop(seconds=PATIENCE_SECONDS)
    assert parts() == []


def test_while_the_database_is_away_requests_are_passed_on_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed_on: list[bool] = []

    def away(*_: object, **__: object) -> None:
        raise DatabaseError("away")

    monkeypatch.setattr(marks, "part_lives", away)
    monkeypatch.setattr(requests.counts, "flush", lambda: passed_on.append(True))
    Pulse("web").beat()
    assert passed_on == [True]
