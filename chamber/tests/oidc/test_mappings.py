"""Roles by groups of a provider, given and taken on the page Sign-in and over the API."""

from typing import Any

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from chamber.models import User
from chamber.tests.oidc.conftest import Configure
from chamber.tests.oidc.idp import Idp, sign_in
from teams.models import AuditEvent, Binding, ProviderGroup, Role, Team
from teams.tests.factories import member

pytestmark = [pytest.mark.django_db, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
PAGE, ADD = "/settings/sign-in/", "/settings/sign-in/groups/"
API = "/api/v1/sign-in/groups/"
GIVEN = {"provider": "acme", "group": "gpu-users", "team": "nlp", "role": "researcher"}


@pytest.fixture
def page(configure: Configure, olga: User, nlp: Team, client: Client) -> Client:
    """An organisation admin, who signed in just now."""
    configure()
    client.force_login(olga)
    return client


def given() -> set[tuple[str, str, str]]:
    rows = Binding.objects.filter(group__provider_group__isnull=False).select_related("team", "group")
    return {(row.group.provider_group.name, row.team.slug, row.role) for row in rows if row.group}


def post(client: Client, **values: Any) -> Any:
    return client.post(API, {**GIVEN, **values}, content_type="application/json")


def test_a_role_is_given_replaced_and_taken_away_on_the_page(page: Client, olga: User) -> None:
    assert "No group gives a role yet" in page.get(PAGE).content.decode()
    assert page.post(ADD, GIVEN).headers["Location"] == PAGE
    assert page.post(ADD, {**GIVEN, "role": "lead"}).status_code == 302
    assert given() == {("gpu-users", "nlp", "lead")}
    shown = page.get(PAGE).content.decode()
    assert "gpu-users" in shown
    binding = Binding.objects.get(group__isnull=False)
    assert page.post(f"{ADD}{binding.pk}/remove/").headers["Location"] == PAGE
    assert given() == set()
    assert not ProviderGroup.objects.exists()
    assert page.post(f"{ADD}{binding.pk}/remove/").status_code == 404
    rows = AuditEvent.objects.filter(actor="olga").order_by("at").values_list("action", "address")
    assert list(rows) == [
        ("group.created", "127.0.0.1"),
        ("member.added", "127.0.0.1"),
        ("member.role-changed", "127.0.0.1"),
        ("member.removed", "127.0.0.1"),
        ("group.deleted", "127.0.0.1"),
    ]


WRONG = [
    ({"provider": "other"}, "other"),
    ({"group": ""}, "required"),
    ({"group": "x" * 256}, "255"),
    ({"group": "gpu\u202eusers"}, "can be seen"),
    ({"team": "nowhere"}, "nowhere"),
    ({"role": "boss"}, "boss"),
    ({"role": "org-admin"}, "whole organisation"),
]


@pytest.mark.parametrize(("values", "words"), WRONG)
def test_what_cannot_be_is_told_and_the_form_is_kept(
    page: Client, values: dict[str, str], words: str
) -> None:
    answer = page.post(ADD, {**GIVEN, **values})
    assert answer.status_code == 422
    assert words in answer.content.decode()
    kept = "lead" if "group" not in values else "researcher"
    again = page.post(ADD, {**GIVEN, "role": kept, **values}).content.decode()
    assert f'<option value="{values.get("role", kept)}" selected' in again or "role" in values
    assert given() == set()


@pytest.mark.parametrize(
    ("values", "status", "words"),
    [
        ({"provider": "other"}, 422, "'other' is not allowed for provider; allowed are 'acme'"),
        ({"group": ""}, 422, "group"),
        ({"group": "x" * 256}, 422, "255"),
        ({"group": "a\u0000b"}, 422, "group"),
        ({"group": ["gpu-users"]}, 422, "group"),
        ({"team": "nowhere"}, 404, "There is no team 'nowhere'"),
        ({"role": "boss"}, 422, "'boss'"),
        ({"role": "org-admin"}, 422, "whole organisation"),
        ({"more": 1}, 422, "more"),
    ],
)
def test_what_cannot_be_is_refused_by_the_api(
    page: Client, values: dict[str, Any], status: int, words: str
) -> None:
    answer = post(page, **values)
    assert (answer.status_code, words in answer.content.decode()) == (status, True), answer.content
    assert given() == set()


def test_the_api_gives_lists_and_takes_away(page: Client, idp: Idp) -> None:
    made = post(page)
    assert made.status_code == 201
    row = made.json()
    assert {**GIVEN, "people": 0, "id": row["id"]} == row
    assert post(page, role="viewer").json() == {**row, "role": "viewer"}, "in place of the one before"
    idp.person("ada", preferred_username="ada", groups=["gpu-users"])
    sign_in(idp, "ada")
    listed = page.get(API).json()
    assert listed == {"next": None, "previous": None, "results": [{**row, "role": "viewer", "people": 1}]}
    assert page.delete(f"{API}{row['id']}/").status_code == 204
    assert page.delete(f"{API}{row['id']}/").status_code == 404
    assert not User.objects.get(username="ada").groups.exists()


def test_a_member_s_role_is_not_taken_for_a_group_s(page: Client, olga: User) -> None:
    own = olga.bindings.get()
    assert page.delete(f"{API}{own.pk}/").status_code == 404
    assert page.post(f"{ADD}{own.pk}/remove/").status_code == 404
    assert olga.bindings.exists()


def test_who_may_not_gives_no_role(page: Client, acme: Team, nlp: Team, client: Client) -> None:
    post(page)
    before = given()
    binding = Binding.objects.get(group__isnull=False)
    for role, team, sees in (
        (Role.AUDITOR, acme, 200),
        (Role.OPERATOR, acme, 403),
        (Role.ADMIN, nlp, 403),
        (Role.VIEWER, nlp, 403),
    ):
        client.force_login(member(team, role, f"a-{role}"))
        assert client.get(PAGE).status_code == client.get(API).status_code == sees
        assert ADD not in client.get(PAGE).content.decode()
        assert post(client, role="lead").status_code == 403
        assert client.post(ADD, {**GIVEN, "role": "lead"}).status_code == 403
        assert client.delete(f"{API}{binding.pk}/").status_code == 403
        assert client.post(f"{ADD}{binding.pk}/remove/").status_code == 403
        assert given() == before


def test_roles_of_a_provider_that_is_gone_are_marked_and_can_be_taken_away(
    page: Client, settings: Settings
) -> None:
    row = post(page).json()
    settings.IDENTITY_PROVIDERS = ()
    assert "not configured any more" in page.get(PAGE).content.decode()
    assert page.delete(f"{API}{row['id']}/").status_code == 204


def test_what_a_group_gives_is_marked_on_the_team_s_page(page: Client, nlp: Team) -> None:
    post(page)
    shown = page.get("/teams/nlp/").content.decode()
    assert "acme:gpu-users" in shown
    assert "group of an identity provider" in shown


def test_a_group_whose_role_was_taken_away_on_the_team_s_page_can_be_deleted(page: Client, nlp: Team) -> None:
    post(page)
    group = ProviderGroup.objects.get()
    assert page.delete(f"/api/v1/groups/{group.pk}/").status_code == 409
    binding = Binding.objects.get(group__isnull=False)
    assert page.delete(f"/api/v1/teams/nlp/members/{binding.pk}/").status_code == 204
    assert given() == set()
    assert page.delete(f"/api/v1/groups/{group.pk}/").status_code == 204
    assert not ProviderGroup.objects.exists()


def test_a_role_of_the_organisation_may_be_given_by_a_group(page: Client, acme: Team, idp: Idp) -> None:
    assert post(page, team="acme", role="org-admin", group="admins").status_code == 201
    idp.person("ada", preferred_username="ada", groups=["admins"])
    client, _ = sign_in(idp, "ada")
    assert client.get("/people/").status_code == 200
    idp.person("ada", preferred_username="ada", groups=[])
    assert client.get("/people/").status_code == 200, "until the next sign-in"
    sign_in(idp, "ada")
    assert client.get("/people/").status_code != 200
