"""Bearer tokens, their scopes, and signing in for one."""

import logging
from datetime import timedelta
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from django.core.cache import cache, caches
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from chamber import authentication, counts, logs
from chamber.authentication import (
    COMPARISONS_AT_ONCE,
    TRIES_PER_ADDRESS,
    TRIES_PER_NAME,
    TRIES_PER_NAME_FROM_EVERYWHERE,
    TokenScope,
)
from chamber.models import ApiToken, Scope, User
from chamber.names import users_named
from chamber.tokens import create_token, includes
from teams.models import Role
from teams.tests.factories import make_org, make_team, make_user, member, set_rules

pytestmark = pytest.mark.stores

ME = "/api/v1/me/"
TOKENS = "/api/v1/tokens/"
LOGIN = "/api/v1/login/"


@pytest.fixture(autouse=True)
def _no_tries_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    # No window ends in the middle of a test.
    monkeypatch.setattr(counts, "time", SimpleNamespace(time=lambda: 300_000_100.0, monotonic=monotonic))
    monkeypatch.setattr(counts, "_ask_from", 0.0)


@pytest.fixture
def ada(db: None) -> User:
    return make_user("ada", password="difference engine", first_name="Ada", last_name="Lovelace")


def token_of(user: User, scope: Scope = Scope.ADMIN, days: int = 30) -> tuple[ApiToken, dict[str, Any]]:
    token, secret = create_token(user=user, name="laptop", scope=scope, days=days)
    return token, {"HTTP_AUTHORIZATION": f"Bearer {secret}"}


def sign_in(client: Client, **body: object) -> Any:
    content = {"username": "ada", "password": "difference engine", **body}
    return client.post(LOGIN, content, content_type="application/json")


def test_a_token_says_who_asks(client: Client, ada: User) -> None:
    token, bearer = token_of(ada, Scope.READ)

    me = client.get(ME, **bearer).json()

    assert (me["username"], me["name"]) == ("ada", "Ada Lovelace")
    assert (me["token"]["id"], me["token"]["scope"]) == (str(token.pk), "read")


def test_the_secret_is_stored_nowhere(ada: User) -> None:
    token, secret = create_token(user=ada, name="laptop", scope=Scope.READ, days=1)

    row = ApiToken.objects.filter(pk=token.pk).values().get()
    assert secret not in map(str, row.values())
    assert row["token_hash"] == ApiToken.hash_of(secret)


@pytest.mark.parametrize("spoil", ["revoked", "expired", "inactive", "unknown"])
def test_a_token_that_is_not_valid_is_answered_with_a_challenge(
    client: Client, ada: User, spoil: str
) -> None:
    token, bearer = token_of(ada)
    now = timezone.now()
    if spoil == "revoked":
        ApiToken.objects.filter(pk=token.pk).update(revoked_at=now)
    elif spoil == "expired":
        ApiToken.objects.filter(pk=token.pk).update(expires_at=now - timedelta(seconds=1))
    elif spoil == "inactive":
        User.objects.filter(pk=ada.pk).update(is_active=False)
    else:
        token.delete()

    answer = client.get(ME, **bearer)

    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"
    assert answer["Content-Type"] == "application/problem+json"


def test_without_token_and_session_the_api_asks_for_one(client: Client, db: None) -> None:
    answer = client.get(ME)

    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, "Bearer")


def test_last_use_is_written_at_most_once_a_minute(client: Client, ada: User) -> None:
    token, bearer = token_of(ada)
    client.get(ME, **bearer)
    token.refresh_from_db()
    first = token.last_used_at
    assert first is not None

    client.get(ME, **bearer)
    token.refresh_from_db()
    assert token.last_used_at == first

    ApiToken.objects.filter(pk=token.pk).update(last_used_at=first - timedelta(seconds=61))
    client.get(ME, **bearer)
    token.refresh_from_db()
    assert token.last_used_at is not None
    assert token.last_used_at > first - timedelta(seconds=61)


