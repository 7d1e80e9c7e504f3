"""Showing again that it is you, before what is dangerous in wrong hands."""

import re
import time
from html import unescape
from typing import Any

import pytest
from django.test import Client

from chamber.factors.reading import has_factor
from chamber.models import ApiToken, Scope, User
from chamber.reauthentication import CONFIRMED, HELD, HELD_AT_ONCE
from chamber.tests.factors.conftest import PHRASE, SECRET, asked, with_app, with_passkey
from chamber.tests.factors.devices import Passkey, code_of
from chamber.tokens import create_token
from chamber.words import as_name
from teams.models import AuditEvent, Binding, Role, Team
from teams.tests.factories import make_org, make_team, make_user, member

pytestmark = pytest.mark.django_db
AGAIN = "/sign-in/again/"
FORM = {"name": 'lap"top\n&', "scope": "read", "expires_in_days": "5"}


@pytest.fixture(autouse=True)
def _no_tries_yet() -> None:
    from django.core.cache import cache

    cache.clear()


@pytest.fixture
def acme() -> Team:
    return make_org("Acme")


@pytest.fixture
def ada(acme: Team) -> User:
    return member(acme, Role.ORG_ADMIN, "ada", password=PHRASE)


@pytest.fixture
def page(client: Client, ada: User) -> Client:
    """Somebody who signed in an hour ago."""
    client.force_login(ada)
    grow_old(client)
    return client


def grow_old(client: Client, seconds: float = 3600) -> None:
    session = client.session
    session[CONFIRMED] = time.time() - seconds
    session.save()


def sent_on(answer: Any) -> tuple[str, dict[str, str]]:
    """Return where a page sends the form that was held, and what is in it."""
    text = answer.content.decode()
    place = re.search(r'action="([^"]*)" class="stack" data-go-on', text)
    assert place, text
    fields = re.findall(r'<textarea name="([^"]*)" hidden>\n(.*?)</textarea>', text, re.DOTALL)
    return unescape(place.group(1)), {name: unescape(value) for name, value in fields}


def held(page: Client, path: str = "/tokens/", form: dict[str, str] | None = None) -> str:
    """Send a dangerous form; return the address of the page that asks first."""
    answer = page.post(path, FORM if form is None else form)
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith(f"{AGAIN}?held=")
    return answer.headers["Location"]


def told(action: str) -> list[tuple[str, str | None, object]]:
    return list(AuditEvent.objects.filter(action=action).values_list("actor", "address", "after"))


def test_a_filled_form_waits_for_the_password_and_goes_on(page: Client, ada: User) -> None:
    where = held(page)
    assert not ApiToken.objects.exists()
    text = page.get(where).content.decode()
    assert "To make an access token, show that it is still you" in text
    assert "30 minutes" in text
    wrong = page.post(where, {"password": "wrong"})
    assert wrong.status_code == 422
    assert "This is not your password." in wrong.content.decode()
    path, fields = sent_on(page.post(where, {"password": PHRASE}))
    assert (path, fields) == ("/tokens/", FORM)
    assert "is ready. Copy it now" in page.post(path, fields).content.decode()
    assert ApiToken.objects.get().name == as_name(FORM["name"]), "it is sent as it was filled in"
    assert told("person.password-refused") == [("ada", "127.0.0.1", {})]
    assert told("person.confirmed") == [("ada", "127.0.0.1", {"by": "password"})]
    assert HELD not in page.session or not page.session[HELD]


def test_a_recent_sign_in_counts_and_so_does_having_confirmed(page: Client, ada: User) -> None:
    page.force_login(ada)
    assert page.post("/tokens/", FORM).status_code == 200
    grow_old(page)
    page.post(AGAIN, {"password": PHRASE})
    assert page.post("/tokens/", FORM).status_code == 200


def test_how_long_it_counts_is_a_setting(page: Client, settings: Any) -> None:
    settings.REAUTHENTICATION_SECONDS = 7200
    assert page.post("/tokens/", FORM).status_code == 200
    grow_old(page, -60)
    held(page)  # a clock that was put back makes no sign-in of the future


@pytest.mark.parametrize("kind", ["code", "recovery code"])
def test_a_code_confirms_it(page: Client, ada: User, kind: str) -> None:
    codes = with_app(ada)
    where = held(page)
    assert page.post(where, {"code": "000000"}).status_code == 422
    assert told("person.factor-refused") == [("ada", "127.0.0.1", {})]
    code = code_of(SECRET) if kind == "code" else codes[3]
    assert sent_on(page.post(where, {"code": code}))[0] == "/tokens/"
    assert told("person.confirmed") == [("ada", "127.0.0.1", {"by": "code"})]


