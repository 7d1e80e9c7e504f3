"""Peak hours of a pool: weekly hours of a time zone in which some elastic workloads are not admitted (section 10).

An instant is in the peak if the wall clock of the zone then shows one of the hours. So an hour that daylight saving
skips is no peak, and one that it repeats is one twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES = 24 * 60
WEEK_MINUTES = 7 * DAY_MINUTES
MINUTE_MS = 60_000
DAYS_LOOKED_AT = 16
"""Two weeks, as the only hour of a week that is open may be the one that is skipped, and a day on each side for what
lies over midnight and for zones that move."""
HOURS = re.compile(r"([a-z]{3})(?:-([a-z]{3}))? ([0-9]{2}):([0-9]{2})-([0-9]{2}):([0-9]{2})", re.ASCII)


@dataclass(frozen=True, slots=True)
class WeeklyHours:
    """Hours of a week, in minutes since Monday 00:00 of the wall clock: from ``start`` to before ``end``."""

    start: int
    end: int


def weekly_hours(text: str) -> tuple[WeeklyHours, ...] | None:
    """The hours that a text such as ``mon-fri 08:00-18:00`` writes; ``None`` where it writes none.

    Days may go over the week's end (``sat-mon``), hours over midnight (``22:00-06:00``); 24:00 is an end of a day.
    """
    match = HOURS.fullmatch(text)
    if match is None:
        return None
    first, last, *numbers = match.groups()
    from_hour, from_minute, to_hour, to_minute = map(int, numbers)
    start, end = from_hour * 60 + from_minute, to_hour * 60 + to_minute
    days = {first, last or first}
    if not days <= set(DAYS) or max(from_minute, to_minute) > 59 or start >= DAY_MINUTES or end > DAY_MINUTES:
        return None
    if start == end:
        return None
    length = (end - start) % DAY_MINUTES or DAY_MINUTES
    count = (DAYS.index(last or first) - DAYS.index(first)) % 7 + 1
    begins = [(DAYS.index(first) + number) % 7 * DAY_MINUTES + start for number in range(count)]
    return tuple([WeeklyHours(begin, begin + length) for begin in begins])


@dataclass(frozen=True, slots=True)
class PeakHours:
    """A pool's peak: when it is, and what is not admitted then.

    Elastic workloads of more than ``max_milli`` milli-GPUs (``None``: of any size), or of one of the job ``classes``.
    """

    hours: tuple[WeeklyHours, ...]
    zone: str = "UTC"
    max_milli: int | None = None
    classes: tuple[str, ...] = ()

    def concerns(self, *, reserved: bool, milli: int, job_class: str) -> bool:
        """Whether a workload of this class and size, all its pods counted, is kept out during the peak."""
        too_large = self.max_milli is not None and milli > self.max_milli
        return not reserved and (too_large or job_class in self.classes)

    def is_at(self, now: int) -> bool:
        """Whether it is peak then."""
        return _is_peak(self, now)

    def opens_at(self, now: int) -> int | None:
        """The first time from then on at which it is no peak; ``None`` if it never ends."""
        return _next_change(self, now) if _is_peak(self, now) else now

    def changes_at(self, now: int) -> int | None:
        """When the peak begins next, or ends if it is peak then; ``None`` if neither is ever the case."""
        return _next_change(self, now)


def in_zone(at: int, zone: str) -> str:
    """A time as people of a zone read it: ``2026-01-05 18:00 Europe/Berlin``."""
    return f"{_local(at, zone):%Y-%m-%d %H:%M} {zone}"


def _local(at: int, zone: str) -> datetime:
    return datetime.fromtimestamp(at // 1000, _zone(zone))


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def _is_peak(peak: PeakHours, at: int) -> bool:
    local = _local(at, peak.zone)
    minute = local.weekday() * DAY_MINUTES + local.hour * 60 + local.minute
    either = (minute, minute + WEEK_MINUTES)  # hours that go over the week's end
    return any(hours.start <= each < hours.end for hours in peak.hours for each in either)


@lru_cache(maxsize=4096)
def _next_change(peak: PeakHours, now: int) -> int | None:
    """The first time after ``now`` at which the peak begins or ends."""
    was = _is_peak(peak, now)
    times = sorted({at for at in _possible_changes(peak, now) if at > now})
    return next((at for at in times if _is_peak(peak, at) is not was), None)


def _possible_changes(peak: PeakHours, now: int) -> Iterator[int]:
    """When hours begin or end, by each reading of the wall clock, and when the zone moves its clocks."""
    zone, first = _zone(peak.zone), _local(now, peak.zone).date() - timedelta(days=1)
    for days in range(DAYS_LOOKED_AT + 1):
        day = first + timedelta(days=days)
        midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - a wall clock's, given its zone below
        for hours in peak.hours:
            for minute in (hours.start % WEEK_MINUTES, hours.end % WEEK_MINUTES):
                if minute // DAY_MINUTES == day.weekday():
                    wall = midnight + timedelta(minutes=minute % DAY_MINUTES)
                    yield from (_instant(wall.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
        yield from _moved_within(_instant(midnight.replace(tzinfo=UTC)), peak.zone)


def _instant(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000


def _moved_within(start: int, zone: str) -> Iterator[int]:
    """The minute of a day from ``start`` on in which the zone moves its clocks, if it does."""
    low, high = start // MINUTE_MS, start // MINUTE_MS + DAY_MINUTES
    before = _local(low * MINUTE_MS, zone).utcoffset()
    if before == _local(high * MINUTE_MS, zone).utcoffset():
        return
    while high - low > 1:
        middle = (low + high) // 2
        if _local(middle * MINUTE_MS, zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    yield high * MINUTE_MS
