"""People whom a provider keeps: made, found, changed, deactivated, deleted."""

from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from chamber.models import ApiToken, ProvisionedPerson, Scope, User
from chamber.oidc.providers import Provider
from chamber.people import actions as people
from chamber.tests.oidc.conftest import PHRASE
from chamber.tests.scim.conftest import PERSON, Scim
from chamber.tokens import create_token
from teams.actors import Actor
from teams.models import AuditEvent, Role, Team
from teams.tests.factories import actor, bind, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("acme", "olga")]
SYSTEM = Actor.system("test")
ADA: dict[str, Any] = {
    "externalId": "00u1",
    "name": {"givenName": "Ada", "familyName": "Lovelace"},
    "emails": [{"value": "Ada@acme.example", "type": "work", "primary": True}],
}


def ada() -> User:
    return User.objects.get(username="ada")


def told(action: str) -> list[tuple[str, str, object]]:
    rows = AuditEvent.objects.filter(action=action).order_by("at")
    return list(rows.values_list("actor", "target_name", "after"))


def test_somebody_is_made(scim: Scim) -> None:
    made = scim.person(**ADA, password="of no use here")
    user = ada()
    assert (user.email, user.get_full_name(), user.has_usable_password()) == (
        "ada@acme.example",
        "Ada Lovelace",
        False,
    )
    assert scim.get(f"Users/{made['id']}") == made
    assert made["userName"] == "ada@acme.example"
    assert made["meta"]["location"] == f"http://testserver/scim/acme/v2/Users/{made['id']}"
    assert "password" not in str(made)
    assert "of no use" not in str(ProvisionedPerson.objects.get().told)
    assert told("person.made") == [
        (
            "provider acme",
            "ada",
            {"username": "ada", "email": "ada@acme.example", "provider": "acme"},
        )
    ]


def test_one_who_is_made_inactive_cannot_sign_in(scim: Scim) -> None:
    made = scim.person(active=False)
    assert made["active"] is False
    assert not ada().is_active


@pytest.mark.parametrize(
    ("wanted", "finds"),
    [
        ('userName eq "ADA@acme.example"', True),
        ('userName eq "ada"', False),
        ('userName eq "a\\u0000b"', False),
        ('externalId eq "00u1"', True),
        ('externalId eq "00U1"', False),
        ('emails[type eq "work"].value eq "ada@acme.example"', True),
        ('name.familyName co "love"', True),
        ('userName sw "ada" and active eq true', True),
        ("active eq false", False),
        ('id eq "x"', False),
    ],
)
def test_people_are_found_by_filters(scim: Scim, wanted: str, finds: bool) -> None:
    made = scim.person(**ADA)
    scim.person("bob")
    assert [each["id"] for each in scim.found("Users", wanted)] == ([made["id"]] if finds else [])


def test_people_come_in_pages(scim: Scim) -> None:
    names = [f"p{number}" for number in range(5)]
    for name in names:
        scim.person(name)
    page = scim.get("Users?startIndex=2&count=3")
    assert (page["totalResults"], page["startIndex"], page["itemsPerPage"]) == (5, 2, 3)
    assert [each["userName"] for each in page["Resources"]] == names[1:4]
    assert scim.get("Users?count=0")["totalResults"] == 5
    assert scim.get("Users?startIndex=6").get("Resources", []) == []


def test_what_is_replaced_is_the_case(scim: Scim) -> None:
    made = scim.person(**ADA)
    values = {
        "schemas": [PERSON],
        "userName": "ada.king@acme.example",
        "name": {"givenName": "Augusta Ada", "familyName": "King"},
        "emails": [{"value": "king@acme.example"}],
        "active": True,
    }
    answer = scim.ask("PUT", f"Users/{made['id']}", values)
    assert answer.status_code == 200
    assert answer.json()["userName"] == "ada.king@acme.example"
    assert "externalId" not in answer.json()
    user = ada()
    assert (user.get_full_name(), user.email) == ("Augusta Ada King", "king@acme.example")


def test_a_name_that_was_changed_here_stays_until_the_provider_changes_it(scim: Scim) -> None:
    made = scim.person(**ADA)
    people.change(by=SYSTEM, user=ada(), name="Countess")
    scim.patch(f"Users/{made['id']}", {"op": "replace", "path": "title", "value": "Lead"})
    assert ada().get_full_name() == "Countess"
    scim.patch(f"Users/{made['id']}", {"op": "replace", "path": "name.familyName", "value": "King"})
    assert ada().get_full_name() == "Ada King"


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "value": {"active": False}},
        {"op": "Replace", "path": "active", "value": "False"},
        {"op": "replace", "path": "active", "value": False},
    ],
)
def test_deactivating_ends_all_and_activating_lets_in_again(scim: Scim, operation: dict[str, Any]) -> None:
    made = scim.person(**ADA)
    create_token(user=ada(), name="x", scope=Scope.READ, days=1)
    client = Client()
    client.force_login(ada())
    assert client.get("/settings/").status_code == 200
    assert scim.patch(f"Users/{made['id']}", operation).status_code == 204
    assert scim.get(f"Users/{made['id']}")["active"] is False
    assert client.get("/settings/").status_code == 302
    assert not ApiToken.objects.filter(revoked_at=None).exists()
    assert told("person.disabled")[0][0] == "provider acme"
    on = {"op": "Add", "path": "active", "value": "True"}
    assert scim.patch(f"Users/{made['id']}", on).status_code == 204
    assert ada().is_active


def test_whoever_leaves_is_put_out_whatever_else_is_told(scim: Scim) -> None:
    make_user("eve", email="taken@acme.example")
    made = scim.person(**ADA)
    values = {"active": False, "emails": [{"value": "taken@acme.example", "type": "work", "primary": True}]}
    scim.patch(f"Users/{made['id']}", {"op": "replace", "value": values})
    assert not ada().is_active
    assert ada().email == "ada@acme.example"