def test_a_passkey_confirms_it(page: Client, ada: User) -> None:
    page.force_login(ada)
    key = Passkey()
    with_passkey(page, key)
    grow_old(page)
    where = held(page)
    assert page.post(where, {"credential": "{}"}).status_code == 422
    answer = page.post(where, {"credential": key.get(asked(page.get(where)))})
    assert sent_on(answer)[0] == "/tokens/"


def test_who_has_nothing_to_show_is_told_to_sign_in_anew(client: Client, acme: Team) -> None:
    client.force_login(make_user("bob"))
    grow_old(client)
    text = client.get(held(client)).content.decode()
    assert "sign out and in again" in text
    assert 'name="password"' not in text
    assert client.post(AGAIN, {"password": ""}).status_code == 422


def test_passwords_cannot_be_guessed_there(page: Client) -> None:
    where = held(page)
    for _ in range(10):
        assert page.post(where, {"password": "wrong"}).status_code == 422
    answer = page.post(where, {"password": PHRASE})
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) > 0


def test_each_tab_goes_on_with_its_own(page: Client) -> None:
    first = held(page)
    second = held(page, form={**FORM, "name": "other"})
    assert sent_on(page.post(first, {"password": PHRASE}))[1]["name"] == FORM["name"]
    assert sent_on(page.post(second, {"password": PHRASE}))[1]["name"] == "other"
    assert page.post(second, {"password": PHRASE}).headers["Location"] == "/settings/"
    for _ in range(HELD_AT_ONCE + 3):
        grow_old(page)
        held(page)
    assert len(page.session[HELD]) == HELD_AT_ONCE


def test_a_form_that_is_too_large_to_be_kept_is_refused(page: Client) -> None:
    answer = page.post("/tokens/", {**FORM, "name": "x" * 70_000})
    assert answer.status_code == 413
    assert AGAIN in answer.content.decode()


def test_a_page_that_asks_for_it_is_shown_after(page: Client) -> None:
    answer = page.get("/settings/factors/app/")
    assert page.post(answer.headers["Location"], {"password": PHRASE}).headers["Location"] == (
        "/settings/factors/app/"
    )


def test_a_part_of_a_page_sends_the_whole_browser_there(page: Client) -> None:
    answer = page.post("/tokens/", FORM, headers={"HX-Request": "true"})
    assert answer.status_code == 403
    assert sent_on(page.post(answer.headers["HX-Redirect"], {"password": PHRASE}))[1] == FORM


def test_it_is_gone_on_to_no_other_site(page: Client) -> None:
    answer = page.post(f"{AGAIN}?next=https://evil.example/", {"password": PHRASE})
    assert answer.headers["Location"] == "/settings/"


def test_the_api_asks_a_session_for_it_and_no_token(page: Client, ada: User) -> None:
    body = {"name": "job", "scope": "read"}
    answer = page.post("/api/v1/tokens/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (403, "reauthentication-required")
    assert answer.headers["Content-Type"] == "application/problem+json"
    _, secret = create_token(user=ada, name="x", scope=Scope.ADMIN, days=1)
    bearer = {"Authorization": f"Bearer {secret}"}
    made = page.post("/api/v1/tokens/", body, content_type="application/json", headers=bearer)
    assert made.status_code == 201


def test_a_token_that_is_none_opens_no_door_for_a_session(page: Client) -> None:
    bogus = {"Authorization": "Bearer x"}
    assert page.post("/tokens/", FORM, headers=bogus).status_code == 302
    body = {"name": "job", "scope": "read"}
    answer = page.post("/api/v1/tokens/", body, content_type="application/json", headers=bogus)
    assert answer.status_code == 401
    assert not ApiToken.objects.exists()


def test_a_role_is_given_only_after_it(page: Client, acme: Team) -> None:
    nlp = make_team(acme, "NLP")
    make_user("bob")
    where = held(page, "/teams/nlp/members/", {"who": "bob", "role": "viewer"})
    assert not Binding.objects.filter(team=nlp).exists()
    path, fields = sent_on(page.post(where, {"password": PHRASE}))
    page.post(path, fields)
    assert Binding.objects.get(team=nlp).role == Role.VIEWER


def test_a_factor_is_removed_only_after_it(page: Client, ada: User) -> None:
    with_app(ada)
    listed = page.get("/settings/factors/").content.decode()
    remove = re.search(r"/settings/factors/\d+/remove/", listed)
    assert remove
    where = held(page, remove.group(), {})
    assert has_factor(ada)
    path, fields = sent_on(page.post(where, {"password": PHRASE}))
    page.post(path, fields)
    assert not has_factor(ada)


def test_a_new_sign_in_takes_over_nothing_that_another_person_began(page: Client, ada: User) -> None:
    where = held(page)
    page.logout()
    page.force_login(make_user("bob", password=PHRASE))
    assert page.post(where, {"password": PHRASE}).headers["Location"] == "/settings/"
