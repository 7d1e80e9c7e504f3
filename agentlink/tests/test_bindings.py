"""Which pools a cluster serves is an operator's word: no label of its nodes, and no agent, gets it another one."""

from datetime import timedelta
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.apps import apps
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from agentlink import actions, inventory, protocol, removal
from agentlink.agent.runner import _Conversation
from agentlink.models import BackendKind, Cluster, Node
from agentlink.protocol import Ack, ErrorCode
from agentlink.session import Answer
from agentlink.tests.agents import Hand, nodes
from agentlink.tests.conftest import Place
from agentlink.tests.factories import make_cluster, make_node
from chamber.errors import NotAllowed
from teams.actions import PoolChanges, create_pool
from teams.models import AuditEvent, Pool, Role
from teams.tests.factories import actor, make_org, make_pool, member

pytestmark = pytest.mark.django_db

CLAIM = "By their labels 1 node of lab would be in the pool Secret, which lab is not bound to"


def claiming(*slugs: str, name: str = "n") -> list[protocol.NodeReport]:
    """Return a node that says it is of these pools, and of another cluster."""
    return nodes(1, name=name, labels=dict.fromkeys(slugs, "yes") | {"chamber.internal/cluster": "east"})


def served() -> dict[str, str | None]:
    return dict(Node.objects.values_list("name", "pool__slug"))


def test_labels_get_a_cluster_no_pool_that_it_is_not_bound_to() -> None:
    make_pool("Secret", order=0, node_selector={"secret": "yes"}, clusters=["east"])
    make_pool("Named", order=1, node_selector={"chamber.internal/cluster": "east"}, clusters=["east"])
    make_pool("Open", order=2, node_selector={"open": "yes"}, clusters=["lab"])
    make_pool("Everything", order=3, clusters=["east"])
    hand = Hand(make_cluster("lab"))
    found = [
        *claiming("secret", name="a"),
        *claiming("secret", "open", name="b"),
        *claiming("open", name="c"),
    ]
    hand.inventory(found)
    assert served() == {"a1": None, "b1": "open", "c1": "open"}
    claimed = dict(Node.objects.values_list("name", "refused_pool__slug"))
    assert claimed == {"a1": "secret", "b1": "secret", "c1": None}


def test_a_binding_that_is_given_or_taken_moves_the_nodes_that_are_there() -> None:
    pool = make_pool("Secret", node_selector={"secret": "yes"}, clusters=[])
    lab = make_cluster("lab")
    hand = Hand(lab)
    hand.inventory(claiming("secret"))
    by = actor(member(make_org(), Role.OPERATOR))
    actions.bind_pool(by=by, cluster=lab, pool=pool)
    inventory.reassign_pools()
    nodes_of: Any = Node.objects.values_list("pool__slug", "refused_pool__slug")
    assert list(nodes_of) == [("secret", None)]
    actions.unbind_pool(by=by, cluster=lab, pool=pool)
    inventory.reassign_pools()
    assert list(nodes_of.all()) == [(None, "secret")]
    told = AuditEvent.objects.filter(action="pool.edited").order_by("at").values_list("before", "after")
    assert [(before["clusters"], after["clusters"]) for before, after in told] == [
        ([], ["lab"]),
        (["lab"], []),
    ]


def test_a_claim_is_told_on_the_pages_by_the_api_and_to_the_agent(client: Client) -> None:
    make_pool("Secret", node_selector={"secret": "yes"}, clusters=["east"])
    lab = make_cluster("lab")
    hand = Hand(lab)
    parts = protocol.inventory_in_parts(claiming("secret"), generation=1)
    acks = [message for part in parts for message in hand.say(part).messages]
    assert any(isinstance(message, Ack) and message.unbound.startswith(CLAIM) for message in acks)
    client.force_login(member(make_org(), Role.VIEWER))
    for page in ("/clusters/lab/", "/pools/"):
        text = client.get(page).content.decode()
        assert CLAIM in text
        assert "to no pool" not in text
    (told,) = client.get("/api/v1/clusters/").json()["results"]
    assert (told["pools"], told["warning"].startswith(CLAIM)) == ([], True)


def test_only_operators_bind_by_page_and_api() -> None:
    org, pool, lab = make_org(), make_pool("Secret", clusters=[]), make_cluster("lab")
    for role, code in ((Role.OPERATOR, 204), (Role.ADMIN, 403), (Role.VIEWER, 403)):
        api = APIClient()
        api.force_authenticate(member(org, role))
        for method in (api.put, api.delete):
            assert method("/api/v1/clusters/lab/pools/secret/").status_code == code
    with pytest.raises(NotAllowed):
        actions.bind_pool(by=actor(member(org, Role.LEAD)), cluster=lab, pool=pool)
    page = Client()
    page.force_login(member(org, Role.OPERATOR))
    assert "lab may serve Secret." in page.post("/clusters/lab/pools/secret/", follow=True).content.decode()
    assert Pool.objects.get().clusters == ["lab"]
    assert (
        "no longer serves"
        in page.post("/clusters/lab/pools/secret/", {"unbind": ""}, follow=True).content.decode()
    )
    assert Pool.objects.get().clusters == []


