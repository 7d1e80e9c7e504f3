"""Names of time zones that this process knows: the system's, and those of the package `tzdata`."""

from functools import cache
from zoneinfo import available_timezones


def is_time_zone(name: str) -> bool:
    """Return whether a name is that of a time zone, such as `Europe/Berlin`."""
    return name in _names()


@cache
def _names() -> frozenset[str]:
    """Looked up once: it reads a folder tree, which takes several milliseconds."""
    return frozenset(available_timezones())
