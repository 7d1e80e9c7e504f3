"""What a submission may say: one typed object for form, JSON and YAML, with a sentence for every mistake."""

import difflib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    PrivateAttr,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic import ValidationInfo as Info
from pydantic_core import ErrorDetails

from chamber import invalid
from chamber.errors import Refusal
from chamber.words import as_name, count, unfit_for_name
from teams import durations
from teams.durations import duration_text
from workloads import metadata, needs, paths, quantities, times, to_run
from workloads.arrays import asked as arrays
from workloads.data.written import MOST as MOST_MOUNTS
from workloads.data.written import Mount, checked
from workloads.described import ARRAY, describe
from workloads.environments import written
from workloads.models import OnDeadline, OnPreemption

DRY_RUN = "dry_run"
"""What may stand beside several workloads: check them, and submit nothing."""
MOST_IN_ONE_REQUEST = 1000
MOST_PRIORITY = 1_000_000
MOST_CHARACTERS = 32_768
"""In one argument of the command, or one value of the environment."""
TEN_YEARS = 10 * 365 * 86400
NO_LIMIT = "none"
"""How a time limit is written that is none, whatever the job class has."""
SHORT_NAMES = {"time_limit": "time_limit_seconds", "grace": "grace_seconds"}
"""What people may write for a field; sentences then name it as they wrote it."""
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TOLERATION = re.compile(rf"[^=:\s]+(=[^:\s]*)?(:({'|'.join(_EFFECTS)}))?")
_TIER = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
LONGEST_TIER = 40
LONGEST_PATH = paths.LONGEST
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def _priority(value: object) -> object:
    if value is None:
        return None
    text = str(value).strip()
    if isinstance(value, str) and _TIER.fullmatch(text) and not text.isdigit() and len(text) <= LONGEST_TIER:
        return text
    whole = isinstance(value, int | str) and not isinstance(value, bool) and text.isascii() and text.isdigit()
    if not whole or len(text) > 20 or int(text) > MOST_PRIORITY:
        raise ValueError(
            f"{invalid.shown(value)} is no priority: give a whole number from 0 to {MOST_PRIORITY:,}, or the name of a "
            "priority tier, such as normal."
        )
    return int(text)


def _no_toleration(value: object) -> str:
    return (
        f"{invalid.shown(value)} is no toleration: write key or key=value, and after a colon, if need be, "
        f"{', '.join(_EFFECTS[:-1])} or {_EFFECTS[-1]}."
    )


def _gpus(value: object) -> object:
    return None if value is None else quantities.gpus(quantities.gpu_milli(value))


def _mib(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"{invalid.shown(value)} is no number.")
    return quantities.mib(value) if isinstance(value, str) else value


def _seconds(value: object) -> object:
    return None if value is None else durations.seconds(value)


def _limit(value: object) -> object:
    """Return whole seconds; None where the word none says that there is no limit."""
    return None if isinstance(value, str) and value.strip().lower() == NO_LIMIT else _seconds(value)


def _command(value: object) -> object:
    if value is None or isinstance(value, list):
        return value or []
    if not isinstance(value, str):
        raise ValueError(
            f"command is {invalid.shown(value)}; it must be text, which sh -c runs, or a list of words."
        )
    return ["sh", "-c", value] if value.strip() else []


def _texts(value: object) -> object:
    """Return a mapping with its numbers as text: YAML reads `EPOCHS: 3` as a number."""
    if not isinstance(value, dict):
        return value
    return {
        key: str(item) if isinstance(item, int | float) and not isinstance(item, bool) else item
        for key, item in value.items()
    }


def _name(text: str) -> str:
    name = as_name(text)
    if problem := unfit_for_name(name):
        raise ValueError(problem)
    return name


def _folder(text: str) -> str:
    if text and (problem := paths.problem(text)):
        raise ValueError(problem)
    return text


Text = Annotated[str, StringConstraints(max_length=300)]
Argument = Annotated[str, StringConstraints(max_length=MOST_CHARACTERS)]
Slug = Annotated[str, StringConstraints(max_length=60, min_length=1)]
Seconds = Annotated[int, BeforeValidator(_seconds)]


