"""The socket itself: who gets in, and with which code it is closed."""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError

from agentlink import actions, consumers, protocol
from agentlink.consumers import AgentConsumer
from agentlink.models import AgentToken
from agentlink.protocol import Hello
from agentlink.session import Answer, Session
from agentlink.tests.agents import admit, devices_of, in_database, make_token
from agentlink.tests.conftest import Place
from chamber import live
from chamber.tests.sockets import PATIENCE_SECONDS, Socket
from teams.actors import Actor

"""For what comes at once on a machine that is free."""

pytestmark = pytest.mark.django_db(transaction=True)


def agent(secret: str) -> Socket:
    headers = [(b"authorization", f"Bearer {secret}".encode())]
    return Socket(AgentConsumer.as_asgi(), "/ws/agent/", headers=headers)


async def heard(socket: Socket, kind: str) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(await socket.receive_from())
    assert message["type"] == kind
    return message


async def test_a_refused_agent_is_told_why_and_closed() -> None:
    socket = agent("cha_unknown")
    await socket.connect()
    assert "unknown" in (await heard(socket, "error"))["message"]
    assert (await socket.receive_output())["code"] == 4401


async def test_a_revoked_token_closes_its_socket_within_a_second(place: Place) -> None:
    live.bind(asyncio.get_running_loop())
    try:
        socket = agent(await in_database(make_token, place.cluster))
        await socket.connect()
        hello = Hello(connection=uuid.uuid4(), agent_version="1", cluster_uid="u", nodes=0, gpus=0)
        await socket.send_to(text_data=protocol.encode(hello))
        await heard(socket, "desired")
        token = await in_database(AgentToken.objects.get)
        await in_database(partial(actions.revoke_token, by=Actor.system("test"), token=token))
        assert (await heard(socket, "error"))["code"] == "not-authorised"
        assert (await socket.receive_output())["code"] == 4401
    finally:
        live.bind(None)


@pytest.fixture
async def bound() -> AsyncIterator[None]:
    live.bind(asyncio.get_running_loop())
    yield
    live.bind(None)


async def test_many_announcements_are_few_looks(
    place: Place, bound: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = agent(await in_database(make_token, place.cluster))
    await socket.connect()
    await greet(socket)
    looks: list[int] = []
    news = Session.news

    def look(self: Session) -> Answer:
        looks.append(1)
        return news(self)

    monkeypatch.setattr(Session, "news", look)
    topic, began = f"link:{place.cluster.pk}", time.monotonic()
    for _ in range(300):
        await in_database(live._send, (topic,))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not looks:
            await asyncio.sleep(0.01)
    took = time.monotonic() - began
    assert len(looks) <= 1 + consumers.NEWS_AT_ONCE + took / consumers.NEWS_EVERY_SECONDS
    await socket.disconnect()


async def test_news_are_sent_whatever_clock_an_announcement_had(
    place: Place, bound: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = agent(await in_database(make_token, place.cluster))
    await socket.connect()
    await greet(socket)
    await asyncio.sleep(0.1)
    monkeypatch.setattr("time.time_ns", lambda: 1)
    device = (await in_database(devices_of, place.cluster, "n1"))[0]
    await in_database(admit, place.team, place.owner, place.pool, place.cluster, [device])
    assert len((await heard(socket, "desired"))["assignments"]) == 1
    await socket.disconnect()


async def test_an_agent_that_does_not_read_is_given_up(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(consumers, "SEND_SECONDS", 0.1)
    socket = agent(await in_database(make_token, place.cluster))
    await socket.connect()
    never = asyncio.Event()

    async def send(self: AgentConsumer, *_: object, **__: object) -> None:
        await never.wait()

    monkeypatch.setattr(AgentConsumer, "send", send)
    hello = Hello(connection=uuid.uuid4(), agent_version="1", cluster_uid="u", nodes=0, gpus=0)
    await socket.send_to(text_data=protocol.encode(hello))
    assert (await socket.receive_output())["code"] == consumers.TOO_SLOW
    assert "does not read" in caplog.text
    await socket.disconnect()


async def test_a_socket_on_which_nothing_comes_is_closed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "SILENCE_SECONDS", 3.0)
    socket = agent(await in_database(make_token, place.cluster))
    await socket.connect()
    await asyncio.sleep(0.5)
    said_at = time.monotonic()
    await greet(socket)
    assert (await socket.receive_output())["code"] == consumers.SILENT
    assert time.monotonic() - said_at >= 3.0
    await socket.disconnect()


async def test_while_the_database_is_away_an_agent_is_told_to_try_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: str) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr(consumers, "authenticate", away)
    socket = agent("cha_x")
    await socket.connect()
    assert (await socket.receive_output())["code"] == consumers.TRY_AGAIN


async def greet(socket: Socket) -> None:
    hello = Hello(connection=uuid.uuid4(), agent_version="1", cluster_uid="u", nodes=0, gpus=0)
    await socket.send_to(text_data=protocol.encode(hello))
    await heard(socket, "desired")


async def test_bytes_are_taken_like_text_and_nonsense_does_not_close(place: Place) -> None:
    socket = agent(await in_database(make_token, place.cluster))
    await socket.connect()
    await socket.send_to(bytes_data=b"\xff\x00")
    assert (await heard(socket, "error"))["code"] == "invalid"
    hello = Hello(connection=uuid.uuid4(), agent_version="1", cluster_uid="u", nodes=0, gpus=0)
    await socket.send_to(bytes_data=protocol.encode(hello).encode())
    await heard(socket, "desired")
    await socket.disconnect()
