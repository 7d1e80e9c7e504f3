"""Typed reading of the environment: a bad value stops the program with one sentence that names it."""

import os
from pathlib import Path
from typing import NoReturn


def _stop(name: str, value: str, allowed: str) -> NoReturn:
    raise SystemExit(f"The environment variable {name} is {value!r}; allowed is {allowed}.")


def text(name: str, default: str) -> str:
    """Return the variable's value; `NAME_FILE` may name a file that holds it (for secrets)."""
    path = os.environ.get(f"{name}_FILE")
    if not path:
        return os.environ.get(name, default)
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        _stop(f"{name}_FILE", path, f"a readable file ({error.strerror})")


def flag(name: str, *, default: bool) -> bool:
    """Return a switch: 1, true, yes, on or 0, false, no, off."""
    value = os.environ.get(name, "").strip().lower()
    if value == "":
        return default
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    _stop(name, value, "1, true, yes, on, 0, false, no or off")


def integer(name: str, default: int, *, low: int, high: int) -> int:
    """Return a whole number between `low` and `high`, both included."""
    value = os.environ.get(name, "").strip()
    if value == "":
        return default
    try:
        number = int(value)
    except ValueError:
        _stop(name, value, f"a whole number from {low} to {high}")
    if not low <= number <= high:
        _stop(name, value, f"a whole number from {low} to {high}")
    return number


def words(name: str, default: str) -> list[str]:
    """Return a comma-separated list without empty entries."""
    return [word.strip() for word in os.environ.get(name, default).split(",") if word.strip()]
