"""Every socket by every way in: the table says what each gets, and a socket that is not in it fails.

What ends one that is open, `tests/test_streams_end.py` walks.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.test import Client, override_settings
from pytest_django.fixtures import Settings

from chamber import live
from chamber.asgi import application
from chamber.models import Scope
from chamber.tests.sockets import Socket
from tests.role_world import PROVIDER, SETTINGS, World, world
from tests.walker import FULL, SESSIONS, Walker, disable_all, require_factor
from tests.ways_in import DISABLED, HAS_FACTOR, LACKING, NONE, ROLES, Way, sockets

__all__ = ["world"]

pytestmark = pytest.mark.django_db(transaction=True)

ORIGIN = (b"origin", b"http://localhost")
LIVE = "ws/live/"


@pytest.fixture
def walker(transactional_db: None) -> Iterator[Walker]:
    with override_settings(**SETTINGS):
        yield Walker(World())
    live.bind(None)


async def code_of(path: str, headers: dict[str, str]) -> int:
    """Return the code with which a socket is closed at once; 0 where it stays open."""
    live.bind(asyncio.get_running_loop())
    named = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    socket = Socket(application, f"/{path}", headers=[ORIGIN, *named])
    connected, code = await socket.connect()
    if not connected:
        return int(code or 0)
    await socket.send_to('{"watch": ["teams"]}' if path == LIVE else "x")
    try:
        return await _closed(socket, path)
    finally:
        await socket.disconnect()


async def _closed(socket: Socket, path: str) -> int:
    """An answer of another kind than an error means that it is open; agents are told what is wrong with a message."""
    while True:
        said: dict[str, Any] = await socket.receive_output()
        if said["type"] == "websocket.close":
            return int(said.get("code", 1000))
        if path == LIVE or '"not-authorised"' not in said["text"]:
            return 0


def test_the_table_names_the_sockets_that_there_are() -> None:
    router = application.application_mapping["websocket"].application
    assert sockets().keys() == {str(route.pattern) for route in router.routes}


async def test_each_way_into_each_socket_gets_what_the_table_says(walker: Walker) -> None:
    wrong: dict[tuple[str, str, str], int] = {}

    async def walk(ways: frozenset[str]) -> None:
        for path, codes in sockets().items():
            for way in codes.keys() & ways:
                for role in ROLES if way in SESSIONS else [FULL]:
                    expected = codes[Way.SESSION] if role == HAS_FACTOR and way in LACKING else codes[way]
                    headers = {} if way == NONE else walker.headers(role, Way(way), Scope.ADMIN)
                    got = await code_of(path, headers)
                    if got != expected:
                        wrong[path, role, way] = got

    await walk(frozenset([*Way, NONE]) - LACKING - DISABLED)
    await database_sync_to_async(require_factor)()
    await walk(LACKING)
    await database_sync_to_async(disable_all)()
    await walk(DISABLED)
    assert wrong == {}


def test_the_agents_other_door_takes_an_agent_s_token_alone(walker: Walker) -> None:
    asked = {}
    for way in (Way.AGENT_TOKEN, Way.TOKEN, Way.SERVICE, Way.UNKNOWN_TOKEN):
        headers = walker.headers(FULL, way, Scope.ADMIN)
        asked[way] = Client().post("/agent/v1/sync", {}, "application/json", headers=headers).status_code
    # What is sent is no list of messages.
    assert asked == {Way.AGENT_TOKEN: 422, Way.TOKEN: 401, Way.SERVICE: 401, Way.UNKNOWN_TOKEN: 401}


@pytest.mark.parametrize(("token", "status"), [("s" * 40, 200), ("t" * 40, 401)])
def test_the_providers_door_takes_its_provider_s_token_alone(
    world: World, settings: Settings, token: str, status: int
) -> None:
    settings.IDENTITY_PROVIDERS = (PROVIDER.model_copy(update={"scim_token": "s" * 40}),)
    assert world.ask(Client(), "GET", "scim", {"Authorization": f"Bearer {token}"}) == status
