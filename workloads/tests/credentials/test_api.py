"""Credentials over the API: values go in and never come out, also not where they are refused."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from chamber.models import Scope, User
from chamber.tokens import create_token
from teams.models import Role, Team
from teams.tests.factories import member
from workloads.credentials import keys
from workloads.models import Credential, CredentialKind
from workloads.tests.credentials.conftest import CONTENTS, MARKER

ADDRESS = "/api/v1/credentials/"


def api(user: User, scope: Scope | None = None) -> APIClient:
    client = APIClient()
    if scope is None:
        client.force_authenticate(user)
    else:
        secret = create_token(user=user, name="job", scope=scope, days=1)[1]
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client


def send(user: User, **body: Any) -> Any:
    return api(user).post(
        ADDRESS, {"name": "hf", "type": "token", "values": CONTENTS["token"], **body}, format="json"
    )


@pytest.mark.parametrize("kind", CredentialKind)
def test_each_kind_is_made_and_answered_without_its_values(owner: User, kind: CredentialKind) -> None:
    answer = send(owner, type=kind.value, values=CONTENTS[kind])
    assert answer.status_code == 201, answer.content
    assert MARKER not in answer.content.decode()
    for path in (ADDRESS, f"{ADDRESS}hf/"):
        assert MARKER not in api(owner).get(path).content.decode()
    assert answer.json()["reference"] == "hf"


def test_other_values_are_put(owner: User) -> None:
    send(owner)
    answer = api(owner).put(f"{ADDRESS}hf/", {"values": {"token": f"{MARKER}-2"}}, format="json")
    assert (answer.status_code, MARKER in answer.content.decode()) == (200, False)
    assert keys.opened(Credential.objects.get()) == {"token": f"{MARKER}-2"}


@pytest.mark.parametrize(
    ("body", "field", "told"),
    [
        ({"values": MARKER}, "values", "values must be a mapping of names to values."),
        ({"values": None}, "values", "values must be a mapping of names to values."),
        ({"values": [MARKER]}, "values", "values must be a mapping of names to values."),
        ({"values": {"token": MARKER, "user": "x"}}, "user", "it has variable, token."),
        ({"values": {"token": [MARKER]}}, "token", "token must be text."),
        ({"values": {MARKER: "x", "token": "y"}}, MARKER, "has no"),
        ({"type": "password"}, "type", "is not allowed for type; allowed are"),
        ({"name": "A b"}, "name", "is no name of a credential"),
        ({"team": "vision"}, "team", "There is no team 'vision'"),
        ({"value": {}}, "value", "There is no 'value' here"),
    ],
)
def test_what_is_wrong_is_told_at_its_place(
    owner: User, other_team: Team, body: dict[str, Any], field: str, told: str
) -> None:
    answer = send(owner, **body)
    assert answer.status_code in {404, 422}
    assert told in answer.json()["errors"][field]
    if field != MARKER:
        assert MARKER not in answer.content.decode()
    assert not Credential.objects.exists()


def test_a_token_needs_the_scope_to_manage(owner: User, team: Team) -> None:
    body = {"name": "hf", "type": "token", "values": CONTENTS["token"]}
    assert api(owner, Scope.SUBMIT).post(ADDRESS, body, format="json").status_code == 403
    assert api(owner, Scope.READ).get(ADDRESS).status_code == 200
    assert api(owner, Scope.MANAGE).post(ADDRESS, body, format="json").status_code == 201
    lead = member(team, Role.LEAD)
    body["team"] = team.slug
    assert api(lead, Scope.MANAGE).post(ADDRESS, body, format="json").status_code == 201


def test_a_list_costs_the_same_however_long(
    owner: User, team: Team, django_assert_max_num_queries: Any
) -> None:
    for number in range(12):
        send(owner, name=f"t{number}")
    client = api(owner)
    with django_assert_max_num_queries(6):
        assert len(client.get(ADDRESS).json()["results"]) == 12
