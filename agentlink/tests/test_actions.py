"""Clusters and tokens: who may, what is refused, and what the audit trail keeps."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agentlink import actions
from agentlink.models import AgentToken, Assignment, BackendKind, Cluster
from agentlink.tests.agents import admit, devices_of
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster, make_node
from chamber.errors import Conflict, NotAllowed, NotVisible, Refusal
from teams.actors import Actor
from teams.models import AuditEvent, Role
from teams.tests.factories import actor, make_org, make_user, member
from workloads.models import Workload

pytestmark = pytest.mark.django_db

SETUP = Actor.system("test")


def test_a_new_cluster_has_one_token_whose_secret_is_not_stored() -> None:
    made = actions.create_cluster(by=SETUP, name="east", backend=BackendKind.SIMULATED)
    stored = AgentToken.objects.get(cluster=made.cluster)
    assert stored.token_hash == AgentToken.hash_of(made.secret)
    assert made.secret not in (stored.token_hash, stored.prefix)
    assert AuditEvent.objects.filter(action="cluster.created", target_name="east").count() == 1


def test_a_name_that_is_the_address_of_a_page_is_refused() -> None:
    with pytest.raises(Refusal, match="is the address of a page"):
        actions.create_cluster(by=SETUP, name="connect")
    assert not Cluster.objects.exists()


@pytest.mark.parametrize("name", ["", "East", "a b", "-a", "a-", "ä", "a" * 61, "a/b"])
def test_a_name_that_cannot_stand_in_a_url_is_refused(name: str) -> None:
    with pytest.raises(Refusal, match="is no name for a cluster") as refused:
        actions.create_cluster(by=SETUP, name=name)
    assert "name" in refused.value.fields
    assert not Cluster.objects.exists()


def test_a_name_is_given_once() -> None:
    actions.create_cluster(by=SETUP, name="east")
    with pytest.raises(Conflict, match="a cluster named 'east' already"):
        actions.create_cluster(by=SETUP, name="east")


def test_only_operators_and_organisation_admins_connect_clusters() -> None:
    org = make_org()
    for role in (Role.OPERATOR, Role.ORG_ADMIN):
        actions.create_cluster(by=actor(member(org, role)), name=f"of-{role}")
    for role in (Role.VIEWER, Role.RESEARCHER, Role.LEAD, Role.ADMIN, Role.AUDITOR):
        with pytest.raises(NotAllowed):
            actions.create_cluster(by=actor(member(org, role)), name="no")
    with pytest.raises(NotVisible):
        actions.create_cluster(by=actor(make_user("outsider")), name="no")


def test_a_token_is_rotated_with_two_valid_at_once() -> None:
    first = actions.create_cluster(by=SETUP, name="east")
    second = actions.add_token(by=SETUP, cluster=first.cluster)
    now = timezone.now()
    assert first.token.is_valid(now)
    assert second.token.is_valid(now)
    with pytest.raises(Conflict, match="has 2 valid tokens"):
        actions.add_token(by=SETUP, cluster=first.cluster)
    actions.revoke_token(by=SETUP, token=first.token)
    first.token.refresh_from_db()
    assert not first.token.is_valid(timezone.now())
    actions.add_token(by=SETUP, cluster=first.cluster)


def test_revoking_twice_is_told_once() -> None:
    made = actions.create_cluster(by=SETUP, name="east")
    actions.revoke_token(by=SETUP, token=made.token)
    actions.revoke_token(by=SETUP, token=made.token)
    assert AuditEvent.objects.filter(action="cluster.token-revoked").count() == 1


def test_a_cluster_that_was_heard_lately_cannot_be_declared_lost() -> None:
    cluster = actions.create_cluster(by=SETUP, name="east").cluster
    silent_for(cluster, seconds=599)
    with pytest.raises(Conflict, match="may be declared lost after 600 s"):
        actions.declare_lost(by=SETUP, cluster=cluster)
    silent_for(cluster, seconds=601)
    assert actions.declare_lost(by=SETUP, cluster=cluster) == 0


def test_a_connected_cluster_cannot_be_declared_lost_however_late_its_clock() -> None:
    cluster = actions.create_cluster(by=SETUP, name="east").cluster
    silent_for(cluster, seconds=5000)
    Cluster.objects.update(connected=True)
    said = "last heard 500. s ago and still counts as connected, as it does for 30 s after an outage of this server"
    with pytest.raises(Conflict, match=said):
        actions.declare_lost(by=SETUP, cluster=cluster)


def test_nobody_waits_for_pods_in_a_cluster_that_was_declared_lost(place: Place) -> None:
    lost, west = place.cluster, make_cluster("west")
    make_node(west, "w1", pool=place.pool)
    old = admit(place.team, place.owner, place.pool, lost, devices_of(lost, "n1")[:1])
    silent_for(lost, seconds=601)
    Cluster.objects.filter(pk=lost.pk).update(connected=False)
    assert actions.declare_lost(by=SETUP, cluster=lost) == 1
    again = Workload.objects.get(pk=old.workload_id)
    new = admit(place.team, place.owner, place.pool, west, devices_of(west, "w1")[:1], workload=again)
    assert Assignment.objects.get(attempt=new).let_go


def silent_for(cluster: Cluster, *, seconds: int) -> None:
    Cluster.objects.filter(pk=cluster.pk).update(last_seen_at=timezone.now() - timedelta(seconds=seconds))
