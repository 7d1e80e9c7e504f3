"""Durations as people write them, and back."""

import pytest

from teams.durations import duration_text, seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", 90),
        ("90s", 90),
        ("30m", 1800),
        ("2h", 7200),
        ("7d", 604_800),
        ("1w", 604_800),
        ("1h 30m", 5400),
        ("1h30m", 5400),
        ("1.5 h", 5400),
        (" 2D ", 172_800),
        (45, 45),
    ],
)
def test_a_number_with_its_unit_is_seconds(text: object, expected: int) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "h", "1h 30", "-5m", "9" * 41, "1e9h", True, None])
def test_what_is_no_duration_is_refused_with_the_value(text: object) -> None:
    with pytest.raises(ValueError, match="is not a duration: write seconds, or numbers with w, d, h, m or s"):
        seconds(text)


@pytest.mark.parametrize("length", [0, 1, 59, 60, 5400, 86_399, 604_800])
def test_what_is_shown_is_taken_again_as_the_same(length: int) -> None:
    assert seconds(duration_text(length)) == length


def test_none_is_nothing() -> None:
    assert duration_text(None) == ""
