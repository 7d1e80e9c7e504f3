"""What job classes and tiers may say, and teams of classes: typed, with a sentence for each value that cannot be."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from chamber import invalid
from chamber.errors import refusal_of
from chamber.words import as_name, unfit_for_name
from teams import durations
from teams.durations import duration_text
from teams.models import DeviceSharing, OnPreemption, Role
from teams.models.job_class import LONGEST_LIMIT_SECONDS, MOST_PRIORITY, MOST_RETRIES, TIER_ROLES
from teams.models.policy import MOST_CLASSES, ClassName

LONGEST_NAME = 60
LONGEST_CLASS, LONGEST_TIER = 16, 40
"""Characters of the name in submissions."""
MOST_ORDER = 10_000
TAKEN_NAMES = frozenset({"new", "other", "none"})
"""What stands for something else in addresses and forms."""
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
V = TypeVar("V", bound=BaseModel)


def _name(text: str) -> str:
    name = as_name(text)
    if not 1 <= len(name) <= LONGEST_NAME:
        raise ValueError(f"A name has 1 to {LONGEST_NAME} characters, not {len(name)}.")
    if problem := unfit_for_name(name):
        raise ValueError(problem)
    return name


def _role(text: str) -> str:
    if text not in TIER_ROLES:
        raise ValueError(invalid.not_among("least_role", text, TIER_ROLES))
    return text


def _limit(value: object) -> object:
    """Return whole seconds; None where no limit is meant."""
    if value is None or (isinstance(value, str) and value.strip().lower() in {"", "none"}):
        return None
    return durations.seconds(value)


def _bounded(seconds: int | None) -> int | None:
    if seconds is not None and not 1 <= seconds <= LONGEST_LIMIT_SECONDS:
        most = duration_text(LONGEST_LIMIT_SECONDS)
        raise ValueError(f"A time limit is from 1s to {most}, not {duration_text(seconds) or seconds}.")
    return seconds


TimeLimit = Annotated[int | None, BeforeValidator(_limit), AfterValidator(_bounded)]
Retries = Annotated[int, Field(ge=0, le=MOST_RETRIES)]


class TierValues(BaseModel):
    """A tier, but for the name that submissions call it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, AfterValidator(_name)]
    priority: int = Field(ge=0, le=MOST_PRIORITY)
    least_role: Annotated[str, AfterValidator(_role)] = Role.RESEARCHER.value
    priority_classes: list[ClassName] = Field(default_factory=list, max_length=MOST_CLASSES)


class ClassValues(BaseModel):
    """A job class, but for the name that submissions call it; its tier by that tier's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, AfterValidator(_name)]
    tier: str
    time_limit_seconds: TimeLimit = None
    max_retries: Retries = 0
    on_preemption: OnPreemption = OnPreemption.REQUEUE
    sharing: DeviceSharing = DeviceSharing.ELASTIC
    order: int = Field(default=0, ge=0, le=MOST_ORDER)
    is_default: bool = False


class NarrowingValues(BaseModel):
    """What a team says of a class; None is as above."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tier: str | None = None
    time_limit_seconds: TimeLimit = None
    max_retries: Retries | None = None
    sharing: DeviceSharing | None = None


def typed(shape: type[V], values: Mapping[str, Any]) -> V:
    """Return values, typed; raise one `Refusal` with a sentence for each that cannot be."""
    try:
        return shape.model_validate(dict(values))
    except ValidationError as error:
        raise refusal_of(invalid.sentences(error), code="invalid") from error


def slug_problem(slug: str, longest: int, noun: str) -> str:
    """Return why submissions cannot call a class or tier so; "" where they can."""
    if not _SLUG.fullmatch(slug) or len(slug) > longest:
        return (
            f"A {noun} is called by 1 to {longest} small letters, digits and single hyphens, not "
            f"{invalid.shown(slug)}."
        )
    if slug in TAKEN_NAMES or slug.isdigit():
        return f"No {noun} can be called {slug!r}: choose a word that is neither a number nor one of " + (
            f"{', '.join(sorted(TAKEN_NAMES))}."
        )
    return ""
