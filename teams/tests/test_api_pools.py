"""Pools over the API."""

import pytest

from teams.models import Pool, Role
from teams.tests.conftest import Acme, Api
from teams.tests.factories import bind

POOLS = "/api/v1/pools/"
MAIN = f"{POOLS}main/"
MATCH = {"If-Match": '"1"'}


def test_members_of_the_organisation_see_all_pools(acme: Acme, api: Api) -> None:
    [pool] = api(acme.researcher).get(POOLS).json()["results"]
    assert (pool["slug"], pool["capacity"], pool["guaranteed"]) == ("main", 0, 80)
    assert pool["policy"]["queueing"] == "backfill"
    assert api(acme.stranger).get(POOLS).json()["results"] == []
    assert api(acme.stranger).get(MAIN).status_code == 404


def test_an_operator_makes_and_changes_pools(acme: Acme, api: Api) -> None:
    bind(acme.stranger, acme.root, Role.OPERATOR)
    client = api(acme.stranger)
    body = {
        "name": "A100",
        "slug": "a100",
        "node_selector": {"gpu": "a100"},
        "policy": {"placement": "spread"},
    }
    made = client.post(POOLS, body, format="json")
    assert (made.status_code, made["ETag"]) == (201, '"1"')
    url, change = f"{POOLS}a100/", {"policy": {"queueing": "strict-fifo"}}
    changed = client.patch(url, change, format="json", headers=MATCH).json()
    assert (changed["policy"]["queueing"], changed["policy"]["placement"]) == ("strict-fifo", "spread")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"policy": {"queueing": "lifo"}}, "policy.queueing"),
        ({"policy": {"colour": "red"}}, "policy.colour"),
        ({"policy": {"max_preemptions": -1}}, "policy.max_preemptions"),
        ({"order": -1}, "order"),
        ({"node_selector": {"gpu": ["a"]}}, "node_selector.gpu"),
        ({"selector": {}}, "selector"),
    ],
)
def test_what_cannot_be_is_a_problem_beside_its_field(
    acme: Acme, api: Api, body: dict[str, object], field: str
) -> None:
    response = api(acme.org_admin).patch(MAIN, body, format="json", headers=MATCH)
    assert response.status_code == 422
    assert list(response.json()["errors"]) == [field]
    assert Pool.objects.get().version == 1


@pytest.mark.parametrize(
    ("who", "headers", "status"),
    [("org_admin", {}, 428), ("org_admin", {"If-Match": '"2"'}, 412), ("admin", MATCH, 403)],
)
def test_otherwise_it_stays(acme: Acme, api: Api, who: str, headers: dict[str, str], status: int) -> None:
    response = api(getattr(acme, who)).patch(MAIN, {"paused": True}, format="json", headers=headers)
    assert response.status_code == status
    assert not Pool.objects.get().paused
