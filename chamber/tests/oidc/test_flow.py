"""The code flow with PKCE against a real provider, and what is refused of it."""

import base64
import hashlib
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from allauth.socialaccount.models import SocialAccount
from django.core.cache import caches
from django.test import Client

from chamber.models import User
from chamber.oidc.providers import Provider
from chamber.tests.oidc.conftest import Configure
from chamber.tests.oidc.idp import Idp, Key, left_for, sign_in
from teams.models import AuditEvent, Team

pytestmark = [pytest.mark.django_db, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def is_in(client: Client) -> bool:
    return client.get("/settings/").status_code == 200


def told(action: str) -> list[tuple[str, str, str | None, object]]:
    rows = AuditEvent.objects.filter(action=action)
    return list(rows.values_list("actor", "target_name", "address", "after"))


def refused(idp: Idp, sub: str = "ada") -> str:
    """Sign in, which comes to nothing; return what is said."""
    client, answer = sign_in(idp, sub)
    assert answer.status_code == 403
    assert not is_in(client)
    assert not SocialAccount.objects.exists()
    return str(answer.content.decode())


def test_somebody_is_made_on_their_first_sign_in_and_found_on_the_next(
    idp: Idp, provider: Provider, acme: Team
) -> None:
    idp.person(
        "ada",
        email="Ada@Acme.example",
        email_verified=True,
        preferred_username="Ada.L",
        given_name="Ada",
        family_name="Lovelace",
    )
    client, answer = sign_in(idp, "ada", next="/tokens/")
    assert answer.headers["Location"] == "/tokens/"
    assert is_in(client)
    ada = User.objects.get()
    assert (ada.username, ada.email, str(ada)) == ("ada.l", "ada@acme.example", "Ada Lovelace")
    assert not ada.has_usable_password()
    assert told("person.made") == [
        (
            "provider acme",
            "ada.l",
            "127.0.0.1",
            {"username": "ada.l", "email": "ada@acme.example", "provider": "acme"},
        )
    ]
    assert told("person.signed-in") == [("ada.l", "ada.l", "127.0.0.1", {"provider": "acme"})]
    sign_in(idp, "ada")
    assert (User.objects.count(), SocialAccount.objects.count()) == (1, 1)
    assert SocialAccount.objects.get().extra_data == {
        "issuer": idp.url,
        "email": "ada@acme.example",
        "groups": [],
    }


@pytest.mark.parametrize(
    "onward",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example/",
        "javascript:alert(1)",
        "http:evil.example",
        "/tokens/?" + "x" * 2000,
    ],
)
@pytest.mark.usefixtures("provider", "acme")
def test_one_is_led_on_within_this_server_only(idp: Idp, onward: str) -> None:
    client, answer = sign_in(idp, "ada", next=onward)
    assert answer.headers["Location"] == "/"
    assert is_in(client)


def test_the_sign_in_page_offers_it_and_leads_there_by_a_page_of_its_own(
    idp: Idp, provider: Provider, client: Client
) -> None:
    assert "Sign in with Acme SSO" in client.get("/sign-in/").content.decode()
    assert client.get("/sign-in/with/acme/").headers["Location"] == "/sign-in/"
    assert client.post("/sign-in/with/other/").status_code == 404
    answer = client.post("/sign-in/with/acme/")
    url = left_for(answer)
    assert url.replace("&", "&amp;") in answer.content.decode()
    asked = parse_qs(urlsplit(url).query)
    assert set(asked["scope"][0].split()) == {"openid", "profile", "email"}
    assert asked["redirect_uri"] == ["http://testserver/sign-in/with/acme/back/"]
    assert (asked["response_type"], asked["code_challenge_method"]) == (["code"], ["S256"])


def test_the_code_is_bound_to_the_browser_by_pkce(idp: Idp, provider: Provider, acme: Team) -> None:
    idp.discovery = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    client = Client()
    url = left_for(client.post("/sign-in/with/acme/"))
    client.get(idp.sent_back(url, "ada"))
    [form] = [form for path, form in idp.asked if path == "/oauth2/token"]
    digest = hashlib.sha256(form["code_verifier"][0].encode()).digest()
    challenge = parse_qs(urlsplit(url).query)["code_challenge"][0]
    assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == challenge.rstrip("=")
    assert form["client_secret"] == ["secret of the client"]


