"""Somebody who signs in by password, and their browser."""

import html
import re

import pytest
from django.core.cache import cache
from django.http import HttpResponse
from django.test import Client

from chamber.factors import actions
from chamber.models import User
from chamber.tests.factors.devices import Passkey, code_of
from teams.models import Role, Team
from teams.tests.factories import actor, make_org, member

PHRASE = "rotor glade mosaic 41"
SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"


@pytest.fixture(autouse=True)
def _no_tries_yet() -> None:
    cache.clear()


@pytest.fixture
def acme(db: None) -> Team:
    return make_org("Acme")


@pytest.fixture
def ada(acme: Team) -> User:
    return member(acme, Role.VIEWER, "ada", password=PHRASE, first_name="Ada", last_name="Lovelace")


@pytest.fixture
def olga(acme: Team) -> User:
    return member(acme, Role.ORG_ADMIN, "olga", password=PHRASE)


@pytest.fixture
def page(client: Client, ada: User) -> Client:
    client.force_login(ada)
    return client


def with_app(user: User) -> list[str]:
    """Give somebody an authenticator app with `SECRET`, as of an earlier period; return the recovery codes."""
    codes = actions.add_app(by=actor(user), secret=SECRET, code=code_of(SECRET, periods=-1)).codes
    assert len(codes) == 10
    return codes


def with_passkey(page: Client, key: Passkey, *, alone: bool = True, name: str = "laptop") -> HttpResponse:
    """Add a passkey by the page."""
    made = key.create(asked(page.get("/settings/factors/passkey/")))
    sent = {"name": name, "credential": made} | ({"alone": "on"} if alone else {})
    answer: HttpResponse = page.post("/settings/factors/passkey/", sent)  # type: ignore[assignment]
    return answer


def asked(answer: object) -> str:
    """Return what a page asks the browser for a passkey."""
    text = answer.content.decode()  # type: ignore[attr-defined]
    found = re.search(r'data-passkey-asked="([^"]*)"', text)
    assert found, text
    return html.unescape(found.group(1))


def begun(username: str = "ada") -> Client:
    """Return a browser in which somebody gave the right password and is asked for a second factor."""
    client = Client()
    answer = client.post("/sign-in/", {"login": username, "password": PHRASE})
    assert answer.headers["Location"] == "/sign-in/factor/"
    return client


def is_in(client: Client) -> bool:
    """Return whether somebody is signed in there."""
    return client.get("/settings/").status_code == 200
