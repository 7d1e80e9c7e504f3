"""Signing in with a second factor, and by a passkey alone."""

import json
from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from chamber.factors import codes
from chamber.models import User
from chamber.people import actions as people
from chamber.tests.factors.conftest import PHRASE, SECRET, asked, begun, is_in, with_app, with_passkey
from chamber.tests.factors.devices import Passkey, code_of
from teams.actors import Actor
from teams.models import AuditEvent

STEP = "/sign-in/factor/"
PASSKEY = "/sign-in/passkey/"
SYSTEM = Actor.system("test")


def told(action: str) -> list[tuple[str, str, str | None, object]]:
    rows = AuditEvent.objects.filter(action=action)
    return list(rows.values_list("actor", "target_name", "address", "after"))


def test_the_password_alone_signs_nobody_in_who_has_a_factor(ada: User) -> None:
    with_app(ada)
    client = begun()
    assert not is_in(client)
    assert client.get("/api/v1/me/").status_code == 401
    assert told("person.signed-in") == []
    assert client.post(STEP, {"code": code_of(SECRET)}).headers["Location"] == "/"
    assert is_in(client)
    assert told("person.signed-in") == [("ada", "ada", "127.0.0.1", {"factor": "authenticator app"})]
    assert Authenticator.objects.get(type="totp").last_used_at > timezone.now() - timedelta(minutes=1)


def test_where_somebody_wanted_to_go_is_not_lost_by_the_second_step(ada: User) -> None:
    with_app(ada)
    client = Client()
    client.post("/sign-in/", {"login": "ada", "password": PHRASE, "next": "/tokens/"})
    assert client.post(STEP, {"code": code_of(SECRET)}).headers["Location"] == "/tokens/"


def test_a_wrong_code_is_refused_and_noted(ada: User) -> None:
    with_app(ada)
    client = begun()
    answer = client.post(STEP, {"code": "12 34-56 wrong"})
    assert answer.status_code == 422
    assert "This code is wrong" in answer.content.decode()
    assert told("person.factor-refused") == [("anonymous", "ada", "127.0.0.1", {})]
    assert not is_in(client)


def test_a_code_is_used_once_and_none_before_it_either(ada: User) -> None:
    with_app(ada)
    earlier, now = code_of(SECRET), code_of(SECRET, periods=1)
    assert begun().post(STEP, {"code": now}).status_code == 302
    assert begun().post(STEP, {"code": now}).status_code == 422
    assert begun().post(STEP, {"code": earlier}).status_code == 422


def test_a_telephone_whose_clock_is_wrong_by_minutes_is_refused(ada: User) -> None:
    with_app(ada)
    assert begun().post(STEP, {"code": code_of(SECRET, periods=2)}).status_code == 422
    assert begun().post(STEP, {"code": code_of(SECRET, periods=1)}).status_code == 302


def test_a_recovery_code_signs_in_once(ada: User) -> None:
    first, *_ = with_app(ada)
    assert begun().post(STEP, {"code": f"{first[:4]} {first[4:]}"}).status_code == 302
    assert begun().post(STEP, {"code": first}).status_code == 422
    assert [row[3] for row in told("person.signed-in")] == [{"factor": "recovery codes"}]


def test_codes_cannot_be_guessed(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    with_app(ada)
    client = begun()
    for _ in range(10):
        assert client.post(STEP, {"code": "000000"}).status_code == 422
    answer = client.post(STEP, {"code": code_of(SECRET)})
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) <= 300
    monkeypatch.setattr("chamber.authentication.SIGN_IN_WINDOW_SECONDS", 1)
    monkeypatch.setattr(codes, "WRONG_A_DAY", 10)
    assert client.post(STEP, {"code": code_of(SECRET)}).status_code == 429, "nor slowly, over a day"


def test_who_is_asked_may_sign_in_as_somebody_else(ada: User) -> None:
    with_app(ada)
    client = begun()
    assert client.post(STEP, {"again": "1"}).headers["Location"] == "/sign-in/"
    assert client.get("/sign-in/").status_code == 200
    assert client.get(STEP).headers["Location"] == "/sign-in/"


@pytest.mark.parametrize("loss", ["disabled", "sessions ended", "password changed"])
def test_what_ends_sessions_ends_a_sign_in_that_is_under_way(ada: User, loss: str) -> None:
    with_app(ada)
    client = begun()
    if loss == "disabled":
        people.disable(by=SYSTEM, user=ada)
    elif loss == "sessions ended":
        people.end_sessions(by=SYSTEM, user=ada)
    else:
        ada.set_password("harbour lantern quilt 8")
        ada.save()
    assert client.post(STEP, {"code": code_of(SECRET)}).status_code in {302, 409}
    assert not is_in(client)
    assert told("person.signed-in") == []


