"""Moments as people write them: an absolute time with its zone, or a time from now."""

import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from chamber import invalid
from teams import durations
from teams.time_zones import is_time_zone

FARTHEST = timedelta(days=3653)
_LONGEST = 80
_ZONED = re.compile(r"(\S+(?: \d\d:\d\d(?::\d\d)?)?) ([A-Za-z][A-Za-z0-9_+/-]*)", re.ASCII)


def moment(value: object, now: datetime) -> datetime:
    """Return the moment that a value writes, in whole seconds: `2026-12-01T20:00+01:00`, `2026-12-01 20:00
    Europe/Berlin`, or a duration from `now`, such as `2h`. Raises ValueError with a sentence.
    """
    found = _read(value, now)
    if not now - FARTHEST <= found <= now + FARTHEST:
        raise ValueError(f"{invalid.shown(value)} is more than ten years from now.")
    return found.astimezone(UTC).replace(microsecond=0)


def moment_text(at: datetime) -> str:
    """Return a moment as sentences and forms write it: `2026-12-01 19:00 UTC`, with seconds where there are some."""
    at = at.astimezone(UTC)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at.second else f"{at:%Y-%m-%d %H:%M} UTC"


def _read(value: object, now: datetime) -> datetime:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise _without_zone(value)
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _refusal(value)
    length = _duration(value)
    if length is not None:
        return now + length
    text = str(value).strip()
    return _absolute(text, value) if len(text) <= _LONGEST else _refuse(value)


def _duration(value: str | float) -> timedelta | None:
    try:
        seconds = durations.seconds(value)
    except ValueError:
        return None
    # What is farther than any moment is refused as such, not as no duration.
    return timedelta(seconds=min(seconds, 10 * 366 * 86_400 * 2))


def _absolute(text: str, value: object) -> datetime:
    zoned = _ZONED.fullmatch(text)
    zone = None
    if zoned is not None:
        text, name = zoned.groups()
        if not is_time_zone(name):
            raise ValueError(f"{name!r} is no time zone: write one such as UTC or Europe/Berlin.")
        zone = ZoneInfo(name)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return _refuse(value)
    if zone is not None and found.tzinfo is None:
        return found.replace(tzinfo=zone)
    if found.tzinfo is None or zone is not None:
        raise _without_zone(value) if zone is None else _refusal(value)
    return found


def _refuse(value: object) -> datetime:
    raise _refusal(value)


def _without_zone(value: object) -> ValueError:
    return ValueError(
        f"{_shown(value)} has no time zone: write 2026-12-01T20:00Z, 2026-12-01 20:00 Europe/Berlin, or a time from "
        "now such as 2h."
    )


def _refusal(value: object) -> ValueError:
    return ValueError(
        f"{_shown(value)} is no time: write one with its zone, such as 2026-12-01T20:00Z or 2026-12-01 20:00 "
        "Europe/Berlin, or a time from now, such as 2h."
    )


def _shown(value: object) -> str:
    return repr(value.isoformat()) if isinstance(value, date) else invalid.shown(value)
