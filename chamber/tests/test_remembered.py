"""What is remembered by each process and by all: what is found, and until when."""

import pickle
import time
from typing import Any

import pytest
import redis
from celery import current_app
from django.core.cache import cache, caches
from pytest_django.fixtures import Settings

from chamber import remembered, stores
from chamber.fragments import Viewer
from chamber.ids import new_id
from chamber.remembered import Remembered, SharedCache
from rig import servers


@pytest.fixture(autouse=True)
def _empty_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "_ask_from", 0.0)
    for each in ("default", "viewers"):
        caches[each].clear()


@pytest.fixture
def viewers() -> Remembered[Any]:
    return Remembered("viewers", Any)


def of_another_process(viewers: Remembered[Any], key: str, value: object, seconds: float = 60) -> None:
    """Set a value as another process does, whose memory is not this one's."""
    before = caches["viewers"].get(viewers._key(key))
    viewers.set(key, value, seconds)
    caches["viewers"].delete(viewers._key(key))
    if before is not None:
        caches["viewers"].set(viewers._key(key), before)


def test_what_this_process_has_is_asked_of_nobody(viewers: Remembered[Any], monkeypatch: Any) -> None:
    of_another_process(viewers, "who", "rosa")
    assert viewers.find("who") == "rosa"
    monkeypatch.setattr(cache, "get_many", lambda _: pytest.fail("asked"), raising=False)
    assert viewers.find("who") == "rosa"


def test_what_no_longer_suits_here_is_asked_of_the_others(viewers: Remembered[Any]) -> None:
    viewers.set("who", "old", 60)
    of_another_process(viewers, "who", "new")
    assert viewers.find("who") == "old"
    assert viewers.find("who", suits=lambda value: value != "old") == "new"
    assert viewers.find("who") == "new"


def test_the_first_key_goes_before_the_second(viewers: Remembered[Any]) -> None:
    viewers.set("second", 2, 60)
    viewers.set("first", 1, 60)
    assert viewers.find("first", "second") == 1
    assert viewers.find("none", "second") == 2


def test_nothing_lasts_longer_here_than_it_was_to(viewers: Remembered[Any], monkeypatch: Any) -> None:
    of_another_process(viewers, "who", "rosa", seconds=60)
    assert viewers.find("who") == "rosa"
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    assert viewers.find("who") is None


def test_what_is_dropped_is_found_nowhere(viewers: Remembered[Any]) -> None:
    viewers.set("who", "rosa", 60)
    viewers.delete("who")
    assert viewers.find("who") is None


def test_another_version_of_the_program_finds_nothing(viewers: Remembered[Any], monkeypatch: Any) -> None:
    viewers.set("who", "rosa", 60)
    monkeypatch.setattr(remembered, "__version__", "99.0")
    assert viewers.find("who") is None


def test_where_the_cache_is_away_nothing_is_found_and_it_is_said_once(
    viewers: Remembered[Any], monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: object) -> None:
        raise ConnectionError("refused")

    monkeypatch.setattr(cache, "get_many", away, raising=False)
    assert [viewers.find("who"), viewers.find("who")] == [None, None]
    assert caplog.text.count("The cache is away") == 1
    monkeypatch.setattr(remembered, "_ask_from", 0.0)


class Bomb:
    """What runs code where it is unpickled."""

    def __reduce__(self) -> Any:
        return (pytest.fail, ("unpickled",))


@pytest.mark.redis
def test_nothing_that_lies_in_redis_runs_code(settings: Settings) -> None:
    assert set(current_app.conf.accept_content) == {"json"}
    with servers.redis() as running:
        shared = SharedCache(running.url, {"OPTIONS": {"serializer": "chamber.remembered.Plain"}})
        settings.CACHES = {**settings.CACHES, "default": stores.caches(running.url)["default"]}
        with redis.Redis.from_url(running.url) as client:
            client.set(shared.make_key("bomb"), pickle.dumps(Bomb()))
            assert shared.get("bomb") is None
            kept = Remembered("viewers", Viewer)
            viewer = Viewer(new_id(), "kind", (1, 2))
            kept.set("who", viewer, 60)
            caches["viewers"].clear()
            assert kept.find("who") == viewer
            [key] = client.keys("chamber-json*who")
            for wrong in (pickle.dumps(Bomb()), b'"{}"', b'[1, {"user_id": 3}]', b"\xff"):
                client.set(key, wrong)
                caches["viewers"].clear()
                assert kept.find("who") is None
        assert shared.add("tries", 0, 60)
        assert [shared.incr("tries"), shared.get("tries")] == [1, 1]
