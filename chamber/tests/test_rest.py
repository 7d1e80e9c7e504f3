"""What the API's shared parts refuse, and how a refusal is answered."""

import io

import pytest
from django.db import OperationalError
from django.test import Client
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.test import APIRequestFactory

from chamber import rest
from chamber.errors import Conflict, NotVisible, Refusal, StaleVersion, TooLarge
from teams.tests.factories import make_user


def parsed(body: bytes) -> object:
    return rest.BoundedJSONParser().parse(io.BytesIO(body))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": 1, "a": 2}', "'a' comes twice"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_body_that_is_no_json_is_refused_with_the_reason(body: bytes, sentence: str) -> None:
    with pytest.raises(exceptions.ParseError, match=sentence):
        parsed(body)


def test_a_body_over_the_bound_is_refused_before_it_is_read_whole() -> None:
    stream = io.BytesIO(b" " * (10 * 1024 * 1024))
    with pytest.raises(TooLarge, match="larger than 1,048,576 bytes"):
        rest.BoundedJSONParser().parse(stream)
    assert stream.tell() == rest.MAX_BODY_BYTES + 1


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Refusal("1.25 is not legal.", field="gpus"), 422, "refused"),
        (NotVisible("There is no team 'x'."), 404, "not-found"),
        (Conflict("Too late."), 409, "conflict"),
        (exceptions.ValidationError({"pods": ["0 is too few."]}), 422, "invalid"),
        (exceptions.NotAuthenticated(), 401, "not_authenticated"),
        (OperationalError("database is locked"), 503, "busy"),
    ],
)
def test_every_refusal_becomes_a_problem(error: Exception, status: int, code: str) -> None:
    answer = rest.problem_response(error, {})
    assert answer is not None
    assert (answer.status_code, answer.data["status"], answer.data["code"]) == (status, status, code)
    assert answer.content_type == "application/problem+json"


@pytest.mark.django_db
def test_a_problem_is_a_page_for_a_browser(client: Client) -> None:
    client.force_login(make_user("ada"))
    page = client.get("/api/v1/teams/nowhere/", headers={"Accept": "text/html"})
    assert page.status_code == 404
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"</html>" in page.content
    assert client.get("/api/v1/teams/nowhere/").headers["Content-Type"] == "application/problem+json"


def test_a_busy_database_says_when_to_try_again() -> None:
    answer = rest.problem_response(OperationalError("database is locked"), {})
    assert answer is not None
    assert answer["Retry-After"] == "1"


def test_a_problem_names_its_fields() -> None:
    answer = rest.problem_response(Refusal("1.25 is not legal.", field="gpus"), {})
    assert answer is not None
    assert answer.data["errors"] == {"gpus": "1.25 is not legal."}
    nested = exceptions.ValidationError({"workloads": [{}, {"pods": ["0 is too few."]}]})
    answer = rest.problem_response(nested, {})
    assert answer is not None
    assert answer.data["detail"] == "workloads[1].pods: 0 is too few."


def edit(**headers: str) -> Request:
    return Request(APIRequestFactory().patch("/", headers=headers))


def test_an_edit_says_which_version_it_is_of() -> None:
    rest.require_version(edit(**{"If-Match": '"3"'}), 3)
    rest.require_version(edit(**{"If-Match": "*"}), 3)
    with pytest.raises(StaleVersion, match='You edited version "2", but the current one is "3"'):
        rest.require_version(edit(**{"If-Match": '"2"'}), 3)
    with pytest.raises(rest.PreconditionRequired) as refused:
        rest.require_version(edit(), 3)
    assert refused.value.status == 428


@pytest.mark.parametrize("cursor", ["", "x", "!!!", "bnVsbA", "WzFd", "é"])
def test_a_cursor_that_is_not_ours_is_none(cursor: str) -> None:
    assert rest.decode_cursor(cursor) is None


def test_a_cursor_comes_back_as_it_was() -> None:
    assert rest.decode_cursor(rest.encode_cursor("2026-01-01", "ü")) == ["2026-01-01", "ü"]
