"""Whether peak hours leave a part of the week."""

import pytest

from teams.peak_hours import leaves_some_open

MOST = ["mon-sat 00:00-24:00", "sun 00:00-12:00"]


@pytest.mark.parametrize(
    ("hours", "leave"),
    [
        ([], True),
        (["mon-fri 08:00-18:00"], True),
        (["mon-sun 00:00-23:59"], True),
        (["mon-sun 00:00-24:00"], False),
        (["mon-sun 12:00-11:59"], True),
        (["mon-sun 12:00-11:59", "mon-sun 11:00-12:00"], False),
        ([*MOST, "sun 12:00-23:59"], True),
        ([*MOST, "sun 12:00-00:00"], False),
        (["tue-sun 00:00-24:00", "mon 06:00-24:00", "sun 22:00-05:59"], True),
        (["tue-sun 00:00-24:00", "mon 06:00-24:00", "sun 22:00-06:00"], False),
    ],
)
def test_hours_leave_a_part_of_the_week_or_none(hours: list[str], leave: bool) -> None:
    assert leaves_some_open(hours) is leave
