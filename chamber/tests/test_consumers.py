"""The socket of an open page: what it may watch, when it is closed, and what it costs the process."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from channels.db import database_sync_to_async
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client
from django.utils import timezone

from chamber import consumers, live
from chamber.live import hub
from chamber.models import User
from chamber.tests.sockets import PATIENCE_SECONDS, Socket
from teams import actions
from teams.actors import Actor
from teams.models import Role
from teams.sight import SIGHT_TOPIC
from teams.tests.factories import make_org, make_pool, make_team, member
from workloads.tests.factories import make_workload

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _bound() -> Iterator[None]:
    yield
    live.bind(None)


@pytest.fixture
def ada(transactional_db: None) -> User:
    org = make_org("Acme")
    make_pool("Main")
    user = member(make_team(org, "NLP"), Role.RESEARCHER, "ada")
    member(make_team(org, "Vision"), Role.RESEARCHER, "eve")
    return user


def session_of(user: User) -> SessionStore:
    client = Client()
    client.force_login(user)
    return SessionStore(client.session.session_key)


async def opened(user: User, session: SessionStore | None = None) -> Socket:
    live.bind(asyncio.get_running_loop())
    socket = Socket(consumers.LiveConsumer.as_asgi(), "/ws/live/")
    socket.scope |= {"user": user, "session": session}
    await socket.connect()
    return socket


async def watch(socket: Socket, *topics: str) -> dict[str, int]:
    """Return the versions that are answered, by topic."""
    await socket.send_json_to({"watch": list(topics)})
    heard = [await socket.receive_json_from() for _ in set(topics)]
    return {entry["topic"]: entry["version"] for entry in heard}


announce = database_sync_to_async(live.announce, thread_sensitive=False)


async def test_a_topic_one_may_not_watch_is_like_one_that_there_is_not(ada: User) -> None:
    def workloads() -> tuple[str, str]:
        eve = User.objects.get(username="eve")
        own, other = ada.bindings.get().team, eve.bindings.get().team
        return f"workload:{make_workload(own, ada).pk}", f"workload:{make_workload(other, eve).pk}"

    mine, theirs = await database_sync_to_async(workloads)()
    unknown = [
        theirs,
        f"workload:{uuid4()}",
        "queue:none",
        "owner:somebody",
        "link:x",
        f"user:{ada.pk}",
        "workload:x",
    ]
    socket = await opened(ada)
    found = await watch(socket, mine, "queue:main", f"owner:{ada.pk}", *unknown)
    assert {topic for topic, version in found.items() if version == live.UNKNOWN} == set(unknown)
    await announce(*unknown[:-2])
    assert await socket.receive_nothing(timeout=0.3)
    await announce(mine)
    assert (await socket.receive_json_from())["topic"] == mine
    await socket.disconnect()


async def test_a_session_that_ends_closes_its_pages_and_no_others(ada: User) -> None:
    session, other = (
        await database_sync_to_async(session_of)(ada),
        await database_sync_to_async(session_of)(ada),
    )
    key = str(session.session_key)
    socket, stays = await opened(ada, session), await opened(ada, other)
    await watch(socket, "teams")
    await watch(stays, "teams")
    await database_sync_to_async(session.delete)()
    await announce(live.session_topic(key))
    assert await socket.receive_output() == {"type": "websocket.close", "code": consumers.SIGNED_OUT}
    await announce("teams")
    assert (await stays.receive_json_from())["topic"] == "teams"
    await stays.disconnect()


async def test_what_a_page_still_sends_after_its_session_ended_is_no_fault(ada: User) -> None:
    session = await database_sync_to_async(session_of)(ada)
    socket = await opened(ada, session)
    key = str(session.session_key)
    await watch(socket, "teams")
    await database_sync_to_async(session.delete)()
    await announce(live.session_topic(key))
    assert (await socket.receive_output())["code"] == consumers.SIGNED_OUT
    await socket.send_json_to({"watch": [SIGHT_TOPIC]})
    assert await socket.receive_nothing(timeout=0.5)
    await socket.disconnect()


async def test_a_user_who_is_deactivated_is_put_out(ada: User) -> None:
    socket = await opened(ada, await database_sync_to_async(session_of)(ada))
    await watch(socket, "teams")
    ada.is_active = False
    await database_sync_to_async(ada.save)()
    assert (await socket.receive_output())["code"] == consumers.SIGNED_OUT


async def test_it_is_looked_now_and_then_without_being_told(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "CHECK_SECONDS", 0.2)
    session = await database_sync_to_async(session_of)(ada)
    socket = await opened(ada, session)
    await watch(socket, "teams")
    assert await socket.receive_nothing(timeout=0.6)
    await database_sync_to_async(session.delete)()
    assert (await socket.receive_output())["code"] == consumers.SIGNED_OUT


async def test_a_page_closes_soon_after_its_idle_session_s_end_and_stays_while_it_is_used(ada: User) -> None:
    session = await database_sync_to_async(session_of)(ada)

    def ends_in(seconds: float) -> None:
        session.set_expiry(timezone.now() + timedelta(seconds=seconds))
        session.save()

    await database_sync_to_async(ends_in)(1)
    socket = await opened(ada, session)
    await watch(socket, "teams")
    await database_sync_to_async(ends_in)(2.5)
    assert await socket.receive_nothing(timeout=2.2), "it was used meanwhile"
    assert (await socket.receive_output(timeout=5))["code"] == consumers.SIGNED_OUT


async def test_what_one_may_no_longer_see_is_not_heard_any_more(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "CHECK_SECONDS", 0.2)
    socket = await opened(ada, await database_sync_to_async(session_of)(ada))
    assert (await watch(socket, "queue:main"))["queue:main"] > 0
    await database_sync_to_async(lambda: ada.bindings.all().delete())()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while "queue:main" in hub.here()._topics:
            await asyncio.sleep(0.05)
    await announce("queue:main")
    assert await socket.receive_nothing(timeout=0.3)
    await socket.disconnect()


async def test_what_one_may_see_is_told_as_a_number_again_once_it_changes(ada: User) -> None:
    def lose() -> None:
        actions.remove_member(by=Actor.system("test"), binding=ada.bindings.get())

    socket = await opened(ada, await database_sync_to_async(session_of)(ada))
    before = (await watch(socket, "sight"))["sight"]
    await announce(f"user:{ada.pk}")
    assert await socket.receive_nothing(timeout=0.5)
    await database_sync_to_async(lose)()
    told = await socket.receive_json_from()
    assert told["topic"] == "sight"
    assert told["version"] != before
    await socket.disconnect()


async def test_one_user_has_so_many_pages_open_and_no_more(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "MAX_PAGES_OF_USER", 2)
    sockets = [await opened(ada) for _ in range(3)]
    assert (await sockets[2].receive_output())["code"] == consumers.TOO_MANY
    await sockets[0].disconnect()
    again = await opened(ada)
    assert await watch(again, "teams")
    for socket in (sockets[1], again):
        await socket.disconnect()
    assert hub.here().pages == 0


async def test_who_asks_too_often_is_closed(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "MAX_MESSAGES", 3)
    socket = await opened(ada)
    for _ in range(3):
        await watch(socket, "teams")
    await socket.send_json_to({"watch": ["teams"]})
    assert (await socket.receive_output())["code"] == consumers.TOO_MANY


async def test_who_never_reads_keeps_only_the_latest_versions_and_is_let_go(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "SLOW_SECONDS", 0.5)
    monkeypatch.setattr(hub, "ROUND_SECONDS", 0.01)
    live.bind(asyncio.get_running_loop())
    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    incoming.put_nowait({"type": "websocket.connect"})
    incoming.put_nowait({"type": "websocket.receive", "text": '{"watch": ["teams"]}'})
    stuck = asyncio.Event()

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "websocket.send":
            stuck.set()
            await asyncio.Event().wait()

    scope = {"type": "websocket", "user": ada, "session": None}
    page = asyncio.create_task(consumers.LiveConsumer.as_asgi()(scope, incoming.get, send))
    await asyncio.wait_for(stuck.wait(), PATIENCE_SECONDS)
    (reader,) = hub.here()._topics["teams"].readers
    for _ in range(50):
        await announce("teams")
        assert len(reader._outbox) + len(reader._pending) <= 2
    await asyncio.wait_for(page, PATIENCE_SECONDS)
    assert hub.here().pages == 0


async def test_a_thousand_pages_join_a_topic_once_and_are_told_within_seconds(ada: User) -> None:
    live.bind(asyncio.get_running_loop())
    here = hub.here()
    joined: list[str] = []
    group_add = here._layer.group_add

    async def counted(group: str, channel: str) -> None:
        joined.append(group)
        await group_add(group, channel)

    here._layer.group_add = counted
    try:
        readers = [hub.PageReader(number) for number in range(1000)]
        for reader in readers:
            here.enter(reader)
            await here.watch(reader, {"overview"})
        assert joined == [live.group("overview")]
        await announce("overview")
        async with asyncio.timeout(PATIENCE_SECONDS):
            for reader in readers:
                await reader.news.wait()
        assert {reader.take()[0][1] for reader in readers} == {
            await database_sync_to_async(live.version)("overview")
        }
    finally:
        here._layer.group_add = group_add
        for reader in readers:
            await here.leave(reader)
