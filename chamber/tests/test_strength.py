"""The meter beside a new password."""

from typing import Any

import pytest
from allauth.account.forms import default_token_generator
from allauth.account.utils import user_pk_to_url_str
from django.core.cache import cache
from django.test import Client
from pytest_django.fixtures import Settings

from chamber import strength
from chamber.models import User
from chamber.people import actions
from teams.models import Role, Team
from teams.tests.factories import actor, make_org, member

pytestmark = pytest.mark.django_db
GOOD = "rotor glade mosaic 41"
URL = "/password-strength/"


@pytest.fixture(autouse=True)
def _none_yet() -> None:
    cache.clear()


@pytest.fixture
def acme() -> Team:
    return make_org("Acme")


@pytest.fixture
def olga(acme: Team) -> User:
    return member(acme, Role.ORG_ADMIN, "olga", password=GOOD)


def said(client: Client, password: str, of: str, **more: str) -> str:
    answer: Any = client.post(URL, {"password1": password, "of": of, **more})
    assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
    return " ".join(answer.content.decode().split())


def test_it_stands_beside_the_new_password_of_a_link_and_judges_by_its_person(olga: User) -> None:
    made = actions.invite(by=actor(olga), username="lovelace", name="Ada Lovelace")
    client = Client()
    page = client.get(f"/welcome/{made.secret}/", follow=True).content.decode()
    assert f'hx-post="{URL}"' in page
    assert "from:#id_password1" in page
    assert "Strength: 4 of 4; strong." in said(client, GOOD, "link")
    assert 'value="4"' in said(client, GOOD, "link")
    weak = said(client, "Lovelace-lovelace", "link")
    assert "Strength: 0 of 4; it would be refused." in weak
    assert "strong" not in weak
    assert said(client, "", "link") == ""


def test_one_s_own_is_judged_while_signed_in(olga: User) -> None:
    client = Client()
    client.force_login(olga)
    assert f'hx-post="{URL}"' in client.get("/settings/password/").content.decode()
    assert "of 4; it would be refused. This password is too short." in said(client, "olga", "own")


def test_a_mailed_key_is_judged_for_its_person(olga: User, settings: Settings) -> None:
    settings.MAIL = True
    User.objects.filter(pk=olga.pk).update(email="olga@acme.example", last_login="2030-01-01T00:00:00Z")
    client = Client()
    olga.refresh_from_db()
    uid, key = user_pk_to_url_str(olga), default_token_generator.make_token(olga)
    page = client.get(f"/sign-in/forgotten/{uid}-{key}/", follow=True).content.decode()
    assert uid in page.partition("hx-vals")[2]
    assert "too similar" in said(client, "olga@acme.example", "reset", uidb36=uid)
    other = User.objects.create(username="other")
    assert client.post(URL, {"of": "reset", "uidb36": user_pk_to_url_str(other)}).status_code == 403


def test_nobody_else_has_anything_judged(olga: User) -> None:
    for of in ("", "own", "link", "reset"):
        assert Client().post(URL, {"password1": GOOD, "of": of}).status_code == 403


def test_so_many_are_judged_a_minute(olga: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strength, "JUDGED_A_MINUTE", 2)
    client = Client()
    client.force_login(olga)
    answers = [said(client, GOOD, "own") for _ in range(3)]
    assert "strong." in answers[1]
    assert answers[2] == "Many were judged in this minute: this one is when you send it."
