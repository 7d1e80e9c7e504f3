"""Signing out here and there, and being told by the provider that somebody signed out."""

import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.usersessions.models import UserSession
from django.core.cache import cache, caches
from django.test import Client
from pytest_django.fixtures import Settings

from chamber.models import User
from chamber.oidc.claims import LOGGED_OUT
from chamber.oidc.providers import Provider
from chamber.tests.oidc.conftest import PHRASE, Configure
from chamber.tests.oidc.idp import Idp, Key, left_for, sign_in
from teams.models import AuditEvent
from teams.tests.factories import make_user

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("acme"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
ENDED = "/sign-in/with/acme/ended/"


def is_in(client: Client) -> bool:
    return client.get("/settings/").status_code == 200


def with_sid(idp: Idp, sid: str) -> Client:
    idp.claims = lambda claims: {**claims, "sid": sid}
    return sign_in(idp, "ada")[0]


def logout_token(idp: Idp, key: Key | None = None, **claims: Any) -> str:
    now = int(time.time())
    said = {
        "iss": idp.url,
        "aud": "chamber",
        "iat": now,
        "exp": now + 120,
        "jti": str(time.monotonic_ns()),
        "events": {LOGGED_OUT: {}},
        **claims,
    }
    return (key or idp.key).sign({name: value for name, value in said.items() if value is not None})


def told(idp: Idp, **claims: Any) -> int:
    return Client().post(ENDED, {"logout_token": logout_token(idp, **claims)}).status_code


def test_signing_out_here_leads_to_where_one_signs_out_there(idp: Idp, provider: Provider) -> None:
    client, _ = sign_in(idp, "ada")
    answer = client.post("/sign-out/")
    assert "You are signed out here" in answer.content.decode()
    assert not is_in(client)
    url = urlsplit(left_for(answer))
    asked = parse_qs(url.query)
    assert f"{url.scheme}://{url.netloc}" == idp.url
    assert asked["client_id"] == ["chamber"]
    assert asked["post_logout_redirect_uri"] == ["http://testserver/sign-in/"]
    assert asked["id_token_hint"][0].count(".") == 2


def test_the_id_token_is_kept_encrypted(idp: Idp, provider: Provider) -> None:
    client, _ = sign_in(idp, "ada")
    kept = client.session["provider-sign-in"]["id_token"]
    assert kept.startswith("gAAAA")
    assert "eyJ" not in repr(dict(client.session))


@pytest.mark.parametrize("case", ["knows no such thing", "is away", "key is lost"])
def test_one_is_signed_out_here_whatever_becomes_of_the_provider(
    idp: Idp, provider: Provider, settings: Settings, case: str
) -> None:
    client, _ = sign_in(idp, "ada")
    caches["process"].clear()
    if case == "knows no such thing":
        idp.discovery = {"end_session_endpoint": None}
    elif case == "is away":
        idp.away = True
    else:
        settings.IDENTITY_PROVIDERS = ()
    assert client.post("/sign-out/").headers["Location"] == "/sign-in/"
    assert not is_in(client)


def test_who_signed_in_by_password_is_not_sent_there(provider: Provider) -> None:
    make_user("bob", password=PHRASE)
    client = Client()
    client.post("/sign-in/", {"login": "bob", "password": PHRASE})
    assert client.post("/sign-out/").headers["Location"] == "/sign-in/"


def test_a_session_that_ended_there_ends_here(idp: Idp, provider: Provider) -> None:
    one, two = with_sid(idp, "s1"), with_sid(idp, "s2")
    assert told(idp, sid="s1") == 200
    assert (is_in(one), is_in(two)) == (False, True)
    [row] = AuditEvent.objects.filter(action="person.signed-out")
    assert (row.actor, row.address, row.after) == (
        "provider acme",
        "127.0.0.1",
        {"provider": "acme", "sessions": 1},
    )


def test_all_sessions_of_who_signed_out_there_end_but_not_those_by_password(
    idp: Idp, provider: Provider
) -> None:
    one, two = with_sid(idp, "s1"), with_sid(idp, "s2")
    ada = User.objects.get()
    ada.set_password(PHRASE)
    ada.save()
    one, two = with_sid(idp, "s1"), with_sid(idp, "s2")
    other = Client()
    other.post("/sign-in/", {"login": ada.username, "password": PHRASE})
    assert told(idp, sub="ada") == 200
    assert (is_in(one), is_in(two), is_in(other)) == (False, False, True)
    assert UserSession.objects.filter(user=ada).count() == 1


def test_somebody_else_s_sessions_go_on(idp: Idp, provider: Provider) -> None:
    client = with_sid(idp, "s1")
    assert told(idp, sub="bob") == 200
    assert told(idp, sid="s1", sub="bob") == 200
    assert is_in(client)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"iss": "https://elsewhere.example"}, "issuer"),
        ({"aud": "another"}, "Audience"),
        ({"events": {}}, "tells of no sign-out"),
        ({"events": "x"}, "tells of no sign-out"),
        ({"nonce": "x"}, "it is an ID token"),
        ({"sid": None, "sub": None}, "neither a session nor a person"),
        ({"jti": None}, "jti"),
        ({"exp": 1}, "expired"),
    ],
)
def test_what_does_not_tell_of_a_sign_out_ends_nothing(
    idp: Idp, provider: Provider, claims: dict[str, Any], why: str
) -> None:
    client = with_sid(idp, "s1")
    token = logout_token(idp, **{"sid": "s1", **claims})
    answer = Client().post(ENDED, {"logout_token": token})
    assert answer.status_code == 400
    assert answer.json()["error"] == "invalid_request"
    assert why in answer.json()["error_description"]
    assert is_in(client)


def test_a_logout_token_is_of_the_provider_and_used_once(idp: Idp, provider: Provider) -> None:
    client = with_sid(idp, "s1")
    forged = logout_token(idp, Key("one"), sid="s1")
    assert Client().post(ENDED, {"logout_token": forged}).status_code == 400
    assert is_in(client)
    token = logout_token(idp, sid="s1")
    assert Client().post(ENDED, {"logout_token": token}).status_code == 200
    client = with_sid(idp, "s1")
    assert Client().post(ENDED, {"logout_token": token}).status_code == 400
    assert is_in(client)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "9" * 6000])
def test_what_is_no_token_ends_nothing(provider: Provider, token: str) -> None:
    assert Client().post(ENDED, {"logout_token": token}).status_code == 400


def test_one_address_may_tell_of_any_number_that_signed_out_and_of_few_that_did_not(
    idp: Idp, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chamber.authentication.TRIES_PER_ADDRESS", 2)
    for number in range(4):
        token = logout_token(idp, sid=f"s{number}")
        assert Client().post(ENDED, {"logout_token": token}).status_code == 200
    assert [Client().post(ENDED, {"logout_token": "x"}).status_code for _ in range(3)] == [400, 400, 429]


def test_only_providers_that_are_configured_are_heard(configure: Configure, idp: Idp) -> None:
    token = logout_token(idp, sid="s1")
    assert Client().post("/sign-in/with/other/ended/", {"logout_token": token}).status_code == 404
    assert Client().get(ENDED).status_code == 405


def test_tokens_are_counted_where_redis_is_away(
    idp: Idp, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError

    token = logout_token(idp, sid="s1")
    monkeypatch.setattr(cache, "add", fail)
    assert Client().post(ENDED, {"logout_token": token}).status_code == 200
    assert Client().post(ENDED, {"logout_token": token}).status_code == 400
