"""Deleting a cluster: only where nothing hangs on it, by an operator, confirmed by its name."""

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from agentlink import assignments
from agentlink.models import AgentToken, Cluster, Node
from agentlink.removal import delete_cluster
from agentlink.spaces import bind_namespace
from agentlink.tests.agents import admit, cancel, devices_of, make_token
from agentlink.tests.conftest import Place
from chamber.errors import Conflict, NotAllowed
from teams.actors import Actor
from teams.models import AuditEvent, Role, Team
from teams.tests.factories import actor, member

pytestmark = pytest.mark.django_db
ADMIN = Actor.system("test")


@pytest.fixture
def away(place: Place) -> Cluster:
    """A cluster whose agent is gone; it has nodes, a token, and no history."""
    make_token(place.cluster)
    Cluster.objects.filter(pk=place.cluster.pk).update(connected=False)
    return Cluster.objects.get(pk=place.cluster.pk)


def refusal(cluster: Cluster) -> str:
    with pytest.raises(Conflict) as refused:
        delete_cluster(by=ADMIN, cluster=cluster)
    assert Cluster.objects.filter(pk=cluster.pk).exists()
    return refused.value.message


def test_it_goes_with_its_nodes_and_tokens_and_the_trail_says_so(away: Cluster) -> None:
    delete_cluster(by=ADMIN, cluster=away)
    assert not Cluster.objects.exists()
    assert not Node.objects.exists()
    assert not AgentToken.objects.exists()
    event = AuditEvent.objects.get(action="cluster.deleted")
    assert (event.target_name, event.before["nodes"]) == ("east", 2)


def test_not_while_its_agent_is_connected(place: Place) -> None:
    assert "The agent of east is connected." in refusal(place.cluster)


def test_not_while_a_namespace_is_bound(place: Place, away: Cluster) -> None:
    bind_namespace(by=ADMIN, cluster=away, team=place.team, namespace="nlp-jobs")
    assert refusal(away) == "1 namespace of east is bound to teams. Unbind it first."


def test_all_that_is_in_the_way_is_told_at_once(place: Place) -> None:
    bind_namespace(by=ADMIN, cluster=place.cluster, team=place.team, namespace="nlp-jobs")
    admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:1])
    told = refusal(place.cluster)
    for part in (
        "agent of east is connected",
        "1 namespace of east is bound",
        "1 attempt may still have pods",
    ):
        assert part in told


def test_not_while_pods_may_be_there_nor_while_the_history_has_what_ran_there(
    place: Place, away: Cluster
) -> None:
    attempt = admit(place.team, place.owner, place.pool, away, devices_of(away, "n1")[:1])
    assert refusal(away).startswith("1 attempt may still have pods in east")
    cancel(attempt)
    with transaction.atomic():
        assignments.release([attempt.pk], at=timezone.now(), by=ADMIN)
    assert refusal(away).startswith("The history has 1 attempt that ran in east")


def test_only_an_operator_deletes_it(place: Place, away: Cluster) -> None:
    with pytest.raises(NotAllowed):
        delete_cluster(by=actor(place.owner), cluster=away)


def test_on_the_page_its_name_is_typed(place: Place, away: Cluster, client: Client) -> None:
    root = Team.objects.get(depth=0)
    client.force_login(member(root, Role.OPERATOR, "otto"))
    assert "Type <span" in client.get("/clusters/east/").content.decode()
    answer = client.post("/clusters/east/delete/", {"confirm": "west"}, follow=True)
    assert "Nothing was deleted: type east to confirm it" in answer.content.decode()
    assert Cluster.objects.exists()
    assert not AuditEvent.objects.filter(action="cluster.deleted").exists()
    answer = client.post("/clusters/east/delete/", {"confirm": "east"}, follow=True)
    assert "The cluster east is deleted." in answer.content.decode()
    assert not Cluster.objects.exists()


def test_who_may_not_sees_no_form(place: Place, client: Client) -> None:
    client.force_login(place.owner)
    assert "Delete this cluster" not in client.get("/clusters/east/").content.decode()
