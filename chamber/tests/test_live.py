"""Announcements: after commit only, never going back, at most one a second for each page and topic."""

import asyncio
import math
import time
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from pytest_django import DjangoCaptureOnCommitCallbacks

from chamber import consumers, live
from chamber.live import hub
from chamber.models import User
from chamber.tests.sockets import Socket
from scheduling.explain import silence

pytestmark = pytest.mark.stores


def page(user: Any) -> Socket:
    socket = Socket(consumers.LiveConsumer.as_asgi(), "/ws/live/")
    socket.scope["user"] = user
    return socket


@pytest.fixture
def _bound() -> Any:
    live.bind(None)
    yield
    live.bind(None)


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for silences all the time, from one state: none, and told, whatever earlier tests of this process left."""
    monkeypatch.setattr(hub, "SILENCE_SECONDS", 0.05)
    monkeypatch.setattr(silence, "_kept", (math.inf, silence.Silence()))
    monkeypatch.setattr(hub, "_silence", hub._LastTold(silence.mark()))


@pytest.mark.django_db
def test_nothing_is_announced_before_commit(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    with django_capture_on_commit_callbacks() as callbacks:
        live.announce("teams")
    before = live.version("teams")
    callbacks[0]()
    live.flush(60)
    first = live.version("teams")
    callbacks[0]()
    live.flush(60)
    assert before < first < live.version("teams")


@pytest.mark.django_db(transaction=True)
def test_what_is_rolled_back_is_not_announced() -> None:
    before = live.version("teams")
    with transaction.atomic():
        live.announce("teams")
        transaction.set_rollback(True)
    live.flush(60)
    assert live.version("teams") == before


@pytest.mark.django_db(transaction=True)
async def test_a_page_hears_what_it_watches_and_nothing_else() -> None:
    live.bind(asyncio.get_running_loop())
    socket = page(User(username="ada"))
    await socket.connect()
    await socket.send_json_to({"watch": ["teams"]})
    known = await socket.receive_json_from()
    await database_sync_to_async(live.announce, thread_sensitive=False)("pools", "teams")
    heard = await socket.receive_json_from()
    assert heard["topic"] == known["topic"] == "teams"
    assert heard["version"] == live.version("teams") > known["version"]
    assert await socket.receive_nothing()
    await socket.disconnect()


@pytest.mark.usefixtures("quick_looks")
@pytest.mark.django_db(transaction=True)
async def test_a_page_hears_that_a_silence_began_and_ended_though_nothing_is_announced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    live.bind(asyncio.get_running_loop())
    socket = page(User(username="ada"))
    await socket.connect()
    await socket.send_json_to({"watch": ["silence"]})
    versions = [(await socket.receive_json_from())["version"]]
    for found in (silence.Silence(undecided=True), silence.Silence()):
        monkeypatch.setattr(silence, "_kept", (math.inf, found))
        while (heard := await socket.receive_json_from())["version"] == versions[-1]:
            pass
        assert heard["topic"] == "silence"
        versions.append(heard["version"])
    assert versions == sorted(versions)
    await socket.disconnect()


@pytest.mark.usefixtures("quick_looks")
@pytest.mark.django_db(transaction=True)
async def test_while_versions_cannot_be_asked_the_pages_of_this_process_hear_of_a_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    live.bind(asyncio.get_running_loop())
    socket = page(User(username="ada"))
    await socket.connect()
    await socket.send_json_to({"watch": ["silence"]})
    await socket.receive_json_from()
    monkeypatch.setattr(live, "versions", lambda *topics: [live.UNKNOWN] * len(topics))
    monkeypatch.setattr(live, "announce_now", lambda *_: None)
    monkeypatch.setattr(silence, "_kept", (math.inf, silence.Silence(undecided=True)))
    assert (await socket.receive_json_from())["topic"] == "silence"
    await socket.disconnect()


@pytest.mark.django_db(transaction=True)
async def test_announcements_within_a_second_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "ROUND_SECONDS", 0.2)
    live.bind(asyncio.get_running_loop())
    socket = page(User(username="ada"))
    await socket.connect()
    await socket.send_json_to({"watch": ["teams"]})
    await socket.receive_json_from()
    announce = database_sync_to_async(live.announce, thread_sensitive=False)
    began = time.monotonic()
    for _ in range(20):
        await announce("teams")
    live.flush(60)
    heard: list[int] = []
    while not heard or heard[-1] != live.version("teams"):
        heard.append((await socket.receive_json_from())["version"])
    assert heard == sorted(heard)
    assert len(heard) <= 2 + (time.monotonic() - began) / hub.ROUND_SECONDS
    assert await socket.receive_nothing(timeout=0.5)
    await socket.disconnect()


async def test_who_is_not_signed_in_is_told_so_and_closed() -> None:
    socket = page(AnonymousUser())
    await socket.connect()
    assert (await socket.receive_output())["code"] == consumers.SIGNED_OUT


@pytest.mark.parametrize(
    "message",
    [
        " ",
        "[]",
        '{"watch": "teams"}',
        '{"watch": [1]}',
        '{"watch": [""]}',
        '{"watch": ["' + "x" * 201 + '"]}',
        "{",
        '{"watch": [' + ",".join(f'"t{i}"' for i in range(51)) + "]}",
    ],
)
async def test_a_message_that_is_not_of_the_protocol_closes_the_socket(message: str) -> None:
    socket = page(User(username="ada"))
    await socket.connect()
    await socket.send_to(text_data=message)
    assert (await socket.receive_output())["code"] == consumers.BAD_MESSAGE


def test_a_ring_that_fails_costs_the_request_nothing(
    settings: Any, caplog: pytest.LogCaptureFixture, db: None, django_capture_on_commit_callbacks: Any
) -> None:
    settings.CHAMBER_RING = "chamber.no_such_module.ring"
    with django_capture_on_commit_callbacks(execute=True):
        live.ring()
    assert "could not be rung" in caplog.text