def test_a_first_cluster_serves_what_names_no_other_and_later_ones_what_is_said() -> None:
    by = actor(member(make_org(), Role.OPERATOR))
    main, other = make_pool("Main", clusters=[]), make_pool("Other", clusters=["west"])
    actions.create_cluster(by=by, name="east")
    actions.create_cluster(by=by, name="lab")
    actions.create_cluster(by=by, name="west", backend=BackendKind.SIMULATED, pools=[main])
    main.refresh_from_db()
    other.refresh_from_db()
    assert (main.clusters, other.clusters) == (["east", "west"], [])
    created = AuditEvent.objects.filter(action="cluster.created").order_by("at")
    assert [event.after["pools"] for event in created] == [["main"], [], ["main"]]


def test_a_first_pool_is_served_by_what_there_is_and_later_ones_by_what_they_name() -> None:
    by = actor(member(make_org(), Role.OPERATOR))
    make_cluster("east")
    make_cluster("lab")
    asked: list[PoolChanges] = [{}, {}, {"node_selector": {"chamber.internal/cluster": "lab"}}]
    made = [
        create_pool(by=by, values={"name": "P", "slug": f"p{number}", **values}).clusters
        for number, values in enumerate(asked)
    ]
    assert made == [["east", "lab"], [], ["lab"]]


def test_the_name_of_a_deleted_cluster_binds_no_later_one() -> None:
    by = actor(member(make_org(), Role.OPERATOR))
    pool = make_pool("Main", clusters=["east", "lab"])
    lab = make_cluster("lab", connected=False)
    removal.delete_cluster(by=by, cluster=lab)
    make_cluster("east")
    actions.create_cluster(by=by, name="lab")
    pool.refresh_from_db()
    assert pool.clusters == ["east"]


@pytest.mark.parametrize("wrong", ["East", "a\u202eb", "", "-a", "a" * 61, "a b", "ea\x00st"])
def test_what_is_no_name_of_a_cluster_is_refused_with_the_name(wrong: str) -> None:
    api = APIClient()
    api.force_authenticate(member(make_org(), Role.OPERATOR))
    body = {"name": "Main", "slug": "main", "clusters": [wrong]}
    answer = api.post("/api/v1/pools/", body, format="json")
    assert answer.status_code == 422
    assert next(iter(answer.json()["errors"])) in {"clusters", "clusters[0]"}


# Older hellos


def say_hello(hand: Hand, seconds_ago: float) -> Answer:
    at = timezone.now() - timedelta(seconds=seconds_ago)
    return hand.say(hand.hello().model_copy(update={"at": at}))


def test_a_replayed_older_hello_does_not_win_over_a_live_agent(place: Place) -> None:
    old, live = Hand(place.cluster, hello=False), Hand(place.cluster, hello=False)
    recorded = old.hello().model_copy(update={"at": timezone.now() - timedelta(minutes=5)})
    assert old.say(recorded).closes is None
    assert say_hello(live, 0).closes is None
    for replayed in (recorded, old.hello()):  # of a release that tells no time, too
        again = Hand(place.cluster, hello=False)
        assert again.say(replayed).closes is ErrorCode.SUPERSEDED
    assert Cluster.objects.get().connection == live.connection
    assert live.say(live.heartbeat()).closes is None


def test_of_an_agent_that_is_silent_any_hello_takes_over(place: Place) -> None:
    ahead, other = Hand(place.cluster, hello=False), Hand(place.cluster, hello=False)
    assert say_hello(ahead, -3600).closes is None
    assert say_hello(other, 0).closes is ErrorCode.SUPERSEDED
    Cluster.objects.update(last_seen_at=timezone.now() - timedelta(seconds=31))
    assert say_hello(other, 0).closes is None
    assert Cluster.objects.get().connection == other.connection


def test_an_upgrade_binds_clusters_to_what_they_serve(place: Place) -> None:
    named = make_pool("Named", node_selector={"chamber.internal/cluster": "lab"}, clusters=[])
    empty = make_pool("Empty", node_selector={"never": "yes"}, clusters=[])
    make_node(make_cluster("west"), "gone", pool=place.pool, gone_at=timezone.now())
    Pool.objects.update(clusters=[])
    import_module("agentlink.migrations.0021_clusters_are_bound_to_pools").bind(apps, None)
    clusters = dict(Pool.objects.values_list("pk", "clusters"))
    assert clusters == {place.pool.pk: ["east", "west"], named.pk: ["lab"], empty.pk: []}


def test_an_agent_logs_what_its_labels_claim_once_while_they_claim_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    conversation = cast("_Conversation", SimpleNamespace(_unbound=""))
    for told in (CLAIM, CLAIM, "", CLAIM):
        _Conversation._tell_unbound(conversation, told)
    assert [record.getMessage() for record in caplog.records] == [CLAIM, CLAIM]
