"""Typed reading of the environment: a bad value stops the program with one sentence that names it."""

import os
import re
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

LABEL = r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?"
NAME = rf"{LABEL}(?:\.{LABEL})*"
HOST = re.compile(rf"\*|\.?{NAME}", re.IGNORECASE)
ORIGIN = re.compile(rf"https?://(?:(?:\*\.)?{NAME}|\[[0-9a-f:.]+\])(?::[0-9]{{1,5}})?")
"""As browsers write it, which is what it is compared with: in small letters, without a slash at its end."""
PLACE = re.compile(rf"https?://(?:{NAME}|\[[0-9a-f:.]+\])(?::[0-9]{{1,5}})?", re.IGNORECASE)
"""Where a server is reached: an origin with one host."""

asked: set[str] = set()
"""Every name that was looked for, so that `chamber doctor` can tell which ones mean nothing."""


def _read(name: str) -> str | None:
    """Return what the environment has under this name."""
    asked.add(name)
    return os.environ.get(name)


def _stop(name: str, value: str, allowed: str) -> NoReturn:
    raise SystemExit(f"The environment variable {name} is {value!r}; allowed is {allowed}.")


def text(name: str, default: str) -> str:
    """Return the variable's value; `NAME_FILE` may name a file that holds it (for secrets)."""
    value, path = _read(name), _read(f"{name}_FILE")
    if not path:
        return default if value is None else value
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        _stop(f"{name}_FILE", path, f"a readable file ({error.strerror})")


def flag(name: str, *, default: bool) -> bool:
    """Return a switch: 1, true, yes, on or 0, false, no, off."""
    value = (_read(name) or "").strip().lower()
    if value == "":
        return default
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    _stop(name, value, "1, true, yes, on, 0, false, no or off")


def integer(name: str, default: int, *, low: int, high: int) -> int:
    """Return a whole number between `low` and `high`, both included."""
    value = (_read(name) or "").strip()
    if value == "":
        return default
    try:
        number = int(value)
    except ValueError:
        _stop(name, value, f"a whole number from {low} to {high}")
    if not low <= number <= high:
        _stop(name, value, f"a whole number from {low} to {high}")
    return number


def integer_or_none(name: str, *, low: int, high: int) -> int | None:
    """Return a whole number between `low` and `high`, both included; None where the variable is not set."""
    return integer(name, low, low=low, high=high) if (_read(name) or "").strip() else None


def networks(name: str) -> list[IPv4Network | IPv6Network]:
    """Return a comma-separated list of networks; a single address is a network of one."""
    found = []
    for word in words(name, ""):
        try:
            found.append(ip_network(word))
        except ValueError:
            _stop(name, word, "addresses and networks such as 10.0.0.7 or 10.0.0.0/8, separated by commas")
    return found


def origin(name: str) -> str:
    """Return where a server is reached, as a URL without a path; "" where the variable is not set."""
    value = (_read(name) or "").strip().rstrip("/")
    if not value:
        return ""
    try:
        parts = urlsplit(value)
        whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole or not PLACE.fullmatch(value):
        _stop(name, value, "a URL with a name and without a path, such as https://chamber.example.org")
    return value


def hosts(name: str) -> list[str]:
    """Return a comma-separated list of host names, and addresses that are used as such."""
    found = words(name, "")
    for word in found:
        if not HOST.fullmatch(word) and not _is_bracketed(word):
            _stop(
                name,
                word,
                "host names such as gpus.example.org, .example.org (with all names below it), 10.0.0.7 or "
                "[2001:db8::7], without scheme, port and path, separated by commas",
            )
    return found


def _is_bracketed(word: str) -> bool:
    """Return whether this is an IPv6 address as it stands in a URL."""
    try:
        IPv6Address(word[1:-1])
    except ValueError:
        return False
    return word[0] == "[" and word[-1] == "]"


def origins(name: str) -> list[str]:
    """Return a comma-separated list of origins: scheme, host, and port where it is not the scheme's."""
    found = words(name, "")
    for word in found:
        if not ORIGIN.fullmatch(word):
            _stop(
                name,
                word,
                "origins such as https://gpus.example.org, https://*.example.org or https://gpus.example.org:8443, "
                "with their scheme, in small letters, without a path, separated by commas",
            )
    return found


def words(name: str, default: str) -> list[str]:
    """Return a comma-separated list without empty entries."""
    value = _read(name)
    given = default if value is None else value
    return [word.strip() for word in given.split(",") if word.strip()]


def choice(name: str, default: str, allowed: Sequence[str]) -> str:
    """Return one of the words that are allowed."""
    value = (_read(name) or "").strip() or default
    if value not in allowed:
        _stop(name, value, f"{', '.join(allowed[:-1])} or {allowed[-1]}")
    return value
