"""Each request and each socket has an id: in the answer, in problems, and on every record of the log."""

import asyncio
import logging
import re
from typing import Any

import pytest
import redis
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import ResolverMatch

from chamber import logs
from chamber.request_id import SocketRequestId, request_id


@pytest.mark.parametrize("given", ["0af7651916cd43dd8448eb211c80319c", "job-12:retry/3", "a"])
def test_a_well_formed_id_is_kept(client: Client, given: str) -> None:
    assert client.get("/livez", headers={"X-Request-ID": given})["X-Request-ID"] == given


@pytest.mark.parametrize("given", [None, "", " ", "two words", "a\tb", "x" * 129, "ü", "<script>", "-a"])
def test_another_is_made_where_none_is_given_or_it_is_malformed(given: str | None) -> None:
    first, second = request_id(given), request_id(given)
    assert re.fullmatch("[0-9a-f]{32}", first)
    assert first != second


@pytest.mark.django_db
def test_a_problem_names_the_request(client: Client) -> None:
    answer = client.get("/api/v1/workloads/", headers={"X-Request-ID": "told-by-me"})
    assert answer.status_code in {401, 403}
    assert answer.json()["request_id"] == answer["X-Request-ID"] == "told-by-me"


@login_not_required
def _raise(request: HttpRequest, **_: object) -> HttpResponse:
    raise RuntimeError("a fault of ours")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every view fails, whatever its address."""
    match = ResolverMatch(_raise, (), {})
    monkeypatch.setattr("django.urls.resolvers.URLPattern.resolve", lambda *_: match)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    ("path", "kind"), [("/", "text/html; charset=utf-8"), ("/api/v1/teams/", "application/problem+json")]
)
def test_a_fault_is_one_record_that_the_answer_points_to(
    path: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.handler.addFilter(logs.Bound())
    client = Client(raise_request_exception=False)
    answer = client.get(path, headers={"X-Request-ID": "look-for-me"})
    assert (answer.status_code, answer["Content-Type"]) == (500, kind)
    assert b"look-for-me" in answer.content
    faults = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [vars(record)["request_id"] for record in faults] == ["look-for-me"]
    assert faults[0].exc_info is not None


async def test_a_fault_in_a_socket_is_one_record_and_a_close(caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.addFilter(logs.Bound())

    async def failing(*_: object) -> None:
        await asyncio.sleep(0)
        raise RuntimeError("a fault of ours")

    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/ws/live/", "headers": [(b"x-request-id", b"look-for-me")]}
    await SocketRequestId(failing)(scope, send, send)
    assert sent == [{"type": "websocket.accept"}, {"type": "websocket.close", "code": 1011}]
    assert [vars(record)["request_id"] for record in caplog.records] == ["look-for-me"]


async def test_a_socket_that_a_server_of_ours_ends_is_told_to_try_again_and_not_that_it_is_forbidden(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def without_redis(*_: object) -> None:
        await asyncio.sleep(0)
        raise redis.ConnectionError("Connection refused.")

    async def loses_redis(_: object, __: object, send: Any) -> None:
        await send({"type": "websocket.accept"})
        raise redis.ConnectionError("Connection refused.")

    scope = {"type": "websocket", "path": "/ws/agent/", "headers": []}
    for application in (without_redis, loses_redis):
        sent.clear()
        await SocketRequestId(application)(scope, send, send)
        assert sent == [{"type": "websocket.accept"}, {"type": "websocket.close", "code": 1013}]
    assert len(caplog.records) == 2


async def test_who_leaves_while_something_is_sent_to_him_is_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def accepting(_: object, __: object, send: Any) -> None:
        await send({"type": "websocket.accept"})

    async def send(_: object) -> None:
        raise BrokenPipeError

    await SocketRequestId(accepting)({"type": "websocket", "path": "/ws/live/", "headers": []}, send, send)
    assert not caplog.records