@pytest.mark.parametrize("part", ["A" * 100, "A" * 149, "A" * 150, "A" * 400])
def test_a_name_of_any_length_is_cut_to_what_a_name_may_have(scim: Scim, part: str) -> None:
    scim.person(**ADA | {"name": {"givenName": part, "familyName": "L" * 100}})
    assert len(ada().get_full_name()) in {149, 150}
    people.change(by=SYSTEM, user=ada(), name=ada().get_full_name())


def test_who_was_disabled_here_is_not_let_in_by_the_provider(scim: Scim, olga: User) -> None:
    made = scim.person(**ADA)
    people.disable(by=actor(olga), user=ada())
    scim.patch(f"Users/{made['id']}", {"op": "replace", "path": "active", "value": True})
    assert not ada().is_active
    assert scim.get(f"Users/{made['id']}")["active"] is False


def test_who_is_deleted_is_disabled_and_comes_again_as_the_same(scim: Scim) -> None:
    made = scim.person(**ADA)
    assert scim.ask("DELETE", f"Users/{made['id']}").status_code == 204
    assert not ada().is_active
    assert scim.ask("GET", f"Users/{made['id']}").status_code == 404
    assert scim.ask("DELETE", f"Users/{made['id']}").status_code == 404
    assert scim.found("Users", 'userName eq "ada@acme.example"') == []
    assert scim.person(**ADA)["id"] == made["id"]
    assert ada().is_active
    assert User.objects.count() == 2


def test_the_last_organisation_admin_stays(scim: Scim, olga: User) -> None:
    made = scim.person(**ADA)
    bind(ada(), Team.objects.get(depth=0), Role.ORG_ADMIN)
    User.objects.filter(username="ada").update(last_login=timezone.now())
    people.disable(by=SYSTEM, user=olga)
    for answer in (
        scim.patch(f"Users/{made['id']}", {"op": "replace", "path": "active", "value": False}),
        scim.ask("DELETE", f"Users/{made['id']}"),
    ):
        assert answer.status_code == 409
        assert "last organisation admin" in answer.json()["detail"]
    assert ada().is_active
    assert scim.get(f"Users/{made['id']}")["active"] is True


def test_an_account_here_is_not_taken_over_unless_the_operator_says_so(
    scim: Scim, provider: Provider, settings: Settings
) -> None:
    holder = make_user("lovelace", email="ada@acme.example", password=PHRASE)
    refused = scim.ask("POST", "Users", {"schemas": [PERSON], "userName": "ada", **ADA})
    assert (refused.status_code, refused.json()["scimType"]) == (409, "uniqueness")
    assert "link_by_email" in refused.json()["detail"]
    assert not ProvisionedPerson.objects.exists()
    settings.IDENTITY_PROVIDERS = (provider.model_copy(update={"link_by_email": True}),)
    scim.person(**ADA)
    assert ProvisionedPerson.objects.get().user == holder
    assert [row[:2] for row in told("person.linked")] == [("provider acme", "lovelace")]


def test_who_signed_in_by_the_provider_before_is_the_same(scim: Scim) -> None:
    one, two = make_user("one"), make_user("two", email="two@acme.example")
    SocialAccount.objects.create(provider="acme", uid="00u1", user=one)
    told_of = {"email": "two@acme.example"}
    SocialAccount.objects.create(provider="acme", uid="00u2", user=two, extra_data=told_of)
    scim.person("a", externalId="00u1")
    scim.person("b", emails=[{"value": "two@acme.example"}])
    rows = ProvisionedPerson.objects.order_by("user_name").values_list("user__username", flat=True)
    assert list(rows) == ["one", "two"]
    again = scim.ask("POST", "Users", {"schemas": [PERSON], "userName": "c", "externalId": "00u1"})
    assert again.status_code == 409


@pytest.mark.parametrize(
    ("values", "status", "words"),
    [
        ({}, 400, "userName"),
        ({"userName": "x" * 256}, 400, "userName"),
        ({"userName": "a\u0000b"}, 400, "U+0000"),
        ({"userName": "a\u202eb"}, 400, "can be seen"),
        ({"userName": "ADA@acme.example"}, 409, "already"),
        ({"userName": "x", "active": "perhaps"}, 400, "active"),
        ({"userName": "x", "emails": [{"value": 7}]}, 400, "emails"),
        ({"userName": "x", "title": "x" * 40_000}, 400, "32,000"),
        ({"userName": "x", "externalId": "x" * 256}, 400, "externalId"),
    ],
)
def test_what_cannot_be_is_told_as_scim_does(
    scim: Scim, values: dict[str, Any], status: int, words: str
) -> None:
    scim.person(**ADA)
    answer = scim.ask("POST", "Users", {"schemas": [PERSON], **values})
    body = answer.json()
    assert (answer.status_code, body["status"]) == (status, str(status))
    assert body["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    assert words in body["detail"]
    assert answer.headers["Content-Type"] == "application/scim+json"
    assert User.objects.count() == 2


def test_a_name_of_another_is_not_taken(scim: Scim) -> None:
    made = scim.person(**ADA)
    scim.person("bob", emails=[{"value": "bob@acme.example"}])
    for path, value in (("userName", "BOB"), ("emails", [{"value": "bob@acme.example"}])):
        answer = scim.patch(f"Users/{made['id']}", {"op": "replace", "path": path, "value": value})
        assert (answer.status_code, answer.json()["scimType"]) == (409, "uniqueness")
    assert scim.get(f"Users/{made['id']}")["userName"] == "ada@acme.example"
    assert ada().email == "ada@acme.example"