def test_the_secret_goes_into_a_header_where_the_operator_says_so(
    idp: Idp, configure: Configure, acme: Team
) -> None:
    configure(allowed_domains=["acme.example"], client_authentication="client_secret_basic")
    client, _ = sign_in(idp, "ada")
    assert is_in(client)
    [form] = [form for path, form in idp.asked if path == "/oauth2/token"]
    assert "client_secret" not in form


def test_a_key_that_was_changed_is_asked_for_anew(idp: Idp, provider: Provider, acme: Team) -> None:
    sign_in(idp, "ada")
    idp.key = idp.published = Key("two")
    client, _ = sign_in(idp, "ada")
    assert is_in(client)
    idp.key = idp.published = Key("two")
    client, _ = sign_in(idp, "ada")
    assert is_in(client), "also under the name of the one before"


def test_a_key_that_the_provider_does_not_have_signs_nobody_in(
    idp: Idp, provider: Provider, acme: Team, caplog: pytest.LogCaptureFixture
) -> None:
    idp.key = Key("one")
    assert "cannot be used" in refused(idp)
    idp.key = Key("of somebody")
    refused(idp)
    assert "'of somebody', which the provider does not have" in caplog.text
    assert told("person.sign-in-failed")[0] == (
        "anonymous",
        "(no such account)",
        "127.0.0.1",
        {"provider": "acme"},
    )


def changed(**values: Any) -> Any:
    return lambda claims: {**claims, **values}


def without(*names: str) -> Any:
    return lambda claims: {name: value for name, value in claims.items() if name not in names}


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        (changed(iss="https://elsewhere.example"), "Invalid issuer"),
        (changed(aud="another"), "Audience doesn't match"),
        (changed(aud=["chamber", "another"]), "among several"),
        (changed(azp="another"), "made for 'another'"),
        (changed(nonce="of another sign-in"), "nonce is not that of this sign-in"),
        (without("nonce"), "nonce is not that of this sign-in"),
        (without("exp"), 'missing the "exp" claim'),
        (without("sub"), 'missing the "sub" claim'),
        (changed(sub="somebody-else"), "another subject than the ID token"),
        (changed(exp=int(time.time()) - 3600), "expired"),
        (changed(iat=int(time.time()) + 3600), "not yet valid"),
    ],
)
@pytest.mark.usefixtures("provider", "acme")
def test_a_token_that_is_not_of_this_sign_in_is_refused(
    idp: Idp, caplog: pytest.LogCaptureFixture, claims: Any, why: str
) -> None:
    idp.claims = claims
    refused(idp)
    assert why in caplog.text


@pytest.mark.parametrize(("seconds", "comes_in"), [(-50, True), (50, True), (-90, False), (90, False)])
def test_clocks_may_be_a_minute_apart(
    idp: Idp, provider: Provider, acme: Team, seconds: int, comes_in: bool
) -> None:
    now = int(time.time())
    idp.claims = changed(iat=now + seconds, exp=now + seconds if seconds < 0 else now + 3600)
    client, _ = sign_in(idp, "ada")
    assert is_in(client) == comes_in


def test_a_token_without_a_signature_is_refused(idp: Idp, provider: Provider, acme: Team) -> None:
    class Unsigned(Key):
        def sign(self, claims: Any, **headers: Any) -> str:
            return jwt.encode(claims, "", algorithm="none", headers={**headers, "kid": self.kid})

    idp.key = Unsigned("one")
    refused(idp)


def test_a_code_is_used_once(idp: Idp, provider: Provider, acme: Team) -> None:
    client = Client()
    back = idp.sent_back(left_for(client.post("/sign-in/with/acme/")), "ada")
    assert client.get(back).status_code == 302
    client.logout()
    code = parse_qs(urlsplit(back).query)["code"][0]
    url = left_for(client.post("/sign-in/with/acme/"))
    state = parse_qs(urlsplit(url).query)["state"][0]
    assert client.get(f"/sign-in/with/acme/back/?code={code}&state={state}").status_code == 403
    assert not is_in(client)


