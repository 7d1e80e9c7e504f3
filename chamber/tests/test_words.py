"""Counts whose noun agrees, and times that say their date where it is not today's."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from chamber.words import clock_time, count, plural

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods"), (1200, "1,200 pods")]
)
def test_a_noun_agrees_with_its_number(number: int, told: str) -> None:
    assert count(number, "pod") == told


def test_what_no_s_makes_several_of() -> None:
    assert [count(number, "retry", "retries") for number in (1, 2)] == ["1 retry", "2 retries"]
    assert [plural(number, "is") for number in (1, 2)] == ["is", "are"]


@pytest.mark.parametrize(
    ("moment", "told"),
    [
        (NOON, "12:00:00 UTC"),
        (NOON - timedelta(days=1), "2025-12-31 12:00:00 UTC"),
        (NOON.astimezone(timezone(timedelta(hours=9))), "12:00:00 UTC"),
    ],
)
def test_a_time_says_its_date_where_it_is_not_todays(moment: datetime, told: str) -> None:
    assert clock_time(moment, NOON) == told
