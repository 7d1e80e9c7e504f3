"""The long poll: lists of messages in and out, and what is refused."""

import json
import uuid
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from agentlink import protocol
from agentlink.logs.sources import Source
from agentlink.logs.texts import LogNote
from agentlink.logs.viewing import look
from agentlink.models import AgentToken, Cluster
from agentlink.protocol import Heartbeat, Hello
from agentlink.tests.agents import Hand, admit, as_dict, devices_of, make_token
from agentlink.tests.conftest import Place
from workloads.models import Workload

pytestmark = pytest.mark.django_db(transaction=True)

URL = "/agent/v1/sync?wait=0"


def post(secret: str, body: Any, url: str = URL) -> Any:
    return Client(enforce_csrf_checks=True).post(
        url, body if isinstance(body, bytes) else json.dumps(body), content_type="application/json",
        headers={"Authorization": f"Bearer {secret}"},
    )  # fmt: skip


def hello(connection: uuid.UUID) -> dict[str, Any]:
    return as_dict(Hello(connection=connection, agent_version="1", cluster_uid="u", nodes=0, gpus=0))


def test_a_list_is_answered_by_a_list(place: Place) -> None:
    secret, connection = make_token(place.cluster), uuid.uuid4()
    response = post(secret, [hello(connection)])
    assert [message["type"] for message in response.json()] == ["desired"]
    beat = as_dict(Heartbeat(connection=connection, generation=response.json()[-1]["generation"]))
    assert post(secret, [beat]).json() == []
    assert [message["code"] for message in post(secret, [beat, {"type": "log"}]).json()] == ["invalid"]


def test_whoever_has_no_valid_token_is_answered_401(place: Place) -> None:
    response = post("cha_unknown", [])
    assert response.status_code == 401
    assert response.json()[0]["code"] == "not-authorised"
    secret = make_token(place.cluster)
    AgentToken.objects.update(revoked_at="2026-01-01T00:00:00Z")
    assert post(secret, []).status_code == 401


@pytest.mark.parametrize("uid", ["there", "a%00b", "x" * 5000, "%ed%a0%80"])
def test_whoever_asks_for_another_cluster_is_told_whose_the_token_is(place: Place, uid: str) -> None:
    Cluster.objects.update(uid="here", connected=True)
    response = post(make_token(place.cluster), [], f"{URL}&cluster={uid}")
    assert response.status_code == 401
    assert "which is here" in response.json()[0]["message"]


def test_an_older_conversation_is_answered_409(place: Place) -> None:
    secret, old = make_token(place.cluster), uuid.uuid4()
    post(secret, [hello(old)])
    post(secret, [hello(uuid.uuid4())])
    response = post(secret, [as_dict(Heartbeat(connection=old, generation=1))])
    assert response.status_code == 409
    assert response.json()[0]["code"] == "superseded"


def test_a_body_over_the_bound_of_requests_is_answered_and_counted(place: Place) -> None:
    response = post(make_token(place.cluster), b"[" + b" " * 3 * protocol.MAX_BYTES + b"]")
    assert (response.status_code, response.json()[0]["code"]) == (422, "too-large")
    assert Cluster.objects.get().rejected_messages == 1


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"{}", b"3", b"[" * 5000, [{}] * 1001], ids=lambda b: str(b)[:9]
)
def test_a_body_that_is_no_list_is_answered_422(place: Place, body: Any) -> None:
    response = post(make_token(place.cluster), body)
    assert response.status_code == 422
    assert response.json()[0]["code"] == "invalid"


def test_a_message_over_the_bound_is_refused_by_itself(place: Place) -> None:
    secret = make_token(place.cluster)
    response = post(secret, [hello(uuid.uuid4()), {"type": "usage", "x": "y" * protocol.MAX_BYTES}])
    assert [message["type"] for message in response.json()] == ["desired", "error"]
    assert response.json()[1]["code"] == "too-large"


def test_a_cluster_whose_agent_polls_says_so_and_why_it_has_no_logs(place: Place, client: Client) -> None:
    post(make_token(place.cluster), [hello(uuid.uuid4())])
    attempt = admit(place.team, place.owner, place.pool, place.cluster, devices_of(place.cluster, "n1")[:1])
    slug = Workload.objects.get(pk=attempt.workload_id).slug
    client.force_login(place.owner)
    assert "long poll, which carries no logs" in client.get("/clusters/east/").content.decode()
    assert "its agent keeps in touch by long poll" in client.get(f"/workloads/{slug}/logs/").content.decode()
    Hand(place.cluster)
    assert Cluster.objects.get().polls is False


@pytest.mark.parametrize("follow", [True, False])
async def test_whoever_asks_for_logs_of_such_a_cluster_is_answered_at_once(follow: bool) -> None:
    polling = Source(UUID(int=1), UUID(int=2), 1, 0, UUID(int=3), "east", polls=True)
    told = [each async for each in look(polling, follow=follow)]
    assert [(each.code, each.ends) for each in told if isinstance(each, LogNote)] == [("not-carried", True)]
    assert len(told) == 1
