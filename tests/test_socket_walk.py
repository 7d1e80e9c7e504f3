"""Every socket by every way in: the table says what opens it, and a socket that is not in it fails.

What ends one that is open, `tests/test_streams_end.py` walks.
"""

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.test import Client, override_settings
from pytest_django.fixtures import Settings

from chamber import live
from chamber.asgi import application
from chamber.consumers import NO_SUCH_SOCKET
from chamber.models import Scope
from chamber.tests.sockets import Socket
from tests.role_world import PROVIDER, SETTINGS, World, world
from tests.walker import VIEWED, Walker, change
from tests.ways_in import FULL, HAS_FACTOR, ROLES, SOCKETS, STATES, Cell, Needs, Way

__all__ = ["world"]

pytestmark = pytest.mark.django_db(transaction=True)

ORIGIN = (b"origin", b"http://localhost")
NOT_LET_IN = 4401
SYNC = "/agent/v1/sync?wait=0"
OPENED_BY = {Needs.SESSION: {Way.SESSION}, Needs.AGENT: {Way.AGENT}}


@pytest.fixture
def walker(transactional_db: None) -> Iterator[Walker]:
    with override_settings(**SETTINGS):
        yield Walker(World())
    live.bind(None)


async def code_of(path: str, headers: dict[str, str], message: str = "") -> int:
    """Return the code with which a socket is closed at once, or by a message; 0 where it stays open."""
    live.bind(asyncio.get_running_loop())
    named = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    socket = Socket(application, f"/{path}", headers=[ORIGIN, *named])
    connected, code = await socket.connect()
    if not connected:
        return int(code or 0)
    await socket.send_to(
        message or "x" if SOCKETS.get(path) is Needs.AGENT else message or '{"watch": ["teams"]}'
    )
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
        if SOCKETS.get(path) is not Needs.AGENT or '"not-authorised"' not in said["text"]:
            return 0


def cells(way: Way) -> Iterator[Cell]:
    """Yield who asks by a way: every role that has a session, else one that stands for all."""
    roles = VIEWED if way is Way.VIEWING else ROLES if way is Way.SESSION else [FULL]
    for role in [*roles, HAS_FACTOR] if way is Way.LACKING_SESSION else roles:
        yield Cell(role, way, Scope.ADMIN)


def test_the_table_names_the_sockets_that_there_are() -> None:
    assert application.application_mapping.keys() == {"http", "websocket"}
    router = application.application_mapping["websocket"].application
    *there, others = [str(route.pattern) for route in router.routes]
    assert sorted(there) == sorted(SOCKETS)
    assert others == ""


@pytest.mark.parametrize("path", ["ws/", "ws/nothing/", "ws/live/x", "\x00", "ws/%ff/\u202e", "9" * 4400, ""])
async def test_a_socket_that_there_is_not_is_closed_as_such(walker: Walker, path: str) -> None:
    for cell in (Cell("anonymous", Way.SESSION), Cell(FULL, Way.SESSION)):
        assert await code_of(path, walker.headers(cell)) == NO_SUCH_SOCKET


async def test_each_way_into_each_socket_gets_what_the_table_says(walker: Walker) -> None:
    wrong: dict[tuple[str, Cell], int] = {}
    for state, ways in STATES.items():
        await database_sync_to_async(change)(state)
        for way, path in itertools.product(ways, SOCKETS):
            for cell in cells(way):
                has_factor = way is Way.LACKING_SESSION and cell.role == HAS_FACTOR
                opened = (Way.SESSION if has_factor else way) in OPENED_BY[SOCKETS[path]]
                got = await code_of(path, walker.headers(cell))
                if got != (0 if opened else NOT_LET_IN):
                    wrong[path, cell] = got
    assert wrong == {}


def test_the_agents_other_door_takes_a_valid_token_of_an_agent_alone(walker: Walker) -> None:
    asked = {}
    for state, ways in STATES.items():
        change(state)
        for way in ways:
            headers = walker.headers(Cell(FULL, way, Scope.ADMIN))
            asked[way] = Client().post(SYNC, {}, "application/json", headers=headers).status_code
    # What is sent is no list of messages.
    assert asked == {way: 422 if way is Way.AGENT else 401 for way in Way}


@pytest.mark.parametrize(("token", "status"), [("s" * 40, 200), ("t" * 40, 401)])
def test_the_providers_door_takes_its_provider_s_token_alone(
    world: World, settings: Settings, token: str, status: int
) -> None:
    settings.IDENTITY_PROVIDERS = (PROVIDER.model_copy(update={"scim_token": "s" * 40}),)
    answer = world.answer(Client(), "GET", "scim", {"Authorization": f"Bearer {token}"})
    assert answer.status_code == status


MESSAGES = [
    "",
    "x",
    "\x00",
    "true",
    "[]",
    '{"watch": true}',
    '{"watch": [1]}',
    '{"watch": ["\\ud800"]}',
    '{"watch": ["queue:\\u0000"]}',
    '{"watch": ["workload:\\ud800", "queue:\\ud800", "owner:\\u202e"]}',
    '{"watch": [' + "9" * 4400 + "]}",
    "[" * 100_000,
    '{"type": "inventory", "generation": ' + "9" * 4400 + "}",
    '{"type": "\\ud800"}',
    '{"type": "inventory", "generation": 1, "nodes": [{"name": "n\\u0430"}]}',
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: each[:40].encode("unicode_escape").decode())
async def test_no_message_is_a_fault_of_a_socket(walker: Walker, message: str) -> None:
    for path, needs in SOCKETS.items():
        way = Way.SESSION if needs is Needs.SESSION else Way.AGENT
        assert await code_of(path, walker.headers(Cell(FULL, way)), message) in {0, 4400}
