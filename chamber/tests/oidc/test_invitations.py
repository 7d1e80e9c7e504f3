"""Joining by a provider from the page of an invitation."""

from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.core import mail
from django.test import Client
from pytest_django.fixtures import Settings

from chamber import mailing
from chamber.models import AccountLink, ProvisionedPerson, User
from chamber.people import actions
from chamber.tests.oidc.conftest import PHRASE, Configure
from chamber.tests.oidc.idp import Idp, sign_in
from teams.models import AuditEvent, Binding, Role, Team
from teams.tests.factories import actor

pytestmark = [pytest.mark.django_db, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture
def idp(idp: Idp, configure: Configure) -> Idp:
    """A provider that lets in nobody by itself."""
    configure()
    idp.person("ida", email="ida@else.example", email_verified=True)
    return idp


def invited(by: User, team: Team, email: str = "ida@else.example", username: str = "ida.n") -> str:
    asked: dict[str, Any] = {"username": username, "email": email, "team": team, "role": Role.RESEARCHER}
    return actions.invite(by=actor(by), **asked).secret


def opened(secret: str) -> Client:
    client = Client()
    client.get(f"/welcome/{secret}/")
    return client


def joins(idp: Idp, secret: str, sub: str = "ida") -> tuple[Client, Any]:
    return sign_in(idp, sub, opened(secret), invitation="1")


def refused(answer: Any) -> str:
    assert answer.status_code == 403
    return " ".join(answer.content.decode().replace("&#x27;", "'").split())


def test_who_has_the_invited_address_gets_the_account_and_the_role(idp: Idp, olga: User, nlp: Team) -> None:
    secret = invited(olga, nlp)
    page = opened(secret).get("/welcome/password/").content.decode()
    assert "Sign in with Acme SSO" in page
    client, answer = joins(idp, secret)
    assert (answer.status_code, client.get("/settings/").status_code) == (302, 200)
    ida = User.objects.get(username="ida.n")
    assert Binding.objects.get(user=ida).role == Role.RESEARCHER
    assert (ida.has_usable_password(), ida.emailaddress_set.get().verified) == (False, True)  # type: ignore[attr-defined]
    joined = AuditEvent.objects.get(action="person.joined")
    assert (joined.actor, joined.after) == ("ida.n", {"provider": "acme"})
    assert Client().get(f"/welcome/{secret}/").status_code == 410, "a link is good once"
    assert client.get("/welcome/password/").status_code == 410
    again, _ = sign_in(idp, "ida")
    assert again.get("/settings/").status_code == 200, (
        "the invitation lets in, whatever the provider's domains"
    )
    assert sign_in(idp, "ida")[0].get("/settings/").status_code == 200
    assert User.objects.filter(email="ida@else.example").count() == 1


@pytest.mark.parametrize(
    ("claims", "own"),
    [
        ({"email": "bob@acme.example", "email_verified": True}, "your verified address is bob@acme.example"),
        ({"email": "ida@else.example", "email_verified": False}, "you have no verified address"),
    ],
)
def test_another_address_is_refused_and_the_invitation_stays(
    idp: Idp, olga: User, nlp: Team, claims: dict[str, Any], own: str
) -> None:
    secret = invited(olga, nlp)
    idp.person("bob", **claims)
    client, answer = joins(idp, secret, "bob")
    text = refused(answer)
    assert f"This invitation is for ida@else.example; at Acme SSO {own}." in text
    assert 'href="/welcome/password/"' in text
    assert not SocialAccount.objects.exists()
    told = AuditEvent.objects.get(action="person.not-let-in")
    assert told.after == {"provider": "acme", "why": "not of this invitation"}
    sent = client.post("/welcome/password/", {"password1": PHRASE, "password2": PHRASE})
    assert sent.status_code == 302, "the same page still sets a password"


def test_the_invitation_is_good_for_the_right_address_after_the_wrong_one(
    idp: Idp, olga: User, nlp: Team
) -> None:
    secret = invited(olga, nlp)
    idp.person("bob", email="bob@acme.example", email_verified=True)
    client, _ = joins(idp, secret, "bob")
    assert sign_in(idp, "ida", client, invitation="1")[1].status_code == 302
    assert client.get("/settings/").status_code == 200


def test_whoever_has_an_account_by_the_provider_joins_no_second_one(idp: Idp, olga: User, nlp: Team) -> None:
    joins(idp, invited(olga, nlp))
    idp.person("ida", email="other@else.example", email_verified=True)
    second = invited(olga, nlp, "other@else.example", "ida.two")
    text = refused(joins(idp, second)[1])
    assert "At Acme SSO you are ida.n here already; this invitation is for ida.two." in text


def test_whom_the_provider_keeps_here_as_another_person_joins_no_second_account(
    idp: Idp, olga: User, nlp: Team, configure: Configure
) -> None:
    configure(scim_token="t" * 43)
    kept = User.objects.create(username="kept")
    ProvisionedPerson.objects.create(provider="acme", user=kept, external_id="ida", user_name="ida")
    text = refused(joins(idp, invited(olga, nlp))[1])
    assert "At Acme SSO you are kept here already; this invitation is for ida.n." in text
    assert not SocialAccount.objects.exists()


def test_a_link_that_ended_meanwhile_or_was_never_opened_joins_nobody(
    idp: Idp, olga: User, nlp: Team
) -> None:
    secret = invited(olga, nlp)
    client = opened(secret)
    AccountLink.objects.all().delete()
    assert "used, replaced by a newer one, or is too old" in refused(
        sign_in(idp, "ida", client, invitation="1")[1]
    )
    assert Client().post("/sign-in/with/acme/", {"invitation": "1"}).status_code == 410
    assert not SocialAccount.objects.exists()


def test_another_link_that_was_opened_meanwhile_is_not_used_in_its_place(
    idp: Idp, olga: User, nlp: Team
) -> None:
    first, second = invited(olga, nlp), invited(olga, nlp, "ada@acme.example", "ada")
    client = opened(first)
    url = client.post("/sign-in/with/acme/", {"invitation": "1"}).headers["Refresh"].partition("url=")[2]
    client.get(f"/welcome/{second}/")
    assert client.get(idp.sent_back(url, "ada")).status_code == 403
    assert not SocialAccount.objects.exists()


def test_a_link_for_a_new_password_and_one_without_an_address_offer_no_provider(
    idp: Idp, olga: User, nlp: Team
) -> None:
    idp.person("olga", email="olga@acme.example", email_verified=True)
    User.objects.filter(pk=olga.pk).update(email="olga@acme.example")
    reset = opened(actions.new_link(by=actor(olga), user=olga).secret)
    assert "used, replaced by a newer one, or is too old" in refused(
        sign_in(idp, "olga", reset, invitation="1")[1]
    ), "though the address is hers: a link for a new password is good for that alone"
    for secret in (actions.new_link(by=actor(olga), user=olga).secret, invited(olga, nlp, email="")):
        client = opened(secret)
        assert "Sign in with Acme SSO" not in client.get("/welcome/password/").content.decode()
        assert sign_in(idp, "ida", client, invitation="1")[1].status_code == 403
    assert not SocialAccount.objects.exists()


def test_whoever_is_invited_and_comes_without_the_link_is_told_of_it(
    idp: Idp, olga: User, nlp: Team, configure: Configure
) -> None:
    configure(allowed_domains=["else.example"])
    invited(olga, nlp)
    assert "open the link of your invitation" in refused(sign_in(idp, "ida")[1])


def test_the_mail_names_the_provider(idp: Idp, olga: User, nlp: Team, settings: Settings) -> None:
    settings.MAIL = True
    client = Client()
    client.force_login(olga)
    sent = {"username": "ida.n", "email": "ida@else.example", "team": "nlp", "role": "viewer"}
    client.post("/people/", sent)
    assert mailing.settle()
    assert "Set your password, or sign in with Acme SSO, within 7 days" in mail.outbox[0].body
