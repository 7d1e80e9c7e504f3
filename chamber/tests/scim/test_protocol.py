"""What SCIM says besides people and groups: who may ask, what there is, and what is refused."""

from typing import Any

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from chamber.models import ProvisionedPerson, Scope, User
from chamber.oidc.providers import Provider
from chamber.tests.scim.conftest import PERSON, TOKEN, Scim
from chamber.tokens import create_token

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("acme")]
OTHER = "another-token-that-an-operator-made-9876543210"


@pytest.mark.parametrize("token", ["", "wrong", OTHER, TOKEN[:-1], TOKEN + "x", "\u00e9"])
def test_only_the_provider_s_own_token_is_taken(scim: Scim, token: str) -> None:
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        answer = Scim(token).ask(method, "Users")
        assert answer.status_code == 401
        assert answer.json()["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_providers_do_not_see_each_other_s_people(scim: Scim, provider: Provider, settings: Settings) -> None:
    made = scim.person()
    more = {"id": "other", "name": "Other", "scim_token": OTHER}
    settings.IDENTITY_PROVIDERS = (provider, provider.model_copy(update=more))
    other = Scim(OTHER, "other")
    assert other.get("Users")["totalResults"] == 0
    assert other.ask("DELETE", f"Users/{made['id']}").status_code == 404
    assert Scim(TOKEN, "other").ask("GET", "Users").status_code == 401
    other.person()
    assert set(User.objects.values_list("username", flat=True)) == {"ada", "ada-2"}


def test_a_provider_without_a_token_is_not_heard(scim: Scim, provider: Provider, settings: Settings) -> None:
    settings.IDENTITY_PROVIDERS = (provider.model_copy(update={"scim_token": ""}),)
    for token in (TOKEN, "", "x"):
        assert Scim(token).ask("GET", "Users").status_code == 401
    settings.IDENTITY_PROVIDERS = ()
    assert scim.ask("GET", "Users").status_code == 401


def test_tokens_and_sessions_of_people_are_not_taken(scim: Scim, olga: User) -> None:
    _, secret = create_token(user=olga, name="x", scope=Scope.MANAGE, days=1)
    assert Scim(secret).ask("GET", "Users").status_code == 401
    client = Client()
    client.force_login(olga)
    assert client.get("/scim/acme/v2/Users").status_code == 401
    assert Client().get("/api/v1/me/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 401


def test_wrong_tokens_are_bounded_and_right_ones_are_not(scim: Scim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chamber.authentication.TRIES_PER_ADDRESS", 3)
    for _ in range(5):
        assert scim.ask("GET", "Users").status_code == 200
    got = [Scim("wrong").ask("GET", "Users").status_code for _ in range(5)]
    assert got == [401, 401, 401, 429, 429]


def test_what_there_is_is_told(scim: Scim) -> None:
    config = scim.get("ServiceProviderConfig")
    assert config["patch"] == {"supported": True}
    assert config["filter"] == {"supported": True, "maxResults": 200}
    assert [config[name]["supported"] for name in ("bulk", "sort", "etag", "changePassword")] == [False] * 4
    kinds = {each["id"]: each["endpoint"] for each in scim.get("ResourceTypes")["Resources"]}
    assert kinds == {"User": "/Users", "Group": "/Groups"}
    schemas = {each["id"] for each in scim.get("Schemas")["Resources"]}
    assert PERSON in schemas
    assert len(schemas) == 3
    assert scim.get(f"Schemas/{PERSON}")["name"] == "User"


@pytest.mark.parametrize(
    ("asked", "status", "kind"),
    [
        (("GET", "Users/x", None), 404, ""),
        (("GET", "Nothing", None), 404, ""),
        (("PUT", "Users", {}), 405, ""),
        (("POST", "Users", "{"), 400, "invalidSyntax"),
        (("POST", "Users", b"\xff"), 400, "invalidSyntax"),
        (("POST", "Users", '"\\ud800"'), 400, "invalidSyntax"),
        (("POST", "Users", "[" * 50_000), 400, "invalidSyntax"),
        (("POST", "Users", "[]"), 400, ""),
        (("GET", "Users?filter=userName", None), 400, "invalidFilter"),
        (("GET", "Users?filter=nothing+eq+1", None), 400, ""),
        (("GET", "Users?count=x", None), 400, "invalidValue"),
        (("GET", "Users?startIndex=" + "9" * 5000, None), 400, ""),
        (("GET", "Users?sortBy=userName", None), 501, ""),
        (("POST", "Bulk", {}), 501, ""),
        (("GET", "Me", None), 501, ""),
        (("PATCH", "Users/x", "{"), 400, "invalidSyntax"),
    ],
)
def test_what_cannot_be_is_an_error_as_scim_has_it(scim: Scim, asked: Any, status: int, kind: str) -> None:
    method, path, body = asked
    answer = scim.ask(method, path, body)
    assert answer.status_code == status, answer.content
    assert answer.headers["Content-Type"] == "application/scim+json"
    error = answer.json()
    assert error["status"] == str(answer.status_code)
    if kind:
        assert error["scimType"] == kind
    assert not ProvisionedPerson.objects.exists()


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "destroy", "path": "title"},
        {"op": "replace", "path": "id", "value": "x"},
        {"op": "replace", "path": "nothing", "value": "x"},
        {"op": "replace", "path": "groups", "value": []},
        {"op": "remove", "path": "userName"},
        {"op": "remove"},
        {"op": "replace", "path": "userName", "value": ["x"]},
        {"op": "remove", "path": "members", "value": [7]},
        {},
        7,
    ],
)
def test_a_patch_that_cannot_be_changes_nothing(scim: Scim, operation: Any) -> None:
    made = scim.person(externalId="00u1", title="Lead")
    first = {"op": "replace", "path": "title", "value": "Other"}
    answer = scim.patch(f"Users/{made['id']}", first, operation)
    assert answer.status_code == 400, answer.content
    assert scim.get(f"Users/{made['id']}") == made


@pytest.mark.parametrize(
    ("operation", "name", "value"),
    [
        ({"op": "Add", "path": 'emails[type eq "work"].value', "value": "a@acme.example"}, "emails", "work"),
        ({"op": "Replace", "value": {"name.familyName": "King"}}, "name", "King"),
        (
            {
                "op": "Add",
                "path": "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager",
                "value": "b",
            },
            "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User",
            "'b'",
        ),
        ({"op": "Add", "path": "roles", "value": [{"primary": "False", "value": "x"}]}, "roles", "'x'"),
    ],
)
def test_patches_of_entra_id_are_understood(
    scim: Scim, operation: dict[str, Any], name: str, value: str
) -> None:
    made = scim.person()
    assert scim.patch(f"Users/{made['id']}", operation).status_code == 204
    assert value in str(scim.get(f"Users/{made['id']}")[name])
