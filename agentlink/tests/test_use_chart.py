"""The chart of GPU use: equal steps of means, gaps that stay gaps, and the window that shows a whole life."""

from datetime import UTC, datetime, timedelta

import pytest

from agentlink.use_chart import BY_KEY, Sample, chart, smallest_window, windows_of

UNTIL = datetime(2026, 3, 2, 12, 0, 30, tzinfo=UTC)
END = UNTIL.replace(minute=1, second=0)
HOUR, WEEK = BY_KEY["1h"], BY_KEY["7d"]


def sample(minutes_ago: float, busy: int, *, minutes: int = 1, tensor: int | None = None) -> Sample:
    at = UNTIL.replace(second=0) - timedelta(minutes=minutes_ago)
    return Sample(at, minutes, 2, busy, tensor, 1000 * busy, None)


def test_each_minute_of_an_hour_is_a_step_in_its_place() -> None:
    drawn = chart([sample(2, 50), sample(1, 100)], HOUR, UNTIL)
    assert (drawn.since, drawn.until) == (UNTIL.replace(hour=11, minute=51, second=0), END)
    assert drawn.busy == "M700.0 100.0 L800.0 100.0 L800.0 0.0 L900.0 0.0"
    assert drawn.area == f"{drawn.busy} L900.0 200 L700.0 200 Z"
    assert (drawn.mean_percent, drawn.most_percent) == (75, 100)


def test_the_picture_begins_with_the_first_that_was_measured() -> None:
    drawn = chart([sample(29, 50), sample(0, 100)], HOUR, UNTIL)
    assert drawn.since == END - timedelta(minutes=30)
    assert [step.x for step in drawn.steps] == pytest.approx([0, 1000 - 1000 / 30])
    assert [step.sample.at for step in drawn.steps] == [drawn.since, END - timedelta(minutes=1)]


def test_longer_windows_show_means_weighed_by_time() -> None:
    drawn = chart([sample(24 * 60, 20, minutes=60), sample(24 * 60 - 30, 80), sample(1, 50)], WEEK, UNTIL)
    assert [step.sample.busy_percent for step in drawn.steps] == [20, 50]
    assert drawn.steps[0].sample.minutes == 61
    assert drawn.mean_percent == 20


def test_where_nothing_was_measured_there_is_a_gap() -> None:
    drawn = chart([sample(50, 10), sample(49, 10), sample(47, 10), sample(20, 90)], HOUR, UNTIL)
    assert drawn.busy.count("M") == 2
    assert drawn.area.count("Z") == 2


def test_tensor_cores_are_drawn_where_they_are_known() -> None:
    assert chart([sample(2, 50)], HOUR, UNTIL).tensor == ""
    drawn = chart([sample(3, 50), sample(2, 50, tensor=25)], HOUR, UNTIL)
    assert drawn.tensor == "M700.0 150.0 L800.0 150.0"


def test_what_lies_outside_is_not_drawn() -> None:
    assert chart([sample(61, 50), sample(-2, 50)], HOUR, UNTIL).steps == ()
    empty = chart([], HOUR, UNTIL)
    assert (empty.busy, empty.area, empty.mean_percent, empty.most_percent) == ("", "", 0, 0)


@pytest.mark.parametrize(
    ("minutes", "key"), [(5, "1h"), (60, "1h"), (61, "24h"), (3000, "7d"), (20_000, "30d"), (90_000, "30d")]
)
def test_a_life_is_shown_in_the_smallest_window_that_holds_it(minutes: int, key: str) -> None:
    assert smallest_window(UNTIL - timedelta(minutes=minutes), UNTIL).key == key


def test_a_picture_has_a_bounded_number_of_steps() -> None:
    minutes = [sample(number, 50) for number in range(60 * 24 * 31)]
    assert [len(chart(minutes, window, UNTIL).steps) for window in BY_KEY.values()] == [60, 96, 84, 120]


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        (5, ["All of it"]),
        (61, ["1 hour", "All of it"]),
        (3000, ["1 hour", "24 hours", "All of it"]),
        (90_000, ["1 hour", "24 hours", "7 days", "30 days"]),
    ],
)
def test_windows_longer_than_the_life_are_not_offered(minutes: int, words: list[str]) -> None:
    assert [window.words for window in windows_of(UNTIL - timedelta(minutes=minutes), UNTIL)] == words
