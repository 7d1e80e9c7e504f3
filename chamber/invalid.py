"""What is wrong with a value, as a sentence with the value and what is allowed: one for each kind of pydantic's errors.

Imports nothing of the project: agents say it in the same words, and so do forms (`chamber.forms`) and bodies of
requests (`chamber.bodies`).
"""

from collections.abc import Iterable, Mapping
from datetime import date
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

MOST_SHOWN = 80
MOST_CHOICES = 20
"""Choices that a sentence lists; of more it says how many there are."""
MOST_TOLD = 5
"""Sentences about one field: a list of a thousand wrong values is told by its first."""

_WHOLE = "{field} is {given}; it must be a whole number."
_NUMBER = "{field} is {given}; it must be a number."
_TEXT = "{field} is {given}; it must be text."
_TRUTH = "{field} is {given}; it must be true or false."
_LIST = "{field} is {given}; it must be a list."
_MAPPING = "{field} is {given}; it must be a mapping of names to values."
_UUID = "{field} is {given}; it must be a UUID, such as 0199c1f2-7d3a-7000-8000-1234567890ab."
_TIME = "{field} is {given}; it must be a time with its date and zone, such as 2026-01-31T12:00:00Z."
_CHOICE = "{given} is not allowed for {field}; allowed are {expected}."

SENTENCES: Mapping[str, str] = MappingProxyType({
    "missing": "{field} is missing.",
    "extra_forbidden": "There is no field {name}.",
    "none_required": "{field} is {given}; it must be null.",
    **dict.fromkeys(("int_type", "int_parsing", "int_parsing_size", "int_from_float"), _WHOLE),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), _NUMBER),
    **dict.fromkeys(("string_type", "string_unicode"), _TEXT),
    **dict.fromkeys(("bool_type", "bool_parsing"), _TRUTH),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), _LIST),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type"), _MAPPING),
    **dict.fromkeys(("uuid_type", "uuid_parsing", "uuid_version"), _UUID),
    **dict.fromkeys(
        (
            *("datetime_type", "datetime_parsing", "datetime_object_invalid", "datetime_from_date_parsing"),
            *("timezone_aware", "timezone_offset"),
        ),
        _TIME,
    ),
    **dict.fromkeys(("enum", "literal_error"), _CHOICE),
    "union_tag_invalid": "{given} is of the type {tag!r}; allowed are {expected_tags}.",
    "union_tag_not_found": "{field} is {given}; it must name its type.",
    "greater_than": "{field} is {given}; it must be above {gt:,}.",
    "greater_than_equal": "{field} is {given}; at least {ge:,} is allowed.",
    "less_than": "{field} is {given}; it must be below {lt:,}.",
    "less_than_equal": "{field} is {given}; at most {le:,} is allowed.",
    "string_too_short": "{field} is {given}; at least {min_length:,} characters are needed.",
    "string_too_long": "{field} is {given}; at most {max_length:,} characters are allowed.",
    "string_pattern_mismatch": "{field} is {given}; it must match {pattern}.",
    "too_short": "{field} has too few entries: at least {min_length:,} are needed.",
    "too_long": "{field} has too many entries: at most {max_length:,} are allowed.",
    "json_type": "{field} is {given}; it must be JSON.",
    "json_invalid": "It is not JSON: {error}.",
})  # fmt: skip
OTHERWISE = "{field} is {given}, which is not allowed."


def sentence(detail: ErrorDetails, field: str = "") -> str:
    """Return what is wrong, `field` being what the value is called: else its place."""
    kind, context = detail["type"], detail.get("ctx", {})
    field = field or place(detail)
    if kind in {"value_error", "assertion_error"}:
        return ended(str(context["error"]))
    name = str(detail["loc"][-1]) if detail["loc"] else ""
    return told(kind, field, detail["input"], name=name, **context)


def told(kind: str, field: str, given: Any, *, name: str = "", **bounds: Any) -> str:
    """Return the sentence of one kind about a value, with the bounds that it names."""
    whole = {
        key: int(value) if isinstance(value, float) and value.is_integer() else value
        for key, value in bounds.items()
    }
    pattern = SENTENCES.get(kind, OTHERWISE)
    return pattern.format(field=field, given=shown(given), name=repr(name), **whole)


def not_among(field: str, given: Any, choices: Iterable[object]) -> str:
    """Return the sentence about a value that is none of the choices."""
    allowed = [repr(str(choice)) for choice in choices]
    if not allowed:
        return f"{shown(given)} is not allowed for {field}; there is nothing to choose."
    if len(allowed) > MOST_CHOICES:
        return (
            f"{shown(given)} is not allowed for {field}; choose one of the {len(allowed):,} that are listed."
        )
    expected = " or ".join(filter(None, (", ".join(allowed[:-1]), allowed[-1])))
    return told("enum", field, given, expected=expected)


def sentences(error: ValidationError) -> dict[str, str]:
    """Return what is wrong with each value, by its address, in the order in which the values are looked at."""
    found: dict[str, list[str]] = {}
    for detail in error.errors(include_url=False):
        found.setdefault(address(detail), []).append(sentence(detail))
    return {where: together(told) for where, told in found.items()}


def place(detail: ErrorDetails) -> str:
    """Return what a sentence calls the value: its address, or "the name environment.1ST" for a key."""
    return f"the name {address(detail)}" if "[key]" in detail["loc"] else address(detail)


def address(detail: ErrorDetails) -> str:
    """Return where the value stands, also if it is a key: `environment.EPOCHS`, `pools[3]`; "it" for all of it."""
    path = ""
    for part in detail["loc"]:
        if part == "[key]":
            break
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path or "it"


def shown(value: Any) -> str:
    """Return a value as people wrote it, cut where it is long."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = value.isoformat() if isinstance(value, date) else repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}…"


def together(found: list[str]) -> str:
    """Return the sentences about one field as one text, each once; the first few where there are many."""
    told = list(dict.fromkeys(found))
    more = len(told) - MOST_TOLD
    return " ".join([*told[:MOST_TOLD], *([f"And {more:,} more like it."] if more > 0 else [])])


def ended(text: str) -> str:
    """Return a sentence with its full stop."""
    return text if text.endswith((".", "!", "?")) else f"{text}."
