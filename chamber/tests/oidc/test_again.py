"""Showing again that it is oneself, by a fresh sign-in at the provider."""

import time
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from chamber.models import ApiToken, User
from chamber.oidc.providers import Provider
from chamber.tests.oidc.idp import Idp, left_for, sign_in
from chamber.tests.test_reauthentication import FORM, grow_old, held, sent_on
from teams.models import AuditEvent
from teams.tests.factories import make_user

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("acme"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def page(idp: Idp, provider: Provider) -> Client:
    """Somebody who signed in by the provider an hour ago."""
    client, _ = sign_in(idp, "ada")
    grow_old(client)
    return client


def asked(page: Client) -> str:
    """Ask for a token, and choose the provider; return where that leads."""
    where = held(page)
    assert "Sign in anew with Acme SSO" in page.get(where).content.decode()
    key = parse_qs(urlsplit(where).query)["held"][0]
    return left_for(page.post("/sign-in/with/acme/", {"held": key}))


def test_a_fresh_sign_in_there_goes_on_with_the_form(idp: Idp, page: Client) -> None:
    url = asked(page)
    query = parse_qs(urlsplit(url).query)
    assert (query["prompt"], query["max_age"]) == (["login"], ["0"])
    idp.claims = lambda claims: {**claims, "auth_time": int(time.time())}
    path, fields = sent_on(page.get(idp.sent_back(url, "ada")))
    assert (path, fields) == ("/tokens/", FORM)
    page.post(path, fields)
    assert ApiToken.objects.exists()
    [row] = AuditEvent.objects.filter(action="person.confirmed")
    assert (row.actor, row.after) == ("ada.l", {"by": "provider acme"})


def test_a_sign_in_that_was_long_ago_shows_nothing(idp: Idp, page: Client) -> None:
    url = asked(page)
    idp.claims = lambda claims: {**claims, "auth_time": int(time.time()) - 600}
    answer = page.get(idp.sent_back(url, "ada"))
    assert answer.status_code == 403
    assert "did not ask you to sign in anew" in answer.content.decode()
    held(page)


def test_somebody_else_there_shows_nothing(idp: Idp, page: Client) -> None:
    idp.person("bob", email="bob@acme.example", email_verified=True)
    answer = page.get(idp.sent_back(asked(page), "bob"))
    assert "somebody else than you are signed in here" in answer.content.decode()
    assert User.objects.count() == 1
    held(page)
    assert page.get("/api/v1/me/").json()["username"] == "ada.l"


def test_who_signs_in_otherwise_is_offered_no_provider(provider: Provider, client: Client) -> None:
    client.force_login(make_user("bob", password="x"))
    grow_old(client)
    assert "Acme SSO" not in client.get(held(client)).content.decode()


def test_who_signed_out_meanwhile_is_not_signed_in_by_it(idp: Idp, page: Client) -> None:
    back = idp.sent_back(asked(page), "ada")
    session = page.session
    for key in ("_auth_user_id", "_auth_user_hash", "_auth_user_backend"):
        del session[key]
    session.save()
    assert page.get(back).status_code == 403
    assert page.get("/settings/").status_code == 302
