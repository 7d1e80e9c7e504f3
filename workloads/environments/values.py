"""What a version of an environment may say: typed, with a sentence for every mistake."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from chamber import invalid
from chamber.errors import refusal_of
from chamber.words import unfit_for_name
from workloads import images, paths, quantities
from workloads.credentials.kinds import variable_problem
from workloads.data.written import MOST, Mount, checked

MOST_BYTES = 64 * 1024
"""Command and variables together: those of the workload come to them, in one message to an agent."""
MOST_SHARED_MIB = 1024 * 1024 * 1024
MOST_SCRATCH_MIB = 16 * 1024 * 1024


def _words(value: object) -> object:
    if value is None or isinstance(value, list):
        return value or []
    if not isinstance(value, str):
        raise ValueError(
            f"command is {invalid.shown(value)}; it must be text, which sh -c runs, or a list of words."
        )
    return ["sh", "-c", value] if value.strip() else []


def _texts(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {
        key: str(item) if isinstance(item, int | float) and not isinstance(item, bool) else item
        for key, item in value.items()
    }


def _mib(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"{invalid.shown(value)} is no number.")
    return quantities.mib(value) if isinstance(value, str) else value


Text = Annotated[str, StringConstraints(max_length=300)]
Argument = Annotated[str, StringConstraints(max_length=32_768)]


class EnvironmentValues(BaseModel):
    """A version, but for its number. Quantities are per pod."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    image: Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^[!-~]+$")]
    command: Annotated[list[Argument], BeforeValidator(_words), Field(max_length=1000)] = Field(
        default_factory=list
    )
    variables: Annotated[dict[Text, Argument], BeforeValidator(_texts), Field(max_length=500)] = Field(
        default_factory=dict
    )
    mounts: Annotated[list[Mount], Field(max_length=MOST), AfterValidator(checked)] = Field(
        default_factory=list
    )
    working_dir: Annotated[str, StringConstraints(max_length=paths.LONGEST)] = ""
    shm_mib: Annotated[int | None, BeforeValidator(_mib), Field(ge=1, le=MOST_SHARED_MIB)] = None
    scratch_mib: Annotated[int | None, BeforeValidator(_mib), Field(ge=1, le=MOST_SCRATCH_MIB)] = None
    gpu_types: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=60)]], Field(max_length=20)
    ] = Field(default_factory=list)
    node_selector: Annotated[dict[Text, Text], BeforeValidator(_texts), Field(max_length=50)] = Field(
        default_factory=dict
    )
    pull_credential: Annotated[str, StringConstraints(max_length=110)] = ""
    note: Annotated[str, StringConstraints(max_length=200)] = ""

    @model_validator(mode="before")
    @classmethod
    def _without_nul(cls, data: object) -> object:
        if not isinstance(data, dict):
            raise ValueError("An environment is an object with image and what else it has.")
        if "\\x00" in repr(data).replace("\\\\", ""):
            raise ValueError("The text holds a NUL character, which cannot be stored.")
        return {key: value for key, value in data.items() if value is not None}

    @field_validator("image")
    @classmethod
    def _can_be(cls, value: str) -> str:
        if problem := images.malformed(value):
            raise ValueError(problem)
        return value

    @field_validator("variables")
    @classmethod
    def _names(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if problem := variable_problem(name):
                raise ValueError(problem)
        return value

    @field_validator("working_dir")
    @classmethod
    def _folder(cls, value: str) -> str:
        if value and (problem := paths.problem(value)):
            raise ValueError(problem)
        return value

    @field_validator("note")
    @classmethod
    def _readable(cls, value: str) -> str:
        if value and (problem := unfit_for_name(value)):
            raise ValueError(problem.replace("The name", "The note", 1))
        return value

    @field_validator("gpu_types")
    @classmethod
    def _once(cls, value: list[str]) -> list[str]:
        return list(dict.fromkeys(value))

    @model_validator(mode="after")
    def _fits(self) -> Self:
        size = len(json.dumps([self.command, self.variables], ensure_ascii=False).encode())
        if size > MOST_BYTES:
            raise ValueError(
                f"Command and variables have {size:,} bytes together; at most {MOST_BYTES:,} are allowed."
            )
        return self


def typed(values: Mapping[str, Any]) -> EnvironmentValues:
    """Return values, typed; raise one `Refusal` with a sentence for each that cannot be."""
    try:
        return EnvironmentValues.model_validate(dict(values))
    except ValidationError as error:
        raise refusal_of(_sentences(error), code="invalid") from error


def _sentences(error: ValidationError) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for detail in error.errors(include_url=False):
        field = str(detail["loc"][0]) if detail["loc"] else "values"
        empty = detail["type"] in {"string_too_short", "missing"}
        told = f"{invalid.place(detail)} is missing." if empty else invalid.sentence(detail)
        if detail["type"] == "string_pattern_mismatch":
            told = f"{field} is {invalid.shown(detail['input'])}; it may hold no blanks and only ASCII characters."
        found.setdefault(field, []).append(told)
    return {field: invalid.together(told) for field, told in found.items()}
