"""Peak hours of pools as people write them: `mon-fri 08:00-18:00`."""

import re
from collections.abc import Iterable

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES = 24 * 60
WEEK_MINUTES = 7 * DAY_MINUTES
_HOURS = re.compile(r"([a-z]{3})(?:-([a-z]{3}))? ([0-9]{2}):([0-9]{2})-([0-9]{2}):([0-9]{2})", re.ASCII)


def minutes_of(text: str) -> list[tuple[int, int]] | None:
    """Return the hours that a text writes, in minutes of a week from Monday 00:00 on; None where it writes none.

    Days may go over the week's end (`sat-mon`), hours over midnight (`22:00-06:00`); a day ends at 24:00.
    """
    match = _HOURS.fullmatch(text)
    if match is None or not {match[1], match[2] or match[1]} <= set(DAYS):
        return None
    start, end = int(match[3]) * 60 + int(match[4]), int(match[5]) * 60 + int(match[6])
    if max(int(match[4]), int(match[6])) > 59 or start >= DAY_MINUTES or end > DAY_MINUTES or start == end:
        return None
    length = (end - start) % DAY_MINUTES or DAY_MINUTES
    first = DAYS.index(match[1])
    days = range(first, first + (DAYS.index(match[2] or match[1]) - first) % 7 + 1)
    return [(day % 7 * DAY_MINUTES + start, day % 7 * DAY_MINUTES + start + length) for day in days]


def leaves_some_open(texts: Iterable[str]) -> bool:
    """Return whether hours leave a part of the week."""
    week = bytearray(WEEK_MINUTES)
    for text in texts:
        for start, end in minutes_of(text) or ():
            for first, last in ((start, min(end, WEEK_MINUTES)), (0, max(end - WEEK_MINUTES, 0))):
                week[first:last] = b"x" * (last - first)
    return 0 in week
