"""Taking a provider's word for somebody away: by page and API."""

from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client

from chamber.models import ApiToken, Scope, User
from chamber.tests.oidc.conftest import PHRASE, Configure
from chamber.tests.oidc.idp import Idp, sign_in
from chamber.tokens import create_token
from teams import actions
from teams.actors import Actor
from teams.models import AuditEvent, Role, Team

pytestmark = [pytest.mark.django_db, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
API = "/api/v1/people/ada/providers/"


@pytest.fixture
def browser(idp: Idp, configure: Configure, nlp: Team) -> Client:
    """Ada, who signed in by the provider and has a role by it."""
    configure(allowed_groups=["*"])
    by = Actor.system("test")
    actions.set_provider_role(by=by, provider="acme", name="gpu-users", team=nlp, role=Role.VIEWER)
    idp.person("ada", preferred_username="ada", groups=["gpu-users"])
    client, _ = sign_in(idp, "ada")
    create_token(user=User.objects.get(), name="x", scope=Scope.READ, days=1)
    return client


@pytest.fixture
def admin(olga: User, client: Client) -> Client:
    client.force_login(olga)
    return client


def is_in(client: Client) -> bool:
    return client.get("/settings/").status_code == 200


def assert_unlinked(browser: Client, by: str = "olga") -> None:
    assert not SocialAccount.objects.exists()
    assert not is_in(browser)
    assert not User.objects.get(username="ada").groups.exists()
    assert not ApiToken.objects.filter(user__username="ada", revoked_at=None).exists()
    row = AuditEvent.objects.get(action="person.unlinked")
    assert (row.actor, row.target_name, row.address) == (by, "ada", "127.0.0.1")
    assert row.after == {"provider": "acme", "sessions": 1, "tokens": 1}


def test_an_admin_does_on_the_person_s_page(browser: Client, admin: Client) -> None:
    shown = admin.get("/people/ada/").content.decode()
    assert "/people/ada/providers/acme/unlink/" in shown
    answer = admin.post("/people/ada/providers/acme/unlink/")
    assert answer.headers["Location"] == "/people/ada/"
    assert_unlinked(browser)
    again = admin.post("/people/ada/providers/acme/unlink/", follow=True)
    assert "account at an identity provider" in again.content.decode()
    assert "/unlink/" not in admin.get("/people/ada/").content.decode()


def test_an_admin_does_over_the_api(browser: Client, admin: Client) -> None:
    [row] = admin.get(API).json()["results"]
    assert row == {
        "provider": "acme",
        "subject": "ada",
        "groups": ["gpu-users"],
        "last_sign_in": row["last_sign_in"],
    }
    assert admin.delete(f"{API}acme/").status_code == 204
    assert_unlinked(browser)
    assert admin.delete(f"{API}acme/").status_code == 404
    assert admin.get(API).json()["results"] == []


def test_a_person_sees_their_own_and_takes_none_away(browser: Client) -> None:
    assert browser.get(API).json()["results"][0]["provider"] == "acme"
    assert browser.delete(f"{API}acme/").status_code == 403
    assert is_in(browser)


def test_who_has_a_password_keeps_it_and_what_began_by_it(browser: Client, admin: Client) -> None:
    ada = User.objects.get(username="ada")
    ada.set_password(PHRASE)
    ada.save()
    other: Any = Client()
    other.post("/sign-in/", {"login": "ada", "password": PHRASE})
    assert admin.delete(f"{API}acme/").status_code == 204
    assert is_in(other)
    assert ApiToken.objects.filter(user=ada, revoked_at=None).exists()


def test_at_the_next_sign_in_it_is_somebody_s_first(browser: Client, admin: Client, idp: Idp) -> None:
    admin.delete(f"{API}acme/")
    sign_in(idp, "ada")
    assert SocialAccount.objects.get().user.username == "ada-2"
