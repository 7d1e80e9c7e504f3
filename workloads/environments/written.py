"""How a submission names an environment: `environment: pytorch@3`. A mapping there is its variables."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from chamber import invalid

LONGEST = 112
_REFERENCE = re.compile(
    r"(?:(?P<team>[a-z0-9]+(?:-[a-z0-9]+)*)/)?(?P<name>[a-z](?:[a-z0-9.-]*[a-z0-9])?)(?:@(?P<number>[1-9][0-9]{0,8}))?",
    re.ASCII,
)
NAMES = {"environment": "runs_in", "variables": "environment"}
"""What is written, and the field that it is."""


class Reference(NamedTuple):
    """A named environment: of the nearest team that has it where none is said, the newest version where none is."""

    team: str
    name: str
    number: int | None


def is_name(value: object) -> bool:
    """Return whether what stands under `environment` names one."""
    return isinstance(value, str)


def moved(data: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a submission with both under the names of their fields, and how each was written."""
    found, written = dict(data), {}
    if is_name(found.get("environment")) and "runs_in" not in found:
        found["runs_in"] = found.pop("environment")
        written["runs_in"] = "environment"
    if "variables" in found and "environment" not in found:
        found["environment"] = found.pop("variables")
        written["environment"] = "variables"
    return found, written


def read(text: str) -> Reference:
    """Return what a name says; raise `ValueError` with a sentence where it is none."""
    found = _REFERENCE.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        raise ValueError(
            f"{invalid.shown(text)} names no environment: write NAME or TEAM/NAME, and @3 after it for a version."
        )
    number = found["number"]
    return Reference(found["team"] or "", found["name"], int(number) if number else None)


def checked(text: str) -> str:
    """Return a name as it is written; raise `ValueError` where it is none."""
    if text:
        read(text)
    return text
