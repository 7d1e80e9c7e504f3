"""Signing in by a provider that keeps people here over SCIM: who they are, and their groups."""

from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client

from chamber.models import ProvisionedPerson, User
from chamber.oidc.providers import Provider
from chamber.tests.oidc.conftest import Configure
from chamber.tests.oidc.idp import Idp, sign_in
from chamber.tests.scim.conftest import TOKEN, Scim
from teams import actions
from teams.actors import Actor
from teams.models import Binding, Role, Team

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("olga"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def provider(configure: Configure) -> Provider:
    """One that answers, and keeps people here."""
    return configure(scim_token=TOKEN)


def signed_in(idp: Idp, sub: str = "ada", **claims: Any) -> str:
    """Sign in; return under which user name, "" for nobody."""
    idp.person(sub, **claims)
    client, _ = sign_in(idp, sub)
    return str(client.get("/api/v1/me/").json().get("username", ""))


def roles() -> list[str]:
    return list(Binding.objects.filter(group__user__username="ada").values_list("role", flat=True))


def test_who_is_kept_here_is_found_by_the_provider_s_id(idp: Idp, scim: Scim) -> None:
    scim.person("ada@acme.example", externalId="00u1")
    assert signed_in(idp, "00u1", preferred_username="another") == "ada"
    assert SocialAccount.objects.get().user.username == "ada"


def test_who_is_kept_here_is_found_by_the_user_name_and_once_only(idp: Idp, scim: Scim) -> None:
    scim.person("ada@acme.example", externalId="an id of the directory")
    assert signed_in(idp, "pairwise", preferred_username="Ada@Acme.example") == "ada"
    assert signed_in(idp, "pairwise", preferred_username="renamed") == "ada"
    assert signed_in(idp, "mallory", preferred_username="ada@acme.example") == ""
    assert User.objects.count() == 2


def test_who_is_not_kept_here_is_not_let_in(idp: Idp, scim: Scim, nlp: Team) -> None:
    by = Actor.system("test")
    actions.set_provider_role(by=by, provider="acme", name="gpu", team=nlp, role=Role.VIEWER)
    assert signed_in(idp, "bob", groups=["gpu"], preferred_username="bob") == ""
    assert not User.objects.filter(username="bob").exists()


def test_who_is_not_kept_here_may_come_by_domain(idp: Idp, scim: Scim, configure: Configure) -> None:
    configure(scim_token=TOKEN, allowed_domains=["acme.example"])
    assert signed_in(idp, "bob", email="bob@acme.example", email_verified=True) == "bob"
    assert not ProvisionedPerson.objects.exists()


def test_groups_of_who_is_kept_here_come_by_scim_alone(idp: Idp, scim: Scim, nlp: Team) -> None:
    by = Actor.system("test")
    for name, role in (("gpu", Role.RESEARCHER), ("leads", Role.LEAD)):
        actions.set_provider_role(by=by, provider="acme", name=name, team=nlp, role=role)
    ada = scim.person("ada")
    made = scim.group("gpu", ada)
    assert signed_in(idp, preferred_username="ada", groups=["leads"]) == "ada"
    assert roles() == ["researcher"]
    scim.ask("DELETE", f"Groups/{made['id']}")
    assert roles() == []
    assert signed_in(idp, preferred_username="ada", groups=["gpu", "leads"]) == "ada"
    assert roles() == []


@pytest.mark.parametrize("how", ["inactive", "deleted"])
def test_who_is_put_out_over_scim_is_out(idp: Idp, scim: Scim, how: str) -> None:
    ada = scim.person("ada")
    idp.person("ada", preferred_username="ada")
    client, _ = sign_in(idp, "ada")
    assert client.get("/settings/").status_code == 200
    if how == "inactive":
        scim.patch(f"Users/{ada['id']}", {"op": "replace", "path": "active", "value": False})
    else:
        scim.ask("DELETE", f"Users/{ada['id']}")
    assert client.get("/settings/").status_code == 302
    assert signed_in(idp, preferred_username="ada") == ""


def test_the_page_sign_in_tells_the_address(
    scim: Scim, olga: User, provider: Provider, client: Client
) -> None:
    client.force_login(olga)
    shown = client.get("/settings/sign-in/").content.decode()
    assert "http://testserver/scim/acme/v2" in shown
    assert "whom it keeps here over SCIM" in shown
    assert TOKEN not in shown


def test_a_person_s_page_tells_who_keeps_them(scim: Scim, olga: User, client: Client) -> None:
    scim.person("ada@acme.example")
    client.force_login(olga)
    shown = client.get("/people/ada/").content.decode()
    assert "kept over SCIM as" in shown
    assert "ada@acme.example" in shown
