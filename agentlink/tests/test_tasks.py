"""Clusters that fall silent."""

from datetime import datetime, timedelta

import pytest
from django.db.models import F
from django.utils import timezone

from agentlink.models import Cluster, Hold, Placement
from agentlink.tasks import watch_heartbeats
from agentlink.tests.agents import Hand, admit, cancel, devices_of
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster
from chamber import marks
from chamber.models import Mark
from workloads.models import Event, Status

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def watched() -> None:
    """Silent agents were looked for in the last minute, as in a server that has run for a while."""
    now = timezone.now()
    for seconds in range(60, 0, -5):
        marks.watched_since(now=now - timedelta(seconds=seconds))


def passes(seconds: int) -> None:
    """Have so many seconds pass in which nothing is said and silent agents are not looked for."""
    since = Mark.objects.get(pk=marks.AGENTS)
    began = datetime.fromisoformat(since.details["since"]) - timedelta(seconds=seconds)
    Mark.objects.filter(pk=marks.AGENTS).update(
        at=since.at - timedelta(seconds=seconds), details={"since": began.isoformat()}
    )
    Cluster.objects.update(last_seen_at=F("last_seen_at") - timedelta(seconds=seconds))


def test_time_in_which_nothing_could_be_written_down_is_no_silence_of_an_agent(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    attempt = admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:1])
    cancel(attempt)
    waits = admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:1])
    passes(600)  # the database is away
    assert watch_heartbeats() == 0
    for _ in range(2):
        passes(10)
        assert watch_heartbeats() == 0
    Hand(place.cluster)
    for _ in range(2):
        passes(10)
        assert watch_heartbeats() == 0
    waits.workload.refresh_from_db()
    assert (Cluster.objects.get().connected, waits.workload.status) == (True, Status.QUEUED)
    assert "out of touch" not in caplog.text
    passes(10)
    assert watch_heartbeats() == 1
    assert "Its agent is out of touch: it was not heard for 30 s." in caplog.text


def test_a_cluster_that_is_silent_after_an_outage_is_disconnected_half_a_minute_after_it(
    place: Place,
) -> None:
    passes(600)
    found = []
    for _ in range(4):
        found.append(watch_heartbeats())
        passes(10)
    assert found == [0, 0, 0, 1]


def test_a_cluster_that_was_silent_for_thirty_seconds_is_disconnected(place: Place) -> None:
    silent = make_cluster("silent", last_seen_at=timezone.now() - timedelta(seconds=31))
    assert watch_heartbeats() == 1
    assert watch_heartbeats() == 0
    silent.refresh_from_db()
    place.cluster.refresh_from_db()
    assert (silent.connected, place.cluster.connected) == (False, True)


def test_who_has_no_pods_there_goes_back_to_the_queue_and_who_may_have_some_stays(place: Place) -> None:
    first, *_ = devices_of(place.cluster, "n1")
    runs = admit(place.team, place.owner, place.pool, place.cluster, [first])
    cancel(runs)
    promised = admit(place.team, place.owner, place.pool, place.cluster, [first])
    held = admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n2")[:1])
    Cluster.objects.update(last_seen_at=timezone.now() - timedelta(seconds=31))
    assert watch_heartbeats() == 1
    for attempt in (promised, held):
        attempt.workload.refresh_from_db()
    assert (promised.workload.status, held.workload.status) == (Status.PENDING, Status.QUEUED)
    told = " ".join(Event.objects.filter(workload=promised.workload).values_list("message", flat=True))
    assert "went silent before a pod existed" in told
    assert set(Placement.objects.filter(attempt=promised).values_list("hold", flat=True)) == {Hold.RELEASED}
    first.refresh_from_db()
    assert (first.occupied_milli, first.allocated_milli) == (1000, 0)


def test_its_next_heartbeat_connects_it_again_and_rings(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = Hand(place.cluster)
    Cluster.objects.update(connected=False, last_seen_at=timezone.now() - timedelta(seconds=40))
    rings: list[bool] = []
    monkeypatch.setattr("chamber.live.ring", lambda: rings.append(True))
    hand.say(hand.heartbeat())
    assert Cluster.objects.get().connected
    assert rings == [True]
