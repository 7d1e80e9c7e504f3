"""What is remembered by each process and by all: what is found, and until when."""

import time
from typing import Any

import pytest
from django.core.cache import cache, caches

from chamber import remembered
from chamber.remembered import Remembered


@pytest.fixture(autouse=True)
def _empty_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "_ask_from", 0.0)
    for each in ("default", "viewers"):
        caches[each].clear()


@pytest.fixture
def viewers() -> Remembered:
    return Remembered("viewers")


def of_another_process(viewers: Remembered, key: str, value: object, seconds: float = 60) -> None:
    """Set a value as another process does, whose memory is not this one's."""
    before = caches["viewers"].get(viewers._key(key))
    viewers.set(key, value, seconds)
    caches["viewers"].delete(viewers._key(key))
    if before is not None:
        caches["viewers"].set(viewers._key(key), before)


def test_what_this_process_has_is_asked_of_nobody(viewers: Remembered, monkeypatch: Any) -> None:
    of_another_process(viewers, "who", "rosa")
    assert viewers.find("who") == "rosa"
    monkeypatch.setattr(cache, "get_many", lambda _: pytest.fail("asked"), raising=False)
    assert viewers.find("who") == "rosa"


def test_what_no_longer_suits_here_is_asked_of_the_others(viewers: Remembered) -> None:
    viewers.set("who", "old", 60)
    of_another_process(viewers, "who", "new")
    assert viewers.find("who") == "old"
    assert viewers.find("who", suits=lambda value: value != "old") == "new"
    assert viewers.find("who") == "new"


def test_the_first_key_goes_before_the_second(viewers: Remembered) -> None:
    viewers.set("second", 2, 60)
    viewers.set("first", 1, 60)
    assert viewers.find("first", "second") == 1
    assert viewers.find("none", "second") == 2


def test_nothing_lasts_longer_here_than_it_was_to(viewers: Remembered, monkeypatch: Any) -> None:
    of_another_process(viewers, "who", "rosa", seconds=60)
    assert viewers.find("who") == "rosa"
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    assert viewers.find("who") is None


def test_what_is_dropped_is_found_nowhere(viewers: Remembered) -> None:
    viewers.set("who", "rosa", 60)
    viewers.delete("who")
    assert viewers.find("who") is None


def test_another_version_of_the_program_finds_nothing(viewers: Remembered, monkeypatch: Any) -> None:
    viewers.set("who", "rosa", 60)
    monkeypatch.setattr(remembered, "__version__", "99.0")
    assert viewers.find("who") is None


def test_where_the_cache_is_away_nothing_is_found_and_it_is_said_once(
    viewers: Remembered, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: object) -> None:
        raise ConnectionError("refused")

    monkeypatch.setattr(cache, "get_many", away, raising=False)
    assert [viewers.find("who"), viewers.find("who")] == [None, None]
    assert caplog.text.count("The cache is away") == 1
    monkeypatch.setattr(remembered, "_ask_from", 0.0)
