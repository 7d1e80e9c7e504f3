"""Nodes that are gone are forgotten in the end, but for those that the history names and those that came back."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from agentlink import assignments, gone
from agentlink.models import Device, Node
from agentlink.tasks import forget_nodes
from agentlink.tests.agents import admit, cancel, devices_of
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster, make_node

pytestmark = pytest.mark.django_db


def vanished(place: Place, name: str, *, days_ago: int) -> None:
    """Have a node vanish so long ago."""
    at = timezone.now() - timedelta(days=days_ago)
    Node.objects.filter(cluster=place.cluster, name=name).update(gone_at=at)


def left() -> set[str]:
    return set(Node.objects.values_list("name", flat=True))


def test_a_node_that_is_gone_for_a_week_goes_with_its_devices(place: Place) -> None:
    make_node(place.cluster, "n3")
    vanished(place, "n1", days_ago=8)
    vanished(place, "n2", days_ago=6)
    assert forget_nodes() == 1
    assert left() == {"n2", "n3"}
    assert not Device.objects.filter(node__name="n1").exists()


def test_one_that_the_history_names_stays_until_that_goes(place: Place) -> None:
    attempt = admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:1])
    cancel(attempt)
    with transaction.atomic():
        assignments.release([attempt.pk], at=timezone.now(), by=assignments.LINK)
    vanished(place, "n1", days_ago=30)
    assert forget_nodes() == 0
    attempt.delete()
    assert forget_nodes() == 1


def test_all_clusters_are_looked_at_in_batches(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    other = make_cluster("west")
    make_node(other, "w1")
    Node.objects.update(gone_at=timezone.now() - timedelta(days=8))
    monkeypatch.setattr(gone, "BATCH", 1)
    assert forget_nodes() == 3
    assert left() == set()