class Unreadable(Refusal):
    """Submissions of which something cannot be read. `wrong` has the sentences of each, `rest` what of it can be, and
    `beside` the sentences about what stands beside their list.
    """

    code = "invalid"

    def __init__(
        self,
        wrong: "Sequence[dict[str, str]]",
        rest: "Sequence[SubmissionRequest | None]",
        beside: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        told = refusal(wrong, beside)
        super().__init__(told.message, fields=told.fields)
        self.wrong, self.rest, self.beside = wrong, rest, beside


class SubmissionRequest(BaseModel):
    """One workload as somebody asks for it. Quantities are per pod unless they say otherwise."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, str_strip_whitespace=True, json_schema_extra=describe
    )

    name: Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(_name)]
    team: Slug
    # What is None here is as the workload's job class has it (`workloads.resolved`).
    job_class: Slug | None = None
    priority: Annotated[int | str | None, BeforeValidator(_priority)] = None

    pods: int = Field(default=1, ge=1, le=100_000)
    min_pods: Annotated[int | None, Field(ge=1, le=100_000)] = None
    gpus: Annotated[float | None, BeforeValidator(_gpus)] = None
    gpu_memory_mib: Annotated[int | None, BeforeValidator(_mib)] = Field(
        default=None, ge=1, le=16 * 1024 * 1024
    )
    cpu: float = Field(default=0, ge=0, le=100_000, allow_inf_nan=False)
    memory_mib: Annotated[int, BeforeValidator(_mib)] = Field(default=0, ge=0, le=1024 * 1024 * 1024)
    shm_mib: Annotated[int | None, BeforeValidator(_mib)] = Field(default=None, ge=1, le=1024 * 1024 * 1024)
    scratch_mib: Annotated[int | None, BeforeValidator(_mib)] = Field(default=None, ge=1, le=16 * 1024 * 1024)
    gpu_types: list[Annotated[str, StringConstraints(min_length=1, max_length=60)]] = Field(
        default_factory=list, max_length=20
    )
    node_selector: Annotated[dict[Text, Text], BeforeValidator(_texts)] = Field(
        default_factory=dict, max_length=50
    )
    tolerations: list[Text] = Field(default_factory=list, max_length=50)
    partition: Annotated[str, StringConstraints(max_length=60)] = ""
    topology_required: Annotated[str, StringConstraints(max_length=120)] = ""
    topology_preferred: Annotated[str, StringConstraints(max_length=120)] = ""
    pools: list[Slug] = Field(default_factory=list, max_length=50)
    # Said to be None it is no limit; not said, the class's.
    time_limit_seconds: Annotated[int | None, Field(ge=1, le=TEN_YEARS), BeforeValidator(_limit)] = None
    grace_seconds: Annotated[Seconds, Field(ge=0, le=86400)] = 30
    on_preemption: OnPreemption | None = None
    max_requeues: int = Field(default=20, ge=0, le=1000)
    max_retries: Annotated[int | None, Field(ge=0, le=100)] = None
    # Before a deadline is looked at, the start that it has to be after.
    start_after: Annotated[datetime | None, BeforeValidator(times.start_after)] = None
    deadline: datetime | None = None
    on_deadline: OnDeadline = OnDeadline.FAIL
    fail_if_impossible: bool = False
    read_notes: bool = False

    # What is not said here is as the named environment has it (`workloads.environments.completing`).
    runs_in: Annotated[
        str, StringConstraints(max_length=written.LONGEST), AfterValidator(written.checked)
    ] = ""
    image: Annotated[str, StringConstraints(max_length=300, pattern=r"^[!-~]*$")] = Field(
        default="", validate_default=True
    )
    working_dir: Annotated[str, StringConstraints(max_length=LONGEST_PATH), AfterValidator(_folder)] = ""
    command: Annotated[list[Argument], BeforeValidator(_command)] = Field(
        default_factory=list, max_length=1000
    )
    environment: Annotated[dict[Text, str], BeforeValidator(_texts)] = Field(
        default_factory=dict, max_length=500
    )

    mounts: Annotated[list[Mount], AfterValidator(checked)] = Field(
        default_factory=list, max_length=MOST_MOUNTS
    )
    credentials: list[Annotated[str, StringConstraints(min_length=1, max_length=110)]] = Field(
        default_factory=list, max_length=8
    )

    labels: Annotated[dict[str, str], BeforeValidator(_texts)] = Field(default_factory=dict)
    annotations: Annotated[dict[str, str], BeforeValidator(_texts)] = Field(default_factory=dict)

    array: Annotated[arrays.ArrayRequest | None, PlainValidator(arrays.read), WithJsonSchema(ARRAY)] = None
    max_parallel: int | None = Field(default=None, ge=1, le=arrays.MOST_MEMBERS)

    depends_on: list[Annotated[str, StringConstraints(max_length=needs.LONGEST, min_length=1)]] = Field(
        default_factory=list, max_length=100
    )
    hold: bool = False

    @model_validator(mode="before")
    @classmethod
    def _short_names(cls, data: object) -> object:
        """Take `time_limit`, `grace` and `gang` for what they stand for; refuse NUL, which no database
        stores.
        """
        if not isinstance(data, dict):
            raise ValueError("A workload is an object with name, team, image and what else it needs.")
        # Written out, a NUL is an escape; the same four characters in a command are a backslash first.
        if "\\x00" in repr(data).replace("\\\\", ""):
            raise ValueError("The text holds a NUL character, which cannot be stored.")
        data = written.moved(data)[0]
        for short, name in SHORT_NAMES.items():
            if short in data and name not in data:
                data[name] = data.pop(short)
        if data.get("gang") in (True, False):
            gang = data.pop("gang")
            data.setdefault("min_pods", None if gang else 1)
        return data

    _written: dict[str, str] = PrivateAttr(default_factory=dict)

    def as_written(self, problems: dict[str, str]) -> dict[str, str]:
        """Return sentences by field under the names by which its submitter called the fields."""
        return {self._written.get(name, name): text for name, text in problems.items()}

    @field_validator("array")
    @classmethod
    def _sets_no_variable_twice(
        cls, value: arrays.ArrayRequest | None, info: Info
    ) -> arrays.ArrayRequest | None:
        if value is not None and (problem := arrays.conflict(value, info.data.get("environment") or {})):
            raise ValueError(problem)
        return value

    @field_validator("max_parallel")
    @classmethod
    def _of_an_array(cls, value: int | None, info: Info) -> int | None:
        if value is not None and info.data.get("array", ...) is None:
            raise ValueError(
                f"max_parallel is {value:,}: it bounds how many members of an array run at once, and there is no array."
            )
        return value

    @field_validator("pods", "min_pods", "cpu", "max_requeues", "max_retries", "max_parallel", mode="before")
    @classmethod
    def _is_a_number(cls, value: object) -> object:
        if isinstance(value, bool):
            raise ValueError(f"{invalid.shown(value)} is no number.")
        return value

    @field_validator("gpu_types", "tolerations", "pools", "credentials")
    @classmethod
    def _each_once(cls, value: list[str]) -> list[str]:
        return list(dict.fromkeys(value))

    @field_validator("depends_on")
    @classmethod
    def _known_kinds(cls, value: list[str]) -> list[str]:
        return needs.checked(value)

    @field_validator("min_pods")
    @classmethod
    def _at_most_pods(cls, value: int | None, info: Info) -> int | None:
        pods = info.data.get("pods")
        if value is not None and pods is not None and value > pods:
            raise ValueError(
                f"It cannot start with {value:,} of {count(pods, 'pod')}: give at most {pods:,}."
            )
        return value

    @field_validator("deadline", mode="before")
    @classmethod
    def _in_time(cls, value: object, info: Info) -> datetime | None:
        return times.deadline(value, info.data.get("start_after"))

    @field_validator("gpu_memory_mib")
    @classmethod
    def _share_or_memory(cls, value: int | None, info: Info) -> int | None:
        if value is not None and info.data.get("gpus") is not None:
            raise ValueError(
                f"Give either gpus ({info.data['gpus']:g}) or gpu_memory_mib ({value}), not both."
            )
        return value

    @field_validator("environment")
    @classmethod
    def _environment_names(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not _ENVIRONMENT_NAME.fullmatch(name):
                raise ValueError(
                    f"{name!r} is no name of an environment variable: use letters, digits and underscores, "
                    "and begin with none of the digits."
                )
            if len(text) > MOST_CHARACTERS:
                raise ValueError(
                    f"{name} has {len(text):,} characters; at most {MOST_CHARACTERS:,} are allowed."
                )
        return value

    @field_validator("image")
    @classmethod
    def _image_or_environment(cls, value: str, info: Info) -> str:
        if not value and not info.data.get("runs_in"):
            raise ValueError("image is missing.")
        return value

    @field_validator("tolerations")
    @classmethod
    def _known_effects(cls, value: list[str]) -> list[str]:
        for text in value:
            if not _TOLERATION.fullmatch(text):
                raise ValueError(_no_toleration(text))
        return value

    @field_validator("shm_mib")
    @classmethod
    def _within_memory(cls, value: int | None, info: Info) -> int | None:
        memory = info.data.get("memory_mib")
        if value is not None and memory and value > memory:
            raise ValueError(
                f"Shared memory is part of a pod's memory: {value:,} MiB are more than its {memory:,} MiB."
            )
        return value

    @field_validator("labels")
    @classmethod
    def _allowed_labels(cls, value: dict[str, str]) -> dict[str, str]:
        return metadata.checked_labels(value)

    @field_validator("annotations")
    @classmethod
    def _allowed_annotations(cls, value: dict[str, str]) -> dict[str, str]:
        return metadata.checked_annotations(value)

    @model_validator(mode="after")
    def _fits_a_message(self) -> Self:
        if problem := to_run.problem(self.command, self.environment, self.array):
            raise ValueError(problem)
        return self

    @property
    def size(self) -> int:
        """Return how many workloads it makes."""
        return 1 if self.array is None else self.array.size

    @property
    def needs(self) -> list[needs.AskedNeed]:
        """Return what it starts after."""
        return [needs.AskedNeed.parse(text) for text in self.depends_on]

    @property
    def gpu_milli(self) -> int | None:
        """Return milli-GPUs per pod; None where memory of a GPU is asked for. One GPU where nothing is said."""
        if self.gpu_memory_mib is not None:
            return None
        return round((1 if self.gpus is None else self.gpus) * quantities.WHOLE_MILLI)

    @property
    def starting_pods(self) -> int:
        """Return how many pods it starts with at least: all of a gang."""
        return self.pods if self.min_pods is None else self.min_pods

    @classmethod
    def parse(cls, data: object) -> Self:
        """Return the typed request; raise `Unreadable` with a sentence for each field that is wrong."""
        try:
            request = cls.model_validate(data)
        except ValidationError as error:
            wrong = sentences(error, data)
            raise Unreadable([wrong], [cls._without(data, wrong)]) from error
        request._written.update(_written(data))
        return request

    @classmethod
    def _without(cls, data: object, wrong: dict[str, str]) -> Self | None:
        """Return the request as far as it can be read: what else it names can be looked up."""
        if not isinstance(data, dict) or "team" in wrong:
            return None
        kept = {key: value for key, value in data.items() if key not in wrong}
        instead = {} if written.moved(kept)[0].get("runs_in") else {"image": "none"}
        try:
            request = cls.model_validate({"name": "unnamed", **instead, **kept})
        except ValidationError:
            return None
        request._written.update(_written(kept))
        return request


def parse_all(content: object, *, may_be_dry: bool = False) -> list[SubmissionRequest]:
    """Return what a body or a manifest asks for: one workload, or several under `workloads`.

    Nothing may stand beside them but `dry_run`, where it `may_be_dry`. Raises `Unreadable` that addresses every mistake
    by its index.
    """
    if not isinstance(content, Mapping) or "workloads" not in content:
        return [SubmissionRequest.parse(content)]
    known = ("workloads", DRY_RUN) if may_be_dry else ("workloads",)
    beside = {
        str(key): f"There is no {key!r} beside workloads; known are {', '.join(known)}."
        for key in content
        if key not in known
    }
    if may_be_dry and not isinstance(content.get(DRY_RUN, False), bool):
        beside[DRY_RUN] = invalid.told("bool_type", DRY_RUN, content[DRY_RUN])
    return _parse_many(content["workloads"], beside)


def _parse_many(items: object, beside: Mapping[str, str]) -> list[SubmissionRequest]:
    if not isinstance(items, list) or not items:
        text = f"workloads is {invalid.shown(items)}; it must be a list with at least one workload."
        raise refusal([{"workloads": text}], beside)
    if len(items) > MOST_IN_ONE_REQUEST:
        text = (
            f"One request holds {len(items):,} workloads; at most {MOST_IN_ONE_REQUEST:,} are taken at once."
        )
        raise refusal([{"workloads": text}], beside)
    parsed: list[SubmissionRequest] = []
    rest: list[SubmissionRequest | None] = []
    wrong: list[dict[str, str]] = []
    for item in items:
        try:
            parsed.append(SubmissionRequest.parse(item))
            rest.append(parsed[-1])
            wrong.append({})
        except Unreadable as found:
            rest += found.rest
            wrong += found.wrong
    if any(wrong) or beside:
        raise Unreadable(wrong, rest, beside)
    return parsed


def refusal(wrong: Sequence[dict[str, str]], beside: Mapping[str, str] = MappingProxyType({})) -> Refusal:
    """Return one refusal of all mistakes; fields are `workloads[3].gpus` where there are several."""
    fields = dict(beside)
    for index, named in enumerate(wrong):
        before = "" if len(wrong) == 1 else f"workloads[{index}]."
        fields |= {f"{before}{name}": text for name, text in named.items()}
    place, first = next(iter(fields.items()))
    message = f"{place}: {first}" if place.startswith("workloads[") else first
    return Refusal(message, fields=fields, code="invalid")


def sentences(error: ValidationError, data: object = None) -> dict[str, str]:
    """Return what is wrong with each field of `data`, named as it was written, with the values and what is allowed."""
    found: dict[str, list[str]] = {}
    names = _written(data)
    for detail in error.errors(include_url=False):
        if detail["loc"]:
            first, *rest = detail["loc"]
            detail["loc"] = (names.get(str(first), first), *rest)
        field = str(detail["loc"][0]) if detail["loc"] else "workload"
        found.setdefault(field, []).append(_sentence(detail, field))
    return {field: invalid.together(told) for field, told in found.items()}


def _written(data: object) -> dict[str, str]:
    """Return by which short names `data` calls which fields."""
    if not isinstance(data, dict):
        return {}
    short_names = {name: short for short, name in SHORT_NAMES.items() if short in data and name not in data}
    return short_names | written.moved(data)[1]


def _sentence(detail: ErrorDetails, field: str) -> str:
    kind, given = detail["type"], invalid.shown(detail["input"])
    if kind == "extra_forbidden" and len(detail["loc"]) == 1:
        return _no_field(detail, field)
    if kind == "string_too_short":
        return f"{invalid.place(detail)} is missing."
    if kind == "string_pattern_mismatch":
        return f"{field} is {given}; it may hold no blanks and only ASCII characters."
    if field == "tolerations" and kind == "string_type":
        return f"{invalid.place(detail)} is {given}; it must be text, such as key or key=value."
    if kind == "less_than_equal" and SHORT_NAMES.get(field, field) in SHORT_NAMES.values():
        return f"{field} is {given}; at most {duration_text(int(detail['ctx']['le']))} is allowed."
    return invalid.sentence(detail)


def _no_field(detail: ErrorDetails, field: str) -> str:
    if field == "gang":
        return invalid.told("bool_type", field, detail["input"])
    if field == "variables":
        return "Give the variables either under variables or under environment, not both."
    if field in SHORT_NAMES:
        return f"Give either {field} or {SHORT_NAMES[field]}, not both."
    near = difflib.get_close_matches(field, SubmissionRequest.model_fields, n=1)
    return f"There is no field {field!r}" + (f"; did you mean {near[0]!r}?" if near else ".")
