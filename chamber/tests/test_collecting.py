"""The collector is off while somebody is inside, and on again after the last."""

import gc
import threading

import pytest

from chamber.collecting import keep_what_is_loaded, without_collecting


def divided_by_zero() -> None:
    with without_collecting():
        with without_collecting():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ZeroDivisionError


def test_the_collector_is_off_inside_and_on_after_an_error_too() -> None:
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        divided_by_zero()
    assert gc.isenabled()


def test_it_stays_off_until_the_last_thread_is_out() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with without_collecting():
            inside.set()
            leave.wait(60)

    with without_collecting():
        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(60)
    assert not gc.isenabled()
    leave.set()
    thread.join(60)
    assert gc.isenabled()


def test_who_has_put_it_off_himself_keeps_it_off() -> None:
    gc.disable()
    try:
        with without_collecting():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_is_loaded_is_not_walked_again_and_what_comes_seldom() -> None:
    before = gc.get_threshold()
    kept: list[list[int]] = [[] for _ in range(1000)]
    walks: list[int] = []

    def note(phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            walks.append(1)

    gc.callbacks.append(note)
    try:
        keep_what_is_loaded()
        assert gc.get_freeze_count() >= len(kept)
        walks.clear()
        of_a_page: list[list[int]] = [[] for _ in range(5000)]
        assert len(of_a_page) == 5000
        assert not walks
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)
        gc.unfreeze()
