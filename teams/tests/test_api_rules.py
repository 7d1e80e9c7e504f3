"""Rules over the API."""

import pytest

from teams.models import TeamPolicy
from teams.tests.conftest import Acme, Api
from teams.tests.factories import set_rules

URL = "/api/v1/teams/nlp/rules/"


def test_own_and_effective_rules(acme: Acme, api: Api) -> None:
    set_rules(acme.research, largest_workload_milli=8000)
    response = api(acme.researcher).get(URL)
    assert response["ETag"] == '"0"'
    assert response.json()["own"]["largest_workload"] is None
    assert response.json()["effective"]["largest_workload"] == 8
    assert response.json()["effective"]["researcher_priority"] == {"elastic_max": 75, "reserved_max": 100}


def test_replaces_the_own_rules(acme: Acme, api: Api) -> None:
    body = {"researcher_priority": {"elastic_max": 50, "reserved_max": None}, "largest_workload": 0.5}
    response = api(acme.admin).put(URL, body, format="json", headers={"If-Match": '"0"'})
    assert (response.status_code, response["ETag"]) == (200, '"1"')
    assert response.json()["effective"]["largest_workload"] == 0.5


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (
            {"researcher_priority": {"elastic_max": 100, "reserved_max": None}},
            "researcher_priority.elastic_max",
        ),
        ({"researcher_priority": {"elastic_max": 90, "reserved_max": None}}, "researcher_priority"),
        ({"largest": 4}, "largest"),
        ({"longest_time_limit_seconds": 0}, "longest_time_limit_seconds"),
    ],
)
def test_what_cannot_be_is_a_problem_beside_its_field(
    acme: Acme, api: Api, body: dict[str, object], field: str
) -> None:
    response = api(acme.admin).put(URL, body, format="json", headers={"If-Match": '"0"'})
    assert response.status_code == 422
    assert list(response.json()["errors"]) == [field]
    assert not TeamPolicy.objects.exists()


@pytest.mark.parametrize(
    ("who", "headers", "status"),
    [
        ("admin", {}, 428),
        ("admin", {"If-Match": '"3"'}, 412),
        ("lead", {"If-Match": '"0"'}, 403),
        ("outsider", {"If-Match": '"0"'}, 404),
    ],
)
def test_otherwise_they_stay(acme: Acme, api: Api, who: str, headers: dict[str, str], status: int) -> None:
    response = api(getattr(acme, who)).put(URL, {}, format="json", headers=headers)
    assert response.status_code == status
