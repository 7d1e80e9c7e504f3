"""Typed reading of one mapping of a scenario: each getter returns a checked value or refuses with the bounds.

Null and absent are the same, and give the default. Numbers are read as decimals: a thousandth is exact, and a
number with a million digits is refused before it becomes an integer.
"""

import re
from collections.abc import Iterable, Iterator, Set
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import TypeVar

from .document import DocumentMapping, Scalar, ScenarioError, Sequence, Value

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
TEN_YEARS_MS = 3653 * DAY_MS

MAX_NAME_LENGTH = 200
MAX_SHOWN_LENGTH = 60
MAX_SHOWN_ITEMS = 5
MAX_DIGITS = 40

_UNITS_MS = {"ms": 1, "s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS, "w": 7 * DAY_MS}
_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?", re.ASCII)
_DURATION = re.compile(r"([-+]?)((?:[0-9]{1,15}(?:\.[0-9]{1,6})?(?:ms|s|m|h|d|w))+|0)", re.ASCII)
_DURATION_PART = re.compile(r"([0-9.]+)([a-z]+)", re.ASCII)

_Choice = TypeVar("_Choice", bound=StrEnum)


class Fields:
    """The keys of one mapping; `what` names it in refusals, such as ``workload "train-1"``."""

    __slots__ = ("_given", "_items", "_key_lines", "line", "what")

    def __init__(self, value: Value, what: str, keys: Set[str] | None) -> None:
        """`keys` are all that may stand here; None leaves the keys to the caller (they are names)."""
        if not isinstance(value, DocumentMapping):
            raise ScenarioError(f"{what} is {show(value)}; allowed is a mapping of keys", value.line)
        self.what = what
        self.line = value.line
        self._items = value.items
        self._key_lines = value.key_lines
        self._given = {
            key: item for key, item in value.items.items() if not (isinstance(item, Scalar) and item.is_null)
        }
        if keys is None:
            return
        for key in value.items:
            if key not in keys:
                raise ScenarioError(
                    f"{what} has the unknown key {shorten(key)}; allowed are {', '.join(sorted(keys))}",
                    value.key_lines[key],
                )

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def has(self, key: str) -> bool:
        """Whether the key is given and not null."""
        return key in self._given

    def names(self, key: str) -> bool:
        """Whether the key is given, be it as null."""
        return key in self._items

    def line_of(self, key: str) -> int:
        """The line of the key's value, or of the mapping where it is absent."""
        value = self._items.get(key)
        return self.line if value is None else value.line

    def key_line(self, key: str) -> int:
        """The line where the key itself stands."""
        return self._key_lines.get(key, self.line)

    def refusal(self, key: str, allowed: str) -> ScenarioError:
        """The refusal of a key's value; `allowed` says what may stand there."""
        return ScenarioError(f"{self.what}: {key} is {show(self._items[key])}; {allowed}", self.line_of(key))

    def required_text(self, key: str) -> str:
        """Like `text`, of a key that must be there."""
        self.require(key)
        return self.text(key) or ""

    def require(self, key: str) -> None:
        """Refuse a mapping without the key."""
        if not self.has(key):
            raise ScenarioError(f"{self.what} has no {key}; one is required", self.line_of(key))

    def value(self, key: str) -> Value | None:
        """The key's value as read, None where it is absent or null."""
        return self._given.get(key)

    def items_of(self, keys: Iterable[str]) -> tuple[tuple[str, Value], ...]:
        """The given keys among these, with their values as read, null included."""
        return tuple((key, self._items[key]) for key in sorted(keys) if key in self._items)

    def sequence(self, key: str) -> tuple[Value, ...]:
        """The items of a list; empty where it is absent."""
        value = self.value(key)
        if value is None:
            return ()
        if not isinstance(value, Sequence):
            raise self.refusal(key, "allowed is a list")
        return value.items

    def mapping(self, key: str, keys: Set[str] | None = None) -> "Fields | None":
        """The fields of a nested mapping, None where it is absent."""
        value = self.value(key)
        return None if value is None else Fields(value, f"{self.what}: {key}", keys)

    def text(self, key: str) -> str | None:
        """A name: printable text, or a number or boolean taken as it was written."""
        value = self.value(key)
        return None if value is None else text_of(value, f"{self.what}: {key}")

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of names."""
        return tuple(text_of(item, f"{self.what}: {key}") for item in self.sequence(key))

    def choice(self, key: str, choices: type[_Choice], default: _Choice) -> _Choice:
        """One of a fixed set of words."""
        text = self.text(key)
        if text is None:
            return default
        try:
            return choices(text)
        except ValueError:
            raise self.refusal(key, f"allowed are {', '.join(choices)}") from None

    def boolean(self, key: str, default: bool) -> bool:
        """True or false; `yes` and `on` are text in YAML 1.2 and refused."""
        value = self.value(key)
        if value is None:
            return default
        if isinstance(value, Scalar) and not value.quoted and value.text.lower() in ("true", "false"):
            return value.text.lower() == "true"
        raise self.refusal(key, "allowed are true and false")

    def integer(self, key: str, default: int, low: int, high: int) -> int:
        """A whole number within bounds, both allowed."""
        found = self.optional_integer(key, low, high)
        return default if found is None else found

    def optional_integer(self, key: str, low: int, high: int) -> int | None:
        """A whole number within bounds, None where it is absent."""
        value = self.value(key)
        if value is None:
            return None
        number = number_of(value)
        if number is None or not low <= number <= high or number != int(number):
            raise self.refusal(key, f"allowed are whole numbers from {low:,} to {high:,}")
        return int(number)

    def optional_milli(self, key: str, low: int, high: int) -> int | None:
        """A number exact to a thousandth, in thousandths; the bounds are in wholes. None where absent."""
        value = self.value(key)
        if value is None:
            return None
        number = number_of(value)
        if number is None or not low <= number <= high or number * 1000 != int(number * 1000):
            raise self.refusal(key, f"allowed are numbers from {low:,} to {high:,}, exact to a thousandth")
        return int(number * 1000)

    def milli(self, key: str, default: int, low: int, high: int) -> int:
        """Like `optional_milli`, with a default in thousandths."""
        found = self.optional_milli(key, low, high)
        return default if found is None else found

    def number(self, key: str, default: float, low: int, high: int) -> float:
        """Any number within bounds."""
        value = self.value(key)
        if value is None:
            return default
        number = number_of(value)
        if number is None or not low <= number <= high:
            raise self.refusal(key, f"allowed are numbers from {low:,} to {high:,}")
        return float(number)

    def duration(self, key: str, low: int = 0) -> int | None:
        """A duration in milliseconds, from `low` to ten years; None where it is absent."""
        found = self._time(key, 'a number with its unit, such as "30s", "10m", "2h" or "7d"')
        if found is not None and not low <= found <= TEN_YEARS_MS:
            least = "0s" if low == 0 else f"{low}ms"
            raise self.refusal(key, f"allowed are durations from {least} to ten years")
        return found

    def past(self, key: str) -> int | None:
        """A time at most ten years ago and not after now, relative to now, in milliseconds up to zero."""
        found = self._time(key, 'a time before now with its unit, such as "-30s", "-10m" or "-2h"')
        if found is not None and not -TEN_YEARS_MS <= found <= 0:
            raise self.refusal(key, "allowed are times from ten years ago to now")
        return found

    def moment(self, key: str) -> int | None:
        """A time within ten years of now, before or after it, relative to it, in milliseconds."""
        found = self._time(key, 'a time relative to now with its unit, such as "-30s", "10m" or "2h"')
        if found is not None and not -TEN_YEARS_MS <= found <= TEN_YEARS_MS:
            raise self.refusal(key, "allowed are times from ten years ago to ten years ahead")
        return found

    def _time(self, key: str, allowed: str) -> int | None:
        value = self.value(key)
        if value is None:
            return None
        found = duration_of(value.text) if isinstance(value, Scalar) else None
        if found is None:
            raise self.refusal(key, f"allowed is {allowed}")
        return found


def duration_of(text: str) -> int | None:
    """The milliseconds that a text such as "-1h30m" writes, None where it writes none."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    parts = _DURATION_PART.findall(match[2])
    total = sum((Decimal(number) * _UNITS_MS[unit] for number, unit in parts), Decimal(0))
    return int(-total if match[1] == "-" else total)


def text_of(value: Value, what: str) -> str:
    """The text of a scalar that names something; refuses lists, null and what cannot be printed."""
    if not isinstance(value, Scalar) or value.is_null:
        raise ScenarioError(f"{what} is {show(value)}; allowed is text", value.line)
    if not 1 <= len(value.text) <= MAX_NAME_LENGTH or not value.text.isprintable():
        raise ScenarioError(
            f"{what} is {show(value)}; allowed are 1 to {MAX_NAME_LENGTH} printable characters", value.line
        )
    return value.text


def string_of(value: Value, what: str) -> str:
    """The text of a scalar that is text already; a number or boolean is refused unless it is quoted."""
    bare = isinstance(value, Scalar) and not value.quoted
    if number_of(value) is not None or (bare and text_of(value, what).lower() in ("true", "false")):
        kind = "true or false" if number_of(value) is None else "a number"
        raise ScenarioError(f"{what} has {show(value)}, {kind}; allowed is text, in quotes", value.line)
    return text_of(value, what)


def number_of(value: Value) -> Decimal | None:
    """The number a scalar writes, None where it is none: text, NaN, a leading zero, too many digits."""
    if not isinstance(value, Scalar) or value.quoted or len(value.text) > MAX_DIGITS:
        return None
    if not _NUMBER.fullmatch(value.text):
        return None
    try:
        return Decimal(value.text)
    except InvalidOperation:
        return None


def show(value: Value) -> str:
    """A value as a refusal shows it: as it was written, and cut where it is long."""
    if isinstance(value, Sequence):
        shown = [show(item) for item in value.items[:MAX_SHOWN_ITEMS]]
        return f"[{', '.join(shown + ['...'] * (len(value.items) > len(shown)))}]"
    if isinstance(value, DocumentMapping):
        return "a mapping"
    if value.is_null:
        return "null"
    return shorten(value.text) if value.quoted else shorten(value.text)[1:-1]


def shorten(text: str) -> str:
    """Text in quotes, escaped, and cut where it is long."""
    shown = text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}..."
    printable = (c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
    return f'"{"".join(printable)}"'
