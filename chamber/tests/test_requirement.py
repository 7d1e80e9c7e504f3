"""Second factors that the organisation requires: people are told, then they can only set one up; at every door."""

from datetime import timedelta

import pytest
from django.core.cache import cache, caches
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import DjangoAssertNumQueries, Settings

from chamber import live, requirement, sessions, standing
from chamber.factors.reading import has_factor
from chamber.models import ApiToken, Scope, User
from chamber.requirement import CODE
from chamber.tests.factors.conftest import PHRASE, SECRET, begun, with_app
from chamber.tests.factors.devices import code_of, give_passkey
from chamber.tokens import create_token
from teams import actions, sign_in
from teams.actors import Actor
from teams.models import Role, SignInPolicy, Team
from teams.tests.factories import make_org, make_team, member

pytestmark = pytest.mark.django_db
SYSTEM = Actor.system("test")


@pytest.fixture(autouse=True)
def _no_tries_yet() -> None:
    cache.clear()


@pytest.fixture
def acme() -> Team:
    return make_org("Acme")


@pytest.fixture
def ada(acme: Team) -> User:
    return member(make_team(acme, "NLP"), Role.RESEARCHER, "ada", password=PHRASE)


@pytest.fixture
def page(client: Client, ada: User) -> Client:
    client.force_login(ada)
    return client


def asked_for(*, days: int = 0, ago: float = 0.0) -> SignInPolicy:
    """Have the organisation require second factors with so many days of grace, since so many days."""
    policy = actions.require_second_factor(by=SYSTEM, version=0, required=True, grace_days=days)
    SignInPolicy.objects.update(required_since=timezone.now() - timedelta(days=ago))
    sign_in.forget()
    return policy


def bearer(user: User) -> dict[str, str]:
    _, secret = create_token(user=user, name="x", scope=Scope.MANAGE, days=1)
    return {"Authorization": f"Bearer {secret}"}


def test_nobody_is_asked_where_none_is_required(
    page: Client, ada: User, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    assert "second factor" not in page.get("/").content.decode()
    with django_assert_num_queries(0):
        assert not requirement.holds_back(ada)


def test_until_the_days_of_grace_are_over_people_are_told_by_when(page: Client, ada: User) -> None:
    asked_for(days=14, ago=4)
    until = timezone.now() + timedelta(days=10)
    text = page.get("/").content.decode()
    assert f"From {until:%-d %B %Y}" in text
    assert 'data-live-socket="/ws/live/"' in text
    assert page.get("/api/v1/me/").json()["second_factor_due"].startswith(f"{until:%Y-%m-%d}")
    give_passkey(ada)
    assert "you need a second factor" not in page.get("/").content.decode()
    assert page.get("/api/v1/me/").json()["second_factor_due"] is None


def test_after_them_pages_lead_to_where_one_sets_it_up(page: Client, ada: User) -> None:
    asked_for(days=14, ago=15)
    for path in ("/", "/workloads/", "/settings/", "/tokens/", "/teams/nlp/"):
        assert page.get(path).headers.get("Location") == "/settings/factors/", path
    answer = page.get("/workloads/", headers={"HX-Request": "true"})
    assert (answer.status_code, answer.headers["HX-Redirect"]) == (403, "/settings/factors/")
    text = page.get("/settings/factors/").content.decode()
    assert "The organisation requires a second factor" in text
    assert "data-live-socket" not in text, "a socket that is closed would load the page again for ever"
    assert page.get("/settings/factors/app/").status_code == 200
    give_passkey(ada)
    assert page.get("/").status_code == 200


def test_who_signs_in_without_one_sets_it_up_and_goes_on(ada: User) -> None:
    asked_for()
    client = Client()
    client.post("/sign-in/", {"login": "ada", "password": PHRASE})
    assert client.get("/").status_code == 302
    text = client.get("/settings/factors/app/").content.decode()
    secret = text.partition('<code id="key">')[2].partition("<")[0]
    assert client.post("/settings/factors/app/", {"code": code_of(secret)}).status_code == 200
    assert client.get("/").status_code == 200
    assert client.post("/sign-out/").status_code == 302


def test_who_has_one_goes_on(ada: User) -> None:
    with_app(ada)
    asked_for()
    client = begun()
    assert client.post("/sign-in/factor/", {"code": code_of(SECRET)}).status_code == 302
    assert client.get("/").status_code == 200


def test_the_api_lets_nobody_in_by_session_or_token(page: Client, ada: User) -> None:
    held = bearer(ada)
    asked_for()
    for headers in ({}, held):
        answer = page.get("/api/v1/workloads/", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, CODE)
        assert "set one up" in answer.json()["detail"]
    give_passkey(ada)
    assert Client().get("/api/v1/workloads/", headers=held).status_code == 200, "the token works again"


def test_a_password_makes_no_token(client: Client, ada: User) -> None:
    asked_for()
    body = {"username": "ada", "password": PHRASE}
    answer = client.post("/api/v1/login/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (403, CODE)
    assert not ApiToken.objects.exists()


def test_streams_sockets_and_kept_fragments_ask_the_same(page: Client, ada: User) -> None:
    key = page.session.session_key or ""
    token = create_token(user=ada, name="x", scope=Scope.READ, days=1)[0]
    by_session = standing.StreamStanding(ada.pk, session_key=key)
    by_token = standing.StreamStanding(ada.pk, token=token)
    assert (by_session.user(), by_token.user()) == (ada, ada)
    asked_for()
    assert (by_session.user(), by_token.user()) == (None, None)
    assert sessions.user_of(key) is None


def test_the_last_factor_is_not_removed_while_one_is_required(page: Client, ada: User) -> None:
    with_app(ada)
    key = give_passkey(ada)
    asked_for(days=30)
    page.post(f"/settings/factors/{key.pk}/remove/")
    [left] = [each for each in ada.authenticator_set.all() if each.type == "totp"]  # type: ignore[attr-defined]
    answer = page.post(f"/settings/factors/{left.pk}/remove/", follow=True)
    assert "add another one before you remove your last" in answer.content.decode()
    assert has_factor(ada)


def test_open_pages_are_told_once_that_the_days_are_over(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(live, "announce", lambda *topics: told.extend(topics))
    asked_for(days=14)
    told.clear()
    now = timezone.now()
    assert requirement.tell(now) == 0
    assert requirement.tell(now + timedelta(days=15)) == 1
    assert told == ["teams", f"user:{ada.pk}"]
    assert requirement.tell(now + timedelta(days=15)) == 0


def test_other_processes_learn_of_it_within_seconds(ada: User, settings: Settings) -> None:
    sign_in.forget()
    assert sign_in.required_from() is None
    SignInPolicy.objects.create(team=Team.objects.get(depth=0), required_since=timezone.now(), grace_days=0)
    assert sign_in.required_from() is None, "another process changed it just now"
    assert sign_in.KEPT_SECONDS < 5
    caches["process"].clear()
    assert requirement.holds_back(ada)
