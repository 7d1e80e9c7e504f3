"""Members over the API."""

import pytest

from teams.models import Binding, Role
from teams.tests.conftest import Acme, Api

URL = "/api/v1/teams/nlp/members/"


def test_own_members_first_then_those_above(acme: Acme, api: Api) -> None:
    results = api(acme.viewer).get(URL).json()["results"]
    assert [(row["username"], row["role"], row["inherited"]) for row in results] == [
        ("lea", "researcher", False),
        ("rita", "researcher", False),
        ("adam", "admin", True),
        ("lea", "lead", True),
        ("vera", "viewer", True),
    ]


def test_who_sees_only_the_team_sees_only_its_own(acme: Acme, api: Api) -> None:
    results = api(acme.researcher).get(URL).json()["results"]
    assert {row["username"] for row in results} == {"lea", "rita"}


def test_give_change_and_take(acme: Acme, api: Api) -> None:
    client = api(acme.lead)
    made = client.post(URL, {"who": "sven@example.org", "role": "viewer"}, format="json")
    assert (made.status_code, made.json()["username"]) == (201, "sven")
    url = f"{URL}{made.json()['id']}/"
    assert client.patch(url, {"role": "lead"}, format="json").json()["role"] == "lead"
    assert client.delete(url).status_code == 204
    assert client.delete(url).status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"who": "nobody", "role": "viewer"}, 422, "who"),
        ({"who": "sven", "role": "king"}, 422, "role"),
        ({"who": "sven", "role": "operator"}, 422, "role"),
        ({"who": "sven", "role": "viewer", "team": "acme"}, 422, "team"),
        ({"who": "rita", "role": "researcher"}, 409, None),
        ({"who": "sven", "role": "admin"}, 403, None),
    ],
)
def test_what_cannot_be_is_a_problem(
    acme: Acme, api: Api, body: dict[str, str], status: int, field: str | None
) -> None:
    response = api(acme.lead).post(URL, body, format="json")
    assert response.status_code == status
    assert list(response.json().get("errors", {})) == ([field] if field else [])


@pytest.mark.parametrize(("who", "status"), [("viewer", 403), ("researcher", 403), ("outsider", 404)])
def test_others_change_none(acme: Acme, api: Api, who: str, status: int) -> None:
    client, binding = api(getattr(acme, who)), Binding.objects.get(user=acme.researcher)
    url = f"{URL}{binding.pk}/"
    assert client.post(URL, {"who": "sven", "role": "viewer"}, format="json").status_code == status
    assert client.patch(url, {"role": "viewer"}, format="json").status_code == status
    assert client.delete(url).status_code == status


def test_the_last_org_admin_stays(acme: Acme, api: Api) -> None:
    binding = Binding.objects.get(role=Role.ORG_ADMIN)
    response = api(acme.org_admin).delete(f"/api/v1/teams/acme/members/{binding.pk}/")
    assert (response.status_code, response.json()["code"]) == (409, "last-org-admin")
