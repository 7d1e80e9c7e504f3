"""Clusters that fall silent."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agentlink.models import Cluster
from agentlink.tasks import watch_heartbeats
from agentlink.tests.agents import Hand
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster

pytestmark = pytest.mark.django_db


def test_a_cluster_that_was_silent_for_thirty_seconds_is_disconnected(place: Place) -> None:
    silent = make_cluster("silent", last_seen_at=timezone.now() - timedelta(seconds=31))
    assert watch_heartbeats() == 1
    assert watch_heartbeats() == 0
    silent.refresh_from_db()
    place.cluster.refresh_from_db()
    assert (silent.connected, place.cluster.connected) == (False, True)


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
