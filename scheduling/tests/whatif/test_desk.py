"""One question at a time, answers kept for who asks again, and a bound on how many wait."""

import threading
from collections.abc import Callable, Iterator

import pytest

from scheduling.whatif import desk as desks
from scheduling.whatif.desk import MOST_WAITING, Desk, TooMany, Work


@pytest.fixture
def slow() -> Iterator[threading.Event]:
    """Return what slow work waits for; whatever still waits at the end is let go."""
    done = threading.Event()
    yield done
    done.set()


def giving(answer: str, after: threading.Event | None = None) -> Callable[[], Work[str]]:
    """Return work with this answer, once the event is set."""

    def work() -> str:
        assert after is None or after.wait(60)
        return answer

    return lambda: work


def test_an_answer_is_returned() -> None:
    assert Desk[str]().ask("q", giving("a"), wait_seconds=10) == "a"


def test_what_takes_longer_goes_on_and_is_there_when_asked_again(slow: threading.Event) -> None:
    desk = Desk[str]()
    first = desk.ask("q", giving("a", slow), wait_seconds=0.01)
    slow.set()

    assert first is None
    assert desk.ask("q", giving("never asked"), wait_seconds=10) == "a"


def test_one_is_worked_out_after_the_other_also_of_several_desks(slow: threading.Event) -> None:
    one, other = Desk[str](), Desk[str]()
    one.ask("q", giving("a", slow), wait_seconds=0)
    assert other.ask("q", giving("b"), wait_seconds=0.05) is None
    slow.set()

    assert other.ask("q", giving("c"), wait_seconds=10) == "b"


def test_more_than_may_wait_are_refused_but_not_who_asks_again(slow: threading.Event) -> None:
    desk = Desk[str]()
    for number in range(MOST_WAITING):
        assert desk.ask(number, giving("a", slow), wait_seconds=0) is None

    with pytest.raises(TooMany, match=f"{MOST_WAITING} other questions"):
        desk.ask("one more", giving("a"), wait_seconds=0)
    assert desk.ask(0, giving("a"), wait_seconds=0) is None


def test_the_tables_are_read_by_who_asks_and_only_where_nobody_asked_before() -> None:
    desk, threads = Desk[str](), []

    def work() -> Work[str]:
        threads.append(threading.current_thread())
        return lambda: threading.current_thread().name

    name = desk.ask("q", work, wait_seconds=10)
    desk.ask("q", work, wait_seconds=10)

    assert threads == [threading.current_thread()]
    assert name is not None
    assert name.startswith("what-if")


def test_an_old_answer_is_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk[str]()
    desk.ask("q", giving("old"), wait_seconds=10)
    monkeypatch.setattr(desks, "KEPT_SECONDS", -1.0)

    assert desk.ask("q", giving("new"), wait_seconds=10) == "new"


def test_what_the_work_raises_reaches_who_asked() -> None:
    def fail() -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Desk[str]().ask("q", lambda: fail, wait_seconds=10)