def test_a_passkey_is_a_second_factor(page: Client, ada: User) -> None:
    key = Passkey(verifies=False)
    with_passkey(page, key, alone=False)
    client = begun()
    text = client.get(STEP)
    assert "Or a recovery code" not in text.content.decode(), "the recovery codes are codes"
    assert client.post(STEP, {"credential": key.get(asked(text))}).headers["Location"] == "/"
    assert is_in(client)
    assert [row[3] for row in told("person.signed-in")] == [{"factor": "passkey"}]


def test_an_answer_of_a_passkey_is_good_once_and_for_one_page(page: Client, ada: User) -> None:
    key = Passkey()
    with_passkey(page, key)
    client = begun()
    answer = key.get(asked(client.get(STEP)))
    assert client.post(STEP, {"credential": key.get(asked(client.get(STEP)))}).status_code == 302
    other = begun()
    other.get(STEP)
    assert other.post(STEP, {"credential": answer}).status_code == 422
    assert not is_in(other)


def test_a_passkey_of_somebody_else_is_no_factor(page: Client, ada: User, olga: User) -> None:
    with_app(ada)
    page.force_login(olga)
    theirs = Passkey()
    with_passkey(page, theirs)
    client = begun()
    page.get(STEP)
    options = json.dumps({"publicKey": {"challenge": "AAAA", "rpId": "testserver"}})
    assert client.post(STEP, {"credential": theirs.get(options)}).status_code == 422


def by_passkey(key: Passkey, **sent: str) -> tuple[Client, int]:
    client = Client()
    options = client.get(PASSKEY, headers={"Accept": "application/json"}).content.decode()
    answer = client.post(PASSKEY, {"credential": key.get(options), **sent})
    if answer.status_code == 302 and sent:
        assert answer.headers["Location"] == sent["next"]
    return client, answer.status_code


def test_a_passkey_signs_in_without_the_password(page: Client, ada: User) -> None:
    key = Passkey()
    with_passkey(page, key)
    client, status = by_passkey(key, next="/tokens/")
    assert status == 302
    assert is_in(client)
    assert told("person.signed-in") == [("ada", "ada", "127.0.0.1", {"factor": "passkey"})]


def test_a_passkey_that_goes_with_the_password_does_not(page: Client, ada: User) -> None:
    key = Passkey()
    with_passkey(page, key, alone=False)
    client, status = by_passkey(key)
    assert status == 422
    assert not is_in(client)


def test_a_passkey_that_asked_for_no_pin_does_not(page: Client, ada: User) -> None:
    key = Passkey()
    with_passkey(page, key)
    key.verifies = False
    assert by_passkey(key)[1] == 422


def test_a_removed_passkey_does_not(page: Client, ada: User) -> None:
    key = Passkey()
    with_passkey(page, key)
    page.post(f"/settings/factors/{Authenticator.objects.get(type='webauthn').pk}/remove/")
    assert by_passkey(key)[1] == 422


def test_who_is_disabled_does_not_sign_in_by_a_passkey(page: Client, ada: User) -> None:
    key = Passkey()
    with_passkey(page, key)
    people.disable(by=SYSTEM, user=ada)
    client, status = by_passkey(key)
    assert status == 403
    assert not is_in(client)


@pytest.mark.parametrize("sent", ["", "{}", "[1]", '{"response": {"userHandle": 7}}', "1" * 6000])
def test_what_no_passkey_answers_is_refused(db: None, sent: str) -> None:
    client = Client()
    client.get(PASSKEY, headers={"Accept": "application/json"})
    answer = client.post(PASSKEY, {"credential": sent})
    assert answer.status_code == 422
    assert "Not signed in" in answer.content.decode()


def test_the_page_of_passkeys_is_for_scripts_and_bounded(
    db: None, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chamber.authentication.TRIES_PER_ADDRESS", 2)
    assert client.get(PASSKEY).headers["Location"] == "/sign-in/"
    client.get(PASSKEY, headers={"Accept": "application/json"})
    assert client.get(PASSKEY, headers={"Accept": "application/json"}).status_code == 429


def test_a_factor_that_cannot_be_read_is_told(ada: User, settings: Settings) -> None:
    with_app(ada)
    settings.SECRET_KEY = "another key of which nobody told, as long as it has to be 0123456789"
    answer = begun().post(STEP, {"code": code_of(SECRET)})
    assert answer.status_code == 409
    assert "ask its operator" in answer.content.decode()
