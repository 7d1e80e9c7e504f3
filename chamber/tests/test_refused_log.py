"""Each refused request is a line of the log."""

import logging

import pytest
from django.core.cache import cache
from django.test import Client

from chamber.models import Scope
from chamber.tokens import create_token
from teams.models import Role
from teams.tests.factories import make_org, member

pytestmark = pytest.mark.django_db
SECRET = "s3cret" * 7


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    cache.clear()
    caplog.set_level(logging.INFO, "chamber.refused_log")
    return caplog


def lines(said: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in said.records if record.name == "chamber.refused_log"]


def test_who_was_refused_what_is_told_by_session_and_by_token(said: pytest.LogCaptureFixture) -> None:
    vic = member(make_org(), Role.VIEWER, "vic")
    client = Client(REMOTE_ADDR="192.0.2.7")
    client.force_login(vic)
    client.get("/people/?q=somebody")
    client.get("/")
    token = create_token(user=vic, name="x", scope=Scope.READ, days=1)[1]
    program = Client(headers={"Authorization": f"Bearer {token}"}, REMOTE_ADDR="192.0.2.8")
    program.get("/api/v1/teams/nix/")
    program.post("/api/v1/teams/", {"name": 7}, content_type="application/json")
    Client(REMOTE_ADDR="192.0.2.9").get("/api/v1/me/")
    assert lines(said) == [
        "Refused with 403: GET /people/ by vic from 192.0.2.7",
        "Refused with 404: GET /api/v1/teams/nix/ by vic from 192.0.2.8",
        "Refused with 403: POST /api/v1/teams/ by vic from 192.0.2.8",
        "Refused with 401: GET /api/v1/me/ by nobody known from 192.0.2.9",
    ]


def test_no_secret_and_no_new_line_is_in_it(said: pytest.LogCaptureFixture) -> None:
    make_org()
    client = Client()
    for path in (f"/welcome/{SECRET}/", f"/sign-in/address/{SECRET}/", f"/sign-in/forgotten/1-{SECRET}/"):
        client.get(path)
    client.get("/no%0Asuch%20place")
    client.get(f"/welcome/{SECRET}/more/")
    client.get(f"/sign-in/with/acme/back/?code={SECRET}")
    assert len(lines(said)) == 6
    assert SECRET not in "".join(lines(said))
    assert "\n" not in "".join(lines(said))
    assert "Refused with 410: GET /welcome/<str:secret>/ by nobody known" in lines(said)[0]


def test_a_flood_does_not_fill_the_log(said: pytest.LogCaptureFixture) -> None:
    make_org()
    client = Client()
    answers = {client.post("/sign-in/", {"login": "vic", "password": "x"}).status_code for _ in range(30)}
    assert 429 in answers
    assert not [line for line in lines(said) if "429" in line]