def test_a_token_costs_one_query(
    client: Client, ada: User, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    _, bearer = token_of(ada)
    client.get(ME, **bearer)

    # The token with its user, the page of tokens.
    with django_assert_num_queries(2):
        client.get(TOKENS, **bearer)


@pytest.mark.parametrize(
    ("scope", "method", "needs", "allowed"),
    [
        (Scope.READ, "GET", None, True),
        (Scope.READ, "POST", None, False),
        (Scope.READ, "POST", "submit", False),
        (Scope.SUBMIT, "GET", None, True),
        (Scope.SUBMIT, "POST", "submit", True),
        (Scope.SUBMIT, "POST", None, False),
        (Scope.SUBMIT, "DELETE", None, False),
        (Scope.SUBMIT, "POST", "manage", False),
        (Scope.MANAGE, "POST", "manage", True),
        (Scope.MANAGE, "POST", "submit", True),
        (Scope.MANAGE, "POST", None, False),
        (Scope.ADMIN, "POST", None, True),
        (Scope.ADMIN, "POST", "submit", True),
        (None, "POST", None, True),
    ],
)
def test_the_scope_bounds_what_a_token_reaches(
    scope: Scope | None, method: str, needs: str | None, allowed: bool
) -> None:
    class View:
        pass

    class Request:
        auth = ApiToken(scope=scope) if scope else None
        user = User()

    view, request = View(), Request()
    request.method = method  # type: ignore[attr-defined]
    if needs:
        view.token_scope = needs  # type: ignore[attr-defined]

    assert TokenScope().has_permission(request, view) is allowed  # type: ignore[arg-type]


def test_scopes_include_the_smaller_ones() -> None:
    assert includes("admin", "manage")
    assert includes("manage", "submit")
    assert includes("submit", "submit")
    assert not includes("read", "submit")


def test_a_password_gives_a_token(client: Client, ada: User) -> None:
    answer = sign_in(client, name="ci", scope="submit", expires_in_days=7)

    made = answer.json()
    assert (answer.status_code, answer["Cache-Control"]) == (201, "no-store")
    assert client.get(ME, HTTP_AUTHORIZATION=f"Bearer {made['token']}").json()["token"]["name"] == "ci"
    token = ApiToken.objects.get()
    assert token.expires_at is not None
    assert token.scope == "submit"
    assert timedelta(days=6) < token.expires_at - timezone.now() <= timedelta(days=7)


def test_a_wrong_password_gives_none(client: Client, ada: User) -> None:
    answer = sign_in(client, password="analytical engine")

    assert answer.status_code == 401
    assert answer.json()["detail"] == "The user name and the password do not go together."
    assert not ApiToken.objects.exists()


def test_an_unknown_scope_is_refused_with_its_field(client: Client, ada: User) -> None:
    answer = sign_in(client, scope="root")

    assert answer.status_code == 422
    assert "root" in answer.json()["errors"]["scope"]


def test_too_many_tries_for_a_name_are_refused_even_with_the_right_password(
    client: Client, ada: User
) -> None:
    for _ in range(TRIES_PER_NAME):
        assert sign_in(client, password="wrong").status_code == 401

    answer = sign_in(client)

    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= 300
    assert sign_in(client, username="grace").status_code == 401, "another name is not locked"


@pytest.mark.stores
def test_a_name_written_with_another_letter_signs_nobody_in_past_the_bound(client: Client, db: None) -> None:
    make_user("mia", password="difference engine")
    assert sign_in(client, username="MIA").status_code == 201
    assert sign_in(client, username="m\u0131a").status_code == 401
    assert users_named("m\u0131a") == []


@pytest.mark.parametrize("wrong", [{"scop": "read"}, {"days": 7}, {"teams": "nlp"}])
def test_a_token_is_not_made_where_a_field_is_not_known(
    client: Client, ada: User, wrong: dict[str, object]
) -> None:
    made = ApiToken.objects.count()
    body = {"username": "ada", "password": "difference engine", "name": "x", "scope": "read"}
    answer = client.post(LOGIN, body | wrong, content_type="application/json")
    assert answer.status_code == 422
    assert next(iter(wrong)) in answer.json()["errors"]
    assert ApiToken.objects.count() == made


def test_nobody_is_locked_out_from_another_address(client: Client, ada: User) -> None:
    for _ in range(TRIES_PER_NAME + 1):
        sign_in(client, password="wrong")

    assert sign_in(Client(REMOTE_ADDR="192.0.2.7")).status_code == 201


def test_too_many_names_from_one_address_are_refused(client: Client, ada: User) -> None:
    for number in range(TRIES_PER_ADDRESS):
        sign_in(client, username=f"user{number}")

    assert sign_in(client).status_code == 429


def test_a_flood_of_tries_is_a_sentence_in_the_log_once_in_a_while(
    client: Client, ada: User, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "_told", logs.Seldom(every_seconds=60))
    for _ in range(TRIES_PER_NAME + 5):
        sign_in(client, password="wrong")

    (record,) = [record for record in caplog.records if record.name == "chamber.authentication"]
    assert record.levelno == logging.WARNING
    assert record.getMessage() == "Tries to sign in from 127.0.0.1 are refused: there are too many."


def test_the_addresses_of_one_ipv6_network_count_as_one(client: Client, ada: User) -> None:
    statuses = [
        client.post(
            LOGIN,
            {"username": f"nobody-{n}", "password": "x"},
            content_type="application/json",
            REMOTE_ADDR=f"2001:db8::{n:x}",
        ).status_code
        for n in range(TRIES_PER_ADDRESS + 1)
    ]

    assert statuses[-2:] == [401, 429]
    client.defaults["REMOTE_ADDR"] = "2001:db8:0:1::1"
    assert sign_in(client).status_code == 201


def test_the_right_password_empties_the_count(client: Client, ada: User) -> None:
    for _ in range(3):
        for _ in range(TRIES_PER_NAME - 1):
            sign_in(client, password="wrong")
        assert sign_in(client).status_code == 201


def test_the_sign_in_page_has_the_same_bound(client: Client, ada: User) -> None:
    wrong = {"login": "ada", "password": "wrong"}
    for _ in range(TRIES_PER_NAME):
        assert client.post("/sign-in/", wrong).status_code == 422

    answer = client.post("/sign-in/", {"login": "ada", "password": "difference engine"})

    assert answer.status_code == 429
    assert int(answer["Retry-After"]) > 0
    assert "Too many attempts" in answer.content.decode()
    assert "_auth_user_id" not in client.session


def test_me_lists_roles_and_where_which_priorities_are_allowed(client: Client, db: None) -> None:
    org = make_org("Acme")
    nlp, vision = make_team(org, "NLP"), make_team(org, "Vision")
    make_team(nlp, "Speech")
    set_rules(nlp, researcher_priority={"elastic_max": 60, "reserved_max": None})
    user = member(nlp, Role.RESEARCHER, "grace")
    _, bearer = token_of(user)

    me = client.get(ME, **bearer).json()

    assert me["roles"] == [{"team": "nlp", "team_name": "NLP", "role": "researcher"}]
    assert [may["team"] for may in me["may_submit_to"]] == ["nlp", "speech"]
    assert me["may_submit_to"][1]["elastic_max"] == 60
    assert me["may_submit_to"][1]["tiers"] == {"low": 25, "normal": 50}
    assert vision.slug not in str(me)


def test_tries_at_one_name_from_everywhere_are_bounded_too(client: Client, ada: User) -> None:
    statuses = [
        sign_in_from(client, f"192.0.2.{number // 5}", password="wrong")
        for number in range(TRIES_PER_NAME_FROM_EVERYWHERE + 1)
    ]

    assert statuses == [401] * TRIES_PER_NAME_FROM_EVERYWHERE + [429]


def test_nobody_is_locked_out_where_he_signed_in_before(client: Client, ada: User) -> None:
    assert sign_in_from(client, "198.51.100.7") == 201
    for number in range(TRIES_PER_NAME_FROM_EVERYWHERE + 1):
        sign_in_from(client, f"192.0.2.{number // 5}", password="wrong")

    assert sign_in_from(client, "203.0.113.9") == 429
    assert sign_in_from(client, "198.51.100.7") == 201


def test_only_a_few_passwords_are_compared_at_once(
    client: Client, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(COMPARISONS_AT_ONCE):
        authentication._comparing.acquire()
    try:
        answer = sign_in(client)
    finally:
        for _ in range(COMPARISONS_AT_ONCE):
            authentication._comparing.release()

    assert (answer.status_code, answer["Retry-After"]) == (429, "1")
    assert sign_in(client).status_code == 201


def test_tries_are_counted_by_the_process_itself_while_redis_is_away(
    client: Client, ada: User, settings: Any
) -> None:
    away = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}
    settings.CACHES = {**settings.CACHES, "default": away}
    caches["process"].clear()

    statuses = [sign_in(client, password="wrong").status_code for _ in range(TRIES_PER_NAME + 1)]

    assert statuses == [401] * TRIES_PER_NAME + [429]


def test_a_cache_that_does_not_answer_is_waited_for_once_by_a_sign_in(
    client: Client, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[str] = []

    class Hung:
        def __getattr__(self, name: str) -> Any:
            waited.append(name)
            raise redis.TimeoutError

    monkeypatch.setattr(counts, "caches", {"default": Hung(), "process": caches["process"]})

    assert sign_in(client).status_code == 201

    assert len(waited) == 1


def sign_in_from(client: Client, address: str, **body: object) -> int:
    content = {"username": "ada", "password": "difference engine", **body}
    answer = client.post(LOGIN, content, content_type="application/json", REMOTE_ADDR=address)
    return int(answer.status_code)
