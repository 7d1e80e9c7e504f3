"""Groups that providers name, on pages and over the API: with their people and roles, also where they give none."""

from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings

from chamber.models import Scope, User
from chamber.oidc.providers import Provider
from chamber.tests.scim.conftest import Scim
from chamber.tokens import create_token
from teams import actions
from teams.actors import Actor
from teams.models import Role, Team
from teams.tests.factories import make_user, member

pytestmark = pytest.mark.django_db
PAGE = "/settings/provider-groups/"


def on(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def told(username: str, *groups: str, provider: str = "acme") -> None:
    """Have somebody sign in by a provider that names these groups."""
    data = {"issuer": "https://id.acme.example", "email": "", "groups": list(groups)}
    user = User.objects.filter(username=username).first() or make_user(username)
    SocialAccount.objects.create(user=user, provider=provider, uid=username, extra_data=data)


def listed(user: User) -> dict[str, Any]:
    _, secret = create_token(user=user, name="x", scope=Scope.READ, days=1)
    answer = Client(headers={"Authorization": f"Bearer {secret}"}).get("/api/v1/provider-groups/")
    assert answer.status_code == 200
    return {each["name"]: each for each in answer.json()["results"]}


def give(name: str, team: Team, role: Role) -> None:
    actions.set_provider_role(by=Actor.system("test"), provider="acme", name=name, team=team, role=role)


def test_what_scim_and_sign_ins_name_is_listed_with_people_and_roles(
    scim: Scim, olga: User, nlp: Team
) -> None:
    ada = scim.person("ada@acme.example")
    scim.group("gpu-users", ada)
    scim.group("empty")
    told("bob", "gpu-users", "/team/a & b")
    give("gpu-users", nlp, Role.RESEARCHER)
    give("awaited", nlp, Role.VIEWER)
    found = listed(olga)
    assert {name: (each["by_scim"], each["size"]) for name, each in found.items()} == {
        "/team/a & b": (False, 1),
        "awaited": (False, 0),
        "empty": (True, 0),
        "gpu-users": (True, 2),
    }
    assert found["gpu-users"]["roles"] == [{"team": "nlp", "role": "researcher"}]
    page = on(olga).get(PAGE).content.decode()
    assert "/team/a &amp; b" in page
    assert "Researcher of NLP" in page
    one = on(olga).get(f"{PAGE}{found['gpu-users']['id']}/").content.decode()
    assert 'href="/people/bob/"' in one
    assert "Kept here over SCIM by acme" in one
    assert "It gives none." in on(olga).get(f"{PAGE}{found['empty']['id']}/").content.decode()


def test_of_who_is_kept_over_scim_the_groups_of_scim_count(scim: Scim, olga: User) -> None:
    ada = scim.person("ada@acme.example")
    scim.group("gpu-users", ada)
    told(User.objects.get(provisioned__user_name="ada@acme.example").username, "claimed")
    told("bob", "claimed")
    found = listed(olga)
    assert (found["gpu-users"]["size"], found["claimed"]["size"]) == (1, 1)
    scim.ask("DELETE", f"Users/{ada['id']}")
    found = listed(olga)
    assert (found["gpu-users"]["size"], found["claimed"]["size"]) == (0, 2)


def test_people_come_in_pages_and_all_over_the_api(provider: Provider, olga: User) -> None:
    for number in range(51):
        told(f"p{number:02}", "many")
    found = listed(olga)["many"]
    first = on(olga).get(f"{PAGE}{found['id']}/").content.decode()
    assert "1 to 50 of 51" in first
    assert "/people/p50/" not in first
    assert "/people/p50/" in on(olga).get(f"{PAGE}{found['id']}/?page=2").content.decode()
    _, secret = create_token(user=olga, name="y", scope=Scope.READ, days=1)
    client = Client(headers={"Authorization": f"Bearer {secret}"})
    one = client.get(f"/api/v1/provider-groups/{found['id']}/").json()
    assert (len(one["people"]), one["people"][0], one["size"]) == (51, "p00", 51)


def test_the_list_is_searched_comes_in_pages_and_makes_few_queries(
    provider: Provider, olga: User, nlp: Team
) -> None:
    client = on(olga)
    assert "No groups yet" in client.get(PAGE).content.decode()
    told("ada", "Vision", "speech")

    def queries() -> int:
        with CaptureQueriesContext(connection) as made:
            client.get(PAGE)
        return len(made)

    few = queries()
    told("bob", *(f"group-{number:02}" for number in range(60)))
    give("group-01", nlp, Role.VIEWER)
    assert queries() <= few + 1, "of a role its team"
    assert few <= 12
    assert "1 to 50 of 62" in client.get(PAGE).content.decode()
    page = client.get(PAGE, {"q": "VISION"}).content.decode()
    assert "Vision" in page
    assert "speech" not in page
    assert "Nothing matches" in client.get(PAGE, {"q": "no such"}).content.decode()


def test_groups_of_a_provider_that_is_gone_stay_and_say_so(olga: User, settings: Settings) -> None:
    settings.IDENTITY_PROVIDERS = ()
    assert "No identity provider" in on(olga).get(PAGE).content.decode()
    told("ada", "crew", provider="old")
    assert "not configured any more" in on(olga).get(PAGE).content.decode()


def test_organisation_admins_and_auditors_see_them_and_nobody_else(
    provider: Provider, acme: Team, olga: User
) -> None:
    told("ada", "crew")
    key = listed(olga)["crew"]["id"]
    for role, status in ((Role.AUDITOR, 200), (Role.LEAD, 403), (Role.VIEWER, 403)):
        client = on(member(acme, role, f"a-{role}"))
        assert [client.get(path).status_code for path in (PAGE, f"{PAGE}{key}/")] == [status] * 2
    assert on(olga).get(f"{PAGE}0123456789abcdef/").status_code == 404
