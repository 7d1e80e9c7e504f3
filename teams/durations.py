"""Durations between what people write and what is stored: whole seconds."""

import re

UNITS = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}
_LONGEST = 40
"""Longest text that can be a duration: what is longer is nonsense, or a float that overflows."""
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", re.ASCII)


def seconds(value: object) -> int:
    """Return a duration as seconds: a number of them, or "90s", "30m", "4h", "2d", "1h 30m"."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _refusal(value)
    text = str(value).strip().lower()
    parts = _PART.findall(text) if len(text) <= _LONGEST else []
    if not parts or _PART.sub("", text).strip() or (len(parts) > 1 and not all(unit for _, unit in parts)):
        raise _refusal(value)
    return round(sum(float(number) * UNITS[unit or "s"] for number, unit in parts))


def _refusal(value: object) -> ValueError:
    units = ", ".join(list(UNITS)[:-1])
    return ValueError(
        f"{value!r} is not a duration: write seconds, or numbers with {units} or s, such as 30m, 4h or 1h 30m."
    )


def duration_text(length: int | None) -> str:
    """Return seconds as they are written in a form: "7d", "1h 30m", "45s"; "" for None."""
    if length is None:
        return ""
    parts = []
    for unit in ("d", "h", "m", "s"):
        count, length = divmod(length, UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts) or "0s"
