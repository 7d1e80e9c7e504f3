"""How a submission says what it mounts: `imagenet:/data`, `imagenet:/data:rw`, or source, path and read_only."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, StringConstraints, field_validator, model_validator

from chamber import invalid
from workloads import paths

MOST = 20
LONGEST = 101
MODES = {"ro": True, "rw": False}
RESERVED = (
    *(paths.SHARED_MEMORY, paths.SCRATCH, "/run/chamber", "/run/secrets", "/var/run"),
    *("/proc", "/sys", "/dev", "/etc"),
)
"""Folders that pods have for something else."""
_REFERENCE = re.compile(
    r"(?:(?P<team>[a-z0-9]+(?:-[a-z0-9]+)*)/)?(?P<name>[a-z](?:[a-z0-9.-]*[a-z0-9])?)", re.ASCII
)


class SourceReference(NamedTuple):
    """A named source: of the nearest team that has it where none is said."""

    team: str
    name: str


def read(text: str) -> SourceReference:
    """Return what a name says; raise `ValueError` with a sentence where it is none."""
    found = _REFERENCE.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        raise ValueError(f"{invalid.shown(text)} names no data source: write NAME or TEAM/NAME.")
    return SourceReference(found["team"] or "", found["name"])


class Mount(BaseModel):
    """A data source, where pods have it, and whether they only read it. What is not mounted (S3) has no path."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    source: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST)]
    path: Annotated[str, StringConstraints(max_length=paths.LONGEST)] = ""
    read_only: bool = True

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        source, *rest = value.split(":")
        mode = rest.pop() if len(rest) == 2 else "ro"
        if len(rest) > 1 or mode not in MODES:
            raise ValueError(
                f"{invalid.shown(value)} is no mount: write SOURCE:PATH, and :ro (the default) or :rw behind it."
            )
        return {"source": source, "path": rest[0] if rest else "", "read_only": MODES[mode]}

    @field_validator("source")
    @classmethod
    def _named(cls, value: str) -> str:
        read(value)
        return value

    @field_validator("path")
    @classmethod
    def _fit(cls, value: str) -> str:
        if not value:
            return value
        if problem := paths.problem(value):
            raise ValueError(problem)
        path = paths.plain(value)
        if why := _reserved(path):
            raise ValueError(
                f"{path} {why}, which pods have for something else: mount it at another path, such as /data."
            )
        return path


def _reserved(path: str) -> str:
    """Return which folder that pods have for something else a mount would lie in, or lie over; "" for none."""
    if path == "/":
        return "is all of the container"
    for each in RESERVED:
        if paths.is_within(path, each):
            return f"lies in {each}"
        if paths.is_within(each, path):
            return f"would lie over {each}"
    return ""


def checked(mounts: list[Mount]) -> list[Mount]:
    """Return mounts; raise `ValueError` where two are at one path, or one source twice without any."""
    seen: dict[str, str] = {}
    for each in mounts:
        key = each.path or f"{each.source} without a path"
        if key in seen:
            raise ValueError(
                f"{seen[key]} and {each.source} are both mounted at {key}: give each a path of its own."
            )
        seen[key] = each.source
    return mounts


def together(own: Sequence[Mount], given: Sequence[Mapping[str, Any]]) -> list[Mount]:
    """Return a submission's mounts, and those of its environment whose paths it does not take itself."""
    taken = {each.path or each.source for each in own}
    others = [Mount.model_validate(each) for each in given]
    return [*own, *(each for each in others if (each.path or each.source) not in taken)]


def as_text(mount: Mapping[str, Any]) -> str:
    """Return a stored mount as it is written: `nlp/imagenet:/data:ro`."""
    if not mount["path"]:
        return str(mount["source"])
    return f"{mount['source']}:{mount['path']}:{'ro' if mount['read_only'] else 'rw'}"
