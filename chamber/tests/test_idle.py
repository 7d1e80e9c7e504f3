"""Sessions end when nobody uses them; an open page is nobody."""

from datetime import timedelta
from http import HTTPStatus

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chamber.idle import BEGAN, STEPS, USED
from chamber.models import User
from teams.models import Role
from teams.tests.factories import make_org, member

pytestmark = pytest.mark.django_db
AGE = timedelta(seconds=settings.SESSION_COOKIE_AGE)


@pytest.fixture
def olga(client: Client) -> Client:
    client.force_login(member(make_org(), Role.ORG_ADMIN))
    return client


def used_before(client: Client, ago: timedelta) -> None:
    """Have the session as it is where it was last used so long ago."""
    session = client.session
    session[USED] -= int(ago.total_seconds())
    session.save()
    Session.objects.update(expire_date=timezone.now() + AGE - ago)


def left() -> timedelta:
    return Session.objects.get().expire_date - timezone.now()


def test_a_session_ends_8_hours_after_its_last_use(olga: Client) -> None:
    assert timedelta(hours=8) == AGE
    used_before(olga, AGE - timedelta(minutes=1))
    assert olga.get("/").status_code == HTTPStatus.OK
    assert AGE - timedelta(minutes=1) < left() <= AGE
    used_before(olga, AGE)
    assert "sign-in" in olga.get("/")["Location"]


def test_a_session_ends_12_hours_after_its_sign_in_however_much_it_is_used(olga: Client) -> None:
    session = olga.session
    session[BEGAN] -= 3600 * 11
    session.save()
    used_before(olga, timedelta(hours=1))
    assert olga.get("/").status_code == HTTPStatus.OK
    assert timedelta(minutes=59) < left() <= timedelta(hours=1)
    session = olga.session
    session[BEGAN] -= 3600
    session.save()
    used_before(olga, timedelta(hours=1))
    olga.get("/")
    assert "sign-in" in olga.get("/")["Location"]


def test_who_signs_in_again_begins_anew(olga: Client) -> None:
    session = olga.session
    session[BEGAN] -= 3600 * 11
    session.save()
    olga.force_login(User.objects.get())
    assert left() > timedelta(hours=7)


def test_what_an_open_page_fetches_by_itself_is_no_use(olga: Client) -> None:
    used_before(olga, timedelta(hours=7))
    assert olga.get("/", headers={"X-Chamber-Fragment": "1"}).status_code == HTTPStatus.OK
    assert left() <= timedelta(hours=1)
    assert olga.get("/", headers={"HX-Request": "true"}).status_code == HTTPStatus.OK
    assert left() > timedelta(hours=7)


def test_a_session_is_written_seldom(olga: Client) -> None:
    used_before(olga, AGE / STEPS * 2)
    written = []
    for _ in range(3):
        with CaptureQueriesContext(connection) as queries:
            olga.get("/tokens/")
        written.append(
            any("UPDATE" in query["sql"] and "django_session" in query["sql"] for query in queries)
        )
    assert written == [True, False, False]


def test_answers_say_what_browsers_may_do(olga: Client) -> None:
    for address in ("/", "/livez", "/api/v1/me/", "/static/css/base.css"):
        answer = olga.get(address)
        assert "camera=()" in answer["Permissions-Policy"]
        assert answer["Cross-Origin-Opener-Policy"] == "same-origin"
        assert answer["Cross-Origin-Resource-Policy"] == "same-origin"
    assert settings.SECURE_HSTS_INCLUDE_SUBDOMAINS


def test_browsers_keep_no_answer_that_does_not_say_how(olga: Client) -> None:
    answer = olga.get("/api/v1/me/")
    assert answer["Cache-Control"] == "no-store"
    assert answer["Content-Disposition"] == 'attachment; filename="api.json"'
    assert olga.get("/api/v1/nothing/")["Content-Disposition"] == 'attachment; filename="api.json"'
    assert "Content-Disposition" not in olga.get("/")
    assert "max-age" in olga.get("/static/css/base.css")["Cache-Control"]
