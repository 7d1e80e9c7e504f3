"""Shares over the API."""

import pytest

from teams.models import Share
from teams.tests.conftest import Acme, Api

URL = "/api/v1/teams/nlp/shares/main/"


def test_a_share_with_what_follows_from_it(acme: Acme, api: Api) -> None:
    response = api(acme.researcher).get(URL)
    assert response["ETag"] == '"1"'
    assert (response.json()["reservation"], response.json()["guarantee"]) == (20, 20)
    assert "80 GPUs of Main are guaranteed" in response.json()["warning"]


def test_all_shares_of_a_team(acme: Acme, api: Api) -> None:
    body = api(acme.researcher).get("/api/v1/teams/nlp/shares/").json()
    assert [share["pool"] for share in body["results"]] == ["main"]


def test_changes_with_the_etag_that_was_read(acme: Acme, api: Api) -> None:
    response = api(acme.lead).patch(URL, {"reservation": 12.5}, format="json", headers={"If-Match": '"1"'})
    assert (response.status_code, response["ETag"], response.json()["reservation"]) == (200, '"2"', 12.5)


def test_the_first_share_is_made_on_version_0(acme: Acme, api: Api) -> None:
    url = "/api/v1/teams/acme/shares/main/"
    client = api(acme.org_admin)
    assert client.get(url)["ETag"] == '"0"'
    response = client.patch(url, {"maximum": 90}, format="json", headers={"If-Match": '"0"'})
    assert (response.json()["maximum"], response["ETag"]) == (90, '"1"')


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"reservation": 40}, "2 GPUs too many"),
        ({"reservation": -1}, "not -1 GPU"),
        ({"maximum": 5}, "of 5 GPUs"),
    ],
)
def test_what_does_not_fit_is_a_problem_with_the_numbers(
    acme: Acme, api: Api, body: dict[str, object], told: str
) -> None:
    response = api(acme.admin).patch(URL, body, format="json", headers={"If-Match": '"1"'})
    assert response.status_code == 422
    [sentence] = response.json()["errors"].values()
    assert told in sentence
    assert Share.objects.get(team=acme.nlp).version == 1


@pytest.mark.parametrize(
    ("who", "headers", "status"),
    [
        ("lead", {}, 428),
        ("lead", {"If-Match": '"7"'}, 412),
        ("researcher", {"If-Match": '"1"'}, 403),
        ("outsider", {"If-Match": '"1"'}, 404),
    ],
)
def test_otherwise_it_stays(acme: Acme, api: Api, who: str, headers: dict[str, str], status: int) -> None:
    response = api(getattr(acme, who)).patch(URL, {"reservation": 1}, format="json", headers=headers)
    assert response.status_code == status
    assert Share.objects.get(team=acme.nlp).reservation_milli == 20_000


def test_an_unknown_pool_is_not_found(acme: Acme, api: Api) -> None:
    assert api(acme.lead).get("/api/v1/teams/nlp/shares/other/").status_code == 404
