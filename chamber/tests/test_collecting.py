"""The collector is off while somebody is inside, and on again after the last."""

import gc
import threading

import pytest

from chamber.collecting import without_collecting


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
