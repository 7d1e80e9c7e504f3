"""The socket itself: who gets in, and with which code it is closed."""

import asyncio
import json
import uuid
from functools import partial
from typing import Any

import pytest
from channels.testing import WebsocketCommunicator

from agentlink import actions, protocol
from agentlink.consumers import AgentConsumer
from agentlink.models import AgentToken
from agentlink.protocol import Hello
from agentlink.tests.agents import in_database, make_token
from agentlink.tests.conftest import Place
from chamber import live
from teams.actors import Actor

pytestmark = pytest.mark.django_db(transaction=True)


def agent(secret: str) -> WebsocketCommunicator:
    headers = [(b"authorization", f"Bearer {secret}".encode())]
    return WebsocketCommunicator(AgentConsumer.as_asgi(), "/ws/agent/", headers=headers)


async def heard(socket: WebsocketCommunicator, kind: str) -> dict[str, Any]:
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
        assert (await socket.receive_output(timeout=1))["code"] == 4401
    finally:
        live.bind(None)


async def test_bytes_are_taken_like_text_and_nonsense_does_not_close(place: Place) -> None:
    socket = agent(await in_database(make_token, place.cluster))
    await socket.connect()
    await socket.send_to(bytes_data=b"\xff\x00")
    assert (await heard(socket, "error"))["code"] == "invalid"
    hello = Hello(connection=uuid.uuid4(), agent_version="1", cluster_uid="u", nodes=0, gpus=0)
    await socket.send_to(bytes_data=protocol.encode(hello).encode())
    await heard(socket, "desired")
    await socket.disconnect()
