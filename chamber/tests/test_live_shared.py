"""Versions and announcements over Redis: between processes, through restarts, and without Redis."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from channels.layers import channel_layers, get_channel_layer
from django.conf import settings as django_settings

from chamber import live, stores
from chamber.live import _send, hub, shared
from chamber.live.announcer import Announcer
from rig import processes, servers

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Redis]:
    with servers.redis() as server:
        yield server


@pytest.fixture
def redis(server: servers.Redis, settings: Any) -> servers.Redis:
    """Have this process use the server, whatever the rest of the tests use."""
    settings.REDIS = server.url
    settings.CHANNEL_LAYERS = stores.channel_layers(server.url)
    channel_layers.backends.clear()
    if server.process is None:
        server.start()
    live.forget()
    return server


OTHER = "import django; django.setup(); from chamber import live; {}"


def in_another_process(redis: servers.Redis, code: str, **environment: str) -> str:
    """Run `code` in a plain command that ends at once, and return what it printed."""
    variables = os.environ | {
        "CHAMBER_REDIS": redis.url,
        "CHAMBER_DATABASE": "",
        "DJANGO_SETTINGS_MODULE": "chamber.settings",
        **environment,
    }
    command = [sys.executable, "-c", OTHER.format(code)]
    return processes.run(command, env=variables, check=True).stdout


def test_a_version_is_the_same_in_every_process(redis: servers.Redis) -> None:
    _send(("teams",))
    assert live.flush(60)
    assert in_another_process(redis, 'print(*live.versions("teams", "pools"))').split() == [
        str(live.version("teams")),
        str(live.version("pools")),
    ]


def test_a_command_that_ends_at_once_sends_what_it_announced(redis: servers.Redis) -> None:
    before = live.version("teams")
    in_another_process(redis, 'live._send(["teams"])')
    assert live.version("teams") > before


def test_versions_go_up_whatever_the_clocks_of_processes_say(redis: servers.Redis) -> None:
    seen = [live.version("teams")]
    for number in range(6):
        if number % 2:
            _send(("teams",))
            assert live.flush(60)
        else:
            in_another_process(redis, 'import time; time.time_ns = lambda: 1; live._send(["teams"])')
        seen.append(live.version("teams"))
    assert seen == sorted(set(seen))


def test_several_versions_are_one_round_trip(redis: servers.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    found = live._shared()
    assert found is not None
    live.versions("teams")
    asked: list[Any] = []
    ask: Any = found._redis.execute_command

    def noted(*words: Any, **more: Any) -> Any:
        asked.append(words)
        return ask(*words, **more)

    monkeypatch.setattr(found._redis, "execute_command", noted)
    assert len(live.versions("teams", "pools", "overview", "workloads")) == 4
    assert [words[0] for words in asked] == ["HMGET"]


def test_after_a_restart_no_version_is_one_that_a_page_knows(redis: servers.Redis) -> None:
    _send(("teams",))
    assert live.flush(60)
    known = live.versions("teams", "never announced")
    redis.restart()
    time.sleep(shared.AWAY_SECONDS)
    assert not set(live.versions("teams", "never announced")) & {*known, live.UNKNOWN}


def test_what_was_announced_while_redis_was_away_is_sent_when_it_is_back(
    redis: servers.Redis, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.version("teams")
    asked: list[Exception | None] = []
    note = shared.Shared._note

    def noted(self: shared.Shared, error: Exception | None) -> None:
        asked.append(error)
        note(self, error)

    monkeypatch.setattr(shared.Shared, "_note", noted)
    redis.stop()
    began = time.monotonic()
    for _ in range(500):
        _send(("teams",))
        assert live.version("teams") == live.UNKNOWN
    took = time.monotonic() - began
    # By two threads: pages, and who announces.
    assert len(asked) <= 2 * (1 + took / shared.AWAY_SECONDS), "it was asked again before its pause was over"
    redis.start()
    assert live.flush(60)
    first, never = live.versions("teams", "never announced")
    assert first > never > live.UNKNOWN
    assert caplog.text.count("Pages are not told of changes") == 1


def test_what_waits_to_be_sent_is_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("chamber.live.announcer.MOST_TOPICS", 100)
    monkeypatch.setattr("chamber.live.announcer.AGAIN_SECONDS", 0.01)
    sent: list[str] = []
    works = False

    def send(topics: Any) -> bool:
        sent.extend(topics if works else [])
        return works

    announcer = Announcer(send)
    for number in range(1000):
        announcer.add([f"workload:{number}"])
    assert caplog.text.count("further ones are dropped") == 1
    works = True
    assert announcer.flush(60)
    assert len(sent) == 100


def test_topics_announced_together_go_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[list[str]] = []

    def send(topics: Any) -> bool:
        rounds.append(list(topics))
        return True

    announcer = Announcer(send)
    for _ in range(200):
        announcer.add(["teams", "pools"])
    assert announcer.flush(60)
    assert len(rounds) <= 3
    assert all(sorted(set(round_)) == sorted(round_) for round_ in rounds)


def test_a_forked_child_sends_of_itself(redis: servers.Redis) -> None:
    _send(("teams",))  # the parent's thread is there, and stays in the parent
    assert live.flush(60)
    before = live.version("pools")
    child = os.fork()
    if child == 0:
        _send(("pools",))
        os._exit(0 if live.flush(60) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert live.version("pools") > before


async def reader_of(*topics: str) -> tuple[hub.PageReader, dict[str, int]]:
    reader = hub.PageReader("somebody")
    hub.here().enter(reader)
    return reader, await hub.here().watch(reader, topics)


async def told(reader: hub.PageReader) -> dict[str, int]:
    async with asyncio.timeout(60):
        await reader.news.wait()
    return dict(reader.take())


async def test_an_idle_page_still_hears_after_redis_has_long_been_silent(redis: servers.Redis) -> None:
    reader, known = await reader_of("teams")
    await asyncio.sleep(6.5)
    _send(("teams",))
    assert (await told(reader))["teams"] > known["teams"]
    await hub.here().leave(reader)


async def test_pages_hear_again_after_a_restart(redis: servers.Redis) -> None:
    reader, known = await reader_of("teams")
    await asyncio.to_thread(redis.restart)
    anew = (await told(reader))["teams"]
    assert anew not in {known["teams"], live.UNKNOWN}
    _send(("teams",))
    assert (await told(reader))["teams"] > anew
    await hub.here().leave(reader)


async def test_a_page_that_opens_while_redis_is_away_hears_later(redis: servers.Redis) -> None:
    await asyncio.to_thread(redis.stop)
    reader, known = await reader_of("teams")
    assert known == {}
    await asyncio.to_thread(redis.start)
    assert (await told(reader))["teams"] > live.UNKNOWN
    await hub.here().leave(reader)


async def test_an_announcement_that_was_lost_on_the_way_is_caught_up(
    redis: servers.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "CATCH_UP_SECONDS", 0.2)
    reader, known = await reader_of("teams")
    found = live._shared()
    assert found is not None
    await asyncio.to_thread(lambda: found._raise(keys=[found._key], args=[shared.slot("teams")]))
    assert (await told(reader))["teams"] > known["teams"]
    await hub.here().leave(reader)


async def test_the_layer_delivers_what_was_published_around_it(redis: servers.Redis) -> None:
    layer: Any = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(live.group("link:x"), channel)
    await asyncio.to_thread(_send, ("link:x",))
    async with asyncio.timeout(60):
        message = await layer.receive(channel)
    version = await asyncio.to_thread(live.version, "link:x")
    assert message == {"type": "live.changed", "topic": "link:x", "version": version}
    assert redis.url == django_settings.REDIS
    await layer.flush()
