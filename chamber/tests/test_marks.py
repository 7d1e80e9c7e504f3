"""The heartbeat: what it leaves behind, and two beats at once."""

from datetime import UTC, datetime, timedelta

import pytest

from chamber import marks
from chamber.models import Mark
from chamber.tasks import heartbeat

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def beats(*times: tuple[str, int]) -> None:
    for sender, seconds in times:
        marks.beaten(now=NOON + timedelta(seconds=seconds), sent_by=sender, run_by="duties@a")


def test_the_embedded_timer_is_beat_and_worker_in_one() -> None:
    heartbeat()
    beat, worker = Mark.objects.get(pk="beat"), Mark.objects.get(pk="worker:duties")
    assert beat.said_by == worker.said_by
    assert beat.at == worker.at


def test_a_sent_heartbeat_names_its_sender_and_its_worker() -> None:
    beats(("gen7@a", 0))
    assert Mark.objects.get(pk="beat").said_by == "gen7@a"
    assert Mark.objects.get(pk="worker:duties").said_by == "duties@a"


def test_a_later_heartbeat_takes_the_place_of_the_one_before() -> None:
    beats(("gen7@a", 0), ("gen7@a", 5))
    assert Mark.objects.count() == 2
    assert Mark.objects.get(pk="beat").at == NOON + timedelta(seconds=5)


def test_a_beat_that_was_started_again_is_one_beat() -> None:
    beats(("gen7@a", 0), ("gen7@a", 5), ("gen8@a", 12))
    beat = Mark.objects.get(pk="beat")
    assert marks.at_once(beat.details, NOON + timedelta(seconds=12)) == ["gen8@a"]


def test_two_beats_at_once_are_noticed_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    beats(("gen7@a", 0), ("gen9@b", 2), ("gen7@a", 5), ("gen9@b", 7), ("gen7@a", 10))
    beat = Mark.objects.get(pk="beat")
    assert marks.at_once(beat.details, NOON + timedelta(seconds=10)) == ["gen7@a", "gen9@b"]
    assert [record.getMessage() for record in caplog.records] == [
        "More than one beat sends the duties (gen7@a, gen9@b); stop all but one."
    ]


def test_a_second_beat_that_was_stopped_is_forgotten() -> None:
    beats(("gen7@a", 0), ("gen9@b", 2), ("gen7@a", 5), ("gen7@a", 90))
    assert marks.at_once(Mark.objects.get(pk="beat").details, NOON + timedelta(seconds=90)) == ["gen7@a"]
    assert list(Mark.objects.get(pk="beat").details["beats"]) == ["gen7@a"]
