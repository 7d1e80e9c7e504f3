"""Clusters, nodes and tokens over the API."""

import pytest
from rest_framework.test import APIClient

from agentlink.models import AgentToken
from agentlink.tests.factories import make_cluster, make_node
from teams.models import Role, Team
from teams.tests.factories import make_org, make_pool, make_user, member

pytestmark = pytest.mark.django_db


@pytest.fixture
def org() -> Team:
    return make_org()


def signed_in(team: Team, role: Role) -> APIClient:
    client = APIClient()
    client.force_authenticate(member(team, role))
    return client


def test_nodes_come_with_their_devices_in_gpus(org: Team) -> None:
    make_node(make_cluster("east"), "n0", gpus=2, pool=make_pool("Main"))
    make_node(make_cluster("west"), "n0", gpus=1)
    api = signed_in(org, Role.VIEWER)
    [node] = api.get("/api/v1/nodes/?pool=main").json()["results"]
    assert (node["cluster"], node["pool"], len(node["devices"])) == ("east", "main", 2)
    assert node["devices"][0] == {
        "index": 0,
        "gpu_type": "H100",
        "memory_mib": 81920,
        "foreign": False,
        "slicing": "whole",
        "share": 1,
        "occupied": 0,
        "allocated": 0,
    }
    assert len(api.get("/api/v1/nodes/").json()["results"]) == 2


def test_slices_are_told_apart_from_gpus(org: Team) -> None:
    cluster = make_cluster("east", unclear_slices=2)
    make_node(cluster, "n0", gpus=2)
    make_node(cluster, "n1", gpus=7, gpu_type="mig-1g.10gb").devices.update(slicing="mig", share_milli=143)
    api = signed_in(org, Role.VIEWER)
    [told] = api.get("/api/v1/clusters/").json()["results"]
    assert {key: told[key] for key in ("nodes", "gpus", "slices", "slice_gpus", "unclear_slices")} == {
        "nodes": 2,
        "gpus": 2,
        "slices": 7,
        "slice_gpus": 1.001,
        "unclear_slices": 2,
    }
    node = next(node for node in api.get("/api/v1/nodes/").json()["results"] if node["name"] == "n1")
    assert (node["devices"][0]["slicing"], node["devices"][0]["share"]) == ("mig", 0.143)


def test_connecting_answers_with_the_token_once(org: Team) -> None:
    api = signed_in(org, Role.OPERATOR)
    made = api.post("/api/v1/clusters/", {"name": "west"}, format="json")
    assert made.status_code == 201
    secret = made.json()["token"]
    assert AgentToken.objects.get().token_hash == AgentToken.hash_of(secret)
    assert secret not in api.get("/api/v1/clusters/west/tokens/").content.decode()


@pytest.mark.parametrize(
    ("body", "field"),
    [({"name": "A B"}, "name"), ({"name": "a", "backend": "magic"}, "backend"), ({"name": "a", "x": 1}, "x")],
)
def test_a_wrong_body_is_a_problem_that_names_the_field(
    org: Team, body: dict[str, object], field: str
) -> None:
    answer = signed_in(org, Role.OPERATOR).post("/api/v1/clusters/", body, format="json")
    assert answer.status_code == 422
    assert field in answer.json()["errors"]
    if field == "backend":
        sentence = "'magic' is not allowed for backend; allowed are 'native' or 'simulated'."
        assert answer.json()["errors"]["backend"] == sentence


def test_tokens_are_for_operators(org: Team) -> None:
    cluster = make_cluster("east")
    token = AgentToken.objects.create(cluster=cluster, token_hash="x", prefix="cha_x")
    viewer = signed_in(org, Role.VIEWER)
    assert viewer.get("/api/v1/clusters/east/tokens/").status_code == 403
    assert viewer.delete(f"/api/v1/clusters/east/tokens/{token.pk}/").status_code == 403
    operator = signed_in(org, Role.OPERATOR)
    assert operator.delete(f"/api/v1/clusters/east/tokens/{token.pk}/").status_code == 204
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_outsiders_see_nothing(org: Team) -> None:
    make_node(make_cluster("east"), "n0")
    api = APIClient()
    api.force_authenticate(make_user("outsider"))
    assert api.get("/api/v1/clusters/").json()["results"] == []
    assert api.get("/api/v1/nodes/").json()["results"] == []
    assert api.get("/api/v1/clusters/east/").status_code == 404
    assert api.post("/api/v1/clusters/", {"name": "a"}, format="json").status_code == 404
