"""Steps: a few at once, then no faster than the pace."""

import pytest

from agentlink.pace import Pace


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pace(clock: Clock) -> Pace:
    return Pace(at_once=3, every_seconds=0.2, clock=clock)


def test_a_few_steps_are_taken_at_once(pace: Pace) -> None:
    for _ in range(3):
        assert pace.rest_seconds() == 0
        pace.step()

    assert pace.rest_seconds() == pytest.approx(0.2)


def test_those_that_follow_are_taken_at_the_pace(pace: Pace, clock: Clock) -> None:
    taken = 0
    for _ in range(1_000):
        if pace.rest_seconds() == 0:
            pace.step()
            taken += 1
        clock.now += 0.01

    assert taken == pytest.approx(3 + 10 / 0.2, abs=1)


def test_a_rest_gives_back_as_many_steps_as_it_was_long(pace: Pace, clock: Clock) -> None:
    for _ in range(3):
        pace.step()

    clock.now += 0.4
    for _ in range(2):
        assert pace.rest_seconds() == pytest.approx(0, abs=1e-9)
        pace.step()
    assert pace.rest_seconds() == pytest.approx(0.2)


def test_a_long_rest_gives_no_more_than_those_few(pace: Pace, clock: Clock) -> None:
    pace.step()
    clock.now += 3_600
    for _ in range(3):
        pace.step()

    assert pace.rest_seconds() == pytest.approx(0.2)


def test_steps_that_do_not_wait_keep_the_next_one_waiting_no_longer(pace: Pace) -> None:
    for _ in range(100):
        pace.step()

    assert pace.rest_seconds() == pytest.approx(0.2)
