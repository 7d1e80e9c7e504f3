"""What holds for answers whichever view gives them: headers, methods, other sites, and where a sign-in leads."""

from http import HTTPStatus

import pytest
from django.conf import settings
from django.test import Client

from chamber.models import User
from teams.models import Role
from teams.tests.factories import make_org, member
from tests.test_role_walk import ROWS, World, world

__all__ = ["world"]

pytestmark = pytest.mark.django_db
PASSWORD = "sieben Zwerge tanzen 🎻 um Mitternacht, " * 3
ELSEWHERE = "https://elsewhere.example"


@pytest.fixture
def olga(client: Client) -> Client:
    client.force_login(member(make_org(), Role.ORG_ADMIN, "olga"))
    return client


@pytest.mark.parametrize("path", ["/", "/sign-in/", "/api/v1/me/", "/livez", "/nothing/", "/api/v1/nothing/"])
def test_each_answer_has_the_headers_that_bound_it(olga: Client, path: str) -> None:
    answer = olga.get(path)
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in answer["Content-Security-Policy"]
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "same-origin"
    assert answer.status_code in {302, 304} or answer["Content-Type"]


def test_browsers_keep_nothing_of_who_is_signed_in(world: World, client: Client) -> None:
    client.force_login(world.users["org-admin"])
    part = {"X-Chamber-Fragment": "1"}
    kept = {
        name: answer["Cache-Control"]
        for method, name in ROWS
        if method == "GET"
        for answer in [client.get(world.address(name), headers=part if name == "teams:row" else {})]
        if "no-store" not in answer["Cache-Control"]
    }
    assert kept == {}


def test_the_sentence_after_an_act_lies_in_no_cookie(olga: Client) -> None:
    olga.post("/settings/", {"name": "Olga Other"})
    assert set(olga.cookies) == {settings.SESSION_COOKIE_NAME}
    assert [str(each) for each in olga.get("/settings/").context["messages"]] == ["Your profile is changed."]


def test_no_other_site_is_let_read_an_answer(olga: Client) -> None:
    for path in ("/", "/api/v1/me/"):
        answer = olga.options(path, headers={"origin": ELSEWHERE, "access-control-request-method": "POST"})
        assert not [name for name in answer.headers if name.lower().startswith("access-control-")]


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PROPFIND", "PURGE"])
def test_a_method_that_nobody_takes_is_refused(olga: Client, method: str) -> None:
    for path in ("/tokens/", "/api/v1/me/"):
        assert olga.generic(method, path).status_code in {
            HTTPStatus.FORBIDDEN,
            HTTPStatus.METHOD_NOT_ALLOWED,
        }


def test_what_a_session_changes_takes_the_token_of_its_page() -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(member(make_org(), Role.ORG_ADMIN, "olga"))
    assert strict.post("/settings/", {"name": "Somebody else"}).status_code == HTTPStatus.FORBIDDEN
    answer = strict.post("/api/v1/teams/", {}, content_type="application/json")
    assert (answer.status_code, "forgery" in answer.json()["detail"]) == (HTTPStatus.FORBIDDEN, True)


def test_a_sign_in_leads_to_no_other_site(client: Client) -> None:
    person = member(make_org(), Role.VIEWER, "vic")
    person.set_password(PASSWORD)
    person.save()
    for there in (f"{ELSEWHERE}/", "//elsewhere.example/", "https:elsewhere.example", "javascript:alert(1)"):
        answer = Client().post("/sign-in/", {"login": "vic", "password": PASSWORD, "next": there})
        assert (answer.status_code, answer["Location"]) == (HTTPStatus.FOUND, "/"), there


def test_a_sign_in_begins_a_session_that_nobody_knew_before() -> None:
    person = member(make_org(), Role.VIEWER, "vic")
    person.set_password(PASSWORD)
    person.save()
    client = Client()
    planted = client.session
    planted["x"] = 1
    planted.save()
    client.cookies[settings.SESSION_COOKIE_NAME] = str(planted.session_key)
    client.post("/sign-in/", {"login": "vic", "password": PASSWORD})
    assert client.get("/").status_code == HTTPStatus.OK
    assert client.cookies[settings.SESSION_COOKIE_NAME].value != planted.session_key


def test_a_long_password_of_any_characters_counts_to_its_end() -> None:
    person = member(make_org(), Role.VIEWER, "vic")
    person.set_password(PASSWORD)
    person.save()
    assert len(PASSWORD) > 100
    assert User.objects.get(pk=person.pk).check_password(PASSWORD)
    assert not User.objects.get(pk=person.pk).check_password(PASSWORD[:-1])