def test_a_state_is_used_once_and_by_its_browser_only(idp: Idp, provider: Provider, acme: Team) -> None:
    mine = Client()
    back = idp.sent_back(left_for(mine.post("/sign-in/with/acme/")), "ada")
    theirs = Client()
    assert theirs.get(back).status_code == 403
    assert not is_in(theirs)
    query = urlsplit(back).query
    code = parse_qs(query)["code"][0]
    for wrong in (f"code={code}", f"code={code}&state=made-up", ""):
        assert mine.get(f"/sign-in/with/acme/back/?{wrong}").status_code == 403
    assert mine.get(back).status_code == 302
    mine.logout()
    assert mine.get(back).status_code == 403, "a replayed state"


def test_who_gives_up_there_is_told_so_and_nobody_is_blamed(
    idp: Idp, provider: Provider, client: Client
) -> None:
    url = left_for(client.post("/sign-in/with/acme/"))
    state = parse_qs(urlsplit(url).query)["state"][0]
    answer = client.get(f"/sign-in/with/acme/back/?error=access_denied&state={state}")
    assert "You did not sign in there" in answer.content.decode()
    assert told("person.sign-in-failed") == []


def test_what_a_provider_answers_in_place_of_a_code_is_told(
    idp: Idp, provider: Provider, client: Client
) -> None:
    state = parse_qs(urlsplit(left_for(client.post("/sign-in/with/acme/"))).query)["state"][0]
    answer = client.get(f"/sign-in/with/acme/back/?error=temporarily_unavailable&state={state}")
    assert "Acme SSO did not sign you in: it answered temporarily_unavailable." in answer.content.decode()
    for query in ("error=call_us_now", "error=call_us_now&state=made-up", f"error=Call 0900!&state={state}"):
        text = client.get(f"/sign-in/with/acme/back/?{query}").content.decode()
        assert "What came back cannot be used" in text, "what anybody could write is not repeated"
        assert "call" not in text.casefold().replace("callback", "")


def test_what_is_sent_back_writes_no_line_of_the_log(
    idp: Idp, provider: Provider, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    state = parse_qs(urlsplit(left_for(client.post("/sign-in/with/acme/"))).query)["state"][0]
    client.get("/sign-in/with/acme/back/", {"error": "x\n2026 INFO All is well", "state": state})
    assert "came to nothing: an answer of another form" in caplog.text
    assert "All is well" not in caplog.text


def test_a_provider_that_is_away_is_told(idp: Idp, provider: Provider, client: Client, acme: Team) -> None:
    idp.away = True
    answer = client.post("/sign-in/with/acme/")
    assert answer.status_code == 403
    assert "Acme SSO cannot be reached" in answer.content.decode()
    idp.away = False
    back = idp.sent_back(left_for(client.post("/sign-in/with/acme/")), "ada")
    idp.away = True
    caches["process"].clear()
    assert client.get(back).status_code == 403


def test_a_provider_that_says_it_is_another_is_not_asked(
    idp: Idp, provider: Provider, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    idp.discovery = {"issuer": "https://elsewhere.example"}
    assert client.post("/sign-in/with/acme/").status_code == 403
    assert "says that it is the issuer 'https://elsewhere.example'" in caplog.text


@pytest.mark.parametrize(
    "discovery",
    [{"token_endpoint": None}, {"authorization_endpoint": "javascript:alert(1)"}, {"jwks_uri": 7}],
)
def test_what_a_provider_says_of_itself_is_typed(
    idp: Idp, provider: Provider, client: Client, discovery: dict[str, Any]
) -> None:
    idp.discovery = discovery
    assert client.post("/sign-in/with/acme/").status_code == 403


def test_whoever_is_signed_in_here_becomes_who_signs_in_there(
    idp: Idp, provider: Provider, olga: User, client: Client
) -> None:
    client.force_login(olga)
    sign_in(idp, "ada", client)
    assert client.get("/api/v1/me/").json()["username"] == "ada.l"


def test_tries_are_bounded(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chamber.authentication.TRIES_PER_ADDRESS", 2)
    client = Client()
    for _ in range(2):
        assert client.post("/sign-in/with/acme/").status_code == 200
    assert client.post("/sign-in/with/acme/").status_code == 429
    assert client.get("/sign-in/with/acme/back/").status_code == 429
