"""Teams over the API: the tree, one team, making, changing, moving and archiving it."""

import pytest
from rest_framework.test import APIClient

from teams.models import Role, Share, Team
from teams.tests.conftest import Acme, Api
from teams.tests.factories import bind, make_user
from teams.tests.test_tree import make_large_tree

TEAMS = "/api/v1/teams/"
NLP = f"{TEAMS}nlp/"


def test_the_tree_is_one_page_parents_first(acme: Acme, api: Api) -> None:
    body = api(acme.org_admin).get(TEAMS).json()
    assert (body["next"], body["previous"]) == (None, None)
    assert [(team["slug"], team["parent"]) for team in body["results"]] == [
        ("acme", None),
        ("production", "acme"),
        ("research", "acme"),
        ("nlp", "research"),
        ("vision", "research"),
    ]


def test_gpus_are_numbers_in_gpus(acme: Acme, api: Api) -> None:
    Share.objects.filter(team=acme.nlp).update(reservation_milli=250, maximum_milli=4000)
    [pool] = api(acme.lead).get(NLP).json()["pools"]
    assert pool == {
        "pool": "main",
        "reservation": 0.25,
        "maximum": 4,
        "guarantee": 0.25,
        "own_part": 0.25,
        "ceiling": 4,
        "version": 1,
    }


def test_only_what_is_visible_is_listed_and_a_hidden_parent_is_not_named(acme: Acme, api: Api) -> None:
    body = api(acme.lead).get(TEAMS).json()
    assert [(team["slug"], team["parent"]) for team in body["results"]] == [
        ("research", None),
        ("nlp", "research"),
        ("vision", "research"),
    ]


@pytest.mark.django_db
def test_two_thousand_teams_take_as_many_queries_as_two(
    api: Api, django_assert_num_queries: pytest.FixtureRequest
) -> None:
    root, user = make_large_tree(2000), make_user()
    bind(user, root, Role.VIEWER)
    client = api(user)
    with django_assert_num_queries(5):  # type: ignore[operator]
        assert len(client.get(TEAMS).json()["results"]) == 2000


def test_makes_a_team(acme: Acme, api: Api) -> None:
    body = {"parent": "nlp", "name": "Speech", "bursting_priority": 3, "maximum": 2.5}
    response = api(acme.admin).post(TEAMS, body, format="json")
    assert response.status_code == 201
    assert response["ETag"] == '"1"'
    team = Team.objects.get(slug="speech")
    assert (team.parent, team.maximum_milli) == (acme.nlp, 2500)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"parent": "nlp"}, "name"),
        ({"parent": "nlp", "name": "X", "bursting_priorty": 3}, "bursting_priorty"),
        ({"parent": "nlp", "name": "X", "bursting_priority": 11}, "bursting_priority"),
        ({"parent": "nlp", "name": "X", "maximum": "4"}, "maximum"),
        ({"parent": "nlp", "name": "X", "maximum": 0.0001}, "maximum"),
        ({"parent": "nlp", "name": "X", "maximum": True}, "maximum"),
        ({"parent": "nlp", "name": "X", "slug": "nlp"}, "slug"),
    ],
)
def test_what_cannot_be_is_a_problem_beside_its_field(
    acme: Acme, api: Api, body: dict[str, object], field: str
) -> None:
    response = api(acme.admin).post(TEAMS, body, format="json")
    assert response.status_code == 422
    assert response["Content-Type"] == "application/problem+json"
    assert list(response.json()["errors"]) == [field]


def test_changes_with_the_etag_that_was_read(acme: Acme, api: Api) -> None:
    client = api(acme.admin)
    tag = client.get(NLP)["ETag"]
    body = {"bursting_priority": 5, "burst_limit_percent": 0, "maximum": None}
    response = client.patch(NLP, body, format="json", headers={"If-Match": tag})
    assert response.status_code == 200
    assert response["ETag"] == '"2"'
    assert response.json()["burst_limit_percent"] == 0


@pytest.mark.parametrize(("headers", "status"), [({}, 428), ({"If-Match": '"9"'}, 412)])
def test_without_the_current_etag_nothing_changes(
    acme: Acme, api: Api, headers: dict[str, str], status: int
) -> None:
    for response in (
        api(acme.admin).patch(NLP, {"bursting_priority": 5}, format="json", headers=headers),
        api(acme.admin).post(f"{NLP}move/", {"parent": "vision"}, format="json", headers=headers),
    ):
        assert response.status_code == status
    acme.nlp.refresh_from_db()
    assert acme.nlp.version == 1


def test_moves(acme: Acme, api: Api) -> None:
    response = api(acme.admin).post(
        f"{NLP}move/", {"parent": "vision"}, format="json", headers={"If-Match": '"1"'}
    )
    assert response.status_code == 422
    assert "Vision has a reservation of 10 GPUs" in response.json()["detail"]
    response = api(acme.org_admin).post(
        f"{NLP}move/", {"parent": "acme"}, format="json", headers={"If-Match": '"1"'}
    )
    assert (response.json()["parent"], response.json()["depth"]) == ("acme", 1)


def test_archives_and_restores(acme: Acme, api: Api) -> None:
    client = api(acme.admin)
    assert client.post(f"{NLP}archive/").json()["archived_at"]
    assert "nlp" not in [team["slug"] for team in client.get(TEAMS).json()["results"]]
    assert "nlp" in [team["slug"] for team in client.get(f"{TEAMS}?archived=true").json()["results"]]
    assert client.post(f"{NLP}unarchive/").json()["archived_at"] is None


@pytest.mark.parametrize(
    ("who", "status"), [("viewer", 403), ("researcher", 403), ("outsider", 404), ("stranger", 404)]
)
def test_others_change_nothing(acme: Acme, api: Api, who: str, status: int) -> None:
    client, match = api(getattr(acme, who)), {"If-Match": '"1"'}
    answers = [
        client.patch(NLP, {"bursting_priority": 5}, format="json", headers=match),
        client.post(f"{NLP}move/", {"parent": "nlp"}, format="json", headers=match),
        client.post(f"{NLP}archive/"),
        client.post(TEAMS, {"parent": "nlp", "name": "X"}, format="json"),
    ]
    assert [answer.status_code for answer in answers] == [status] * 4
    acme.nlp.refresh_from_db()
    assert acme.nlp.version == 1


def test_nobody_is_not_let_in(acme: Acme) -> None:
    assert APIClient().get(TEAMS).status_code == 401
