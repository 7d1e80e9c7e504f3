"""What a check is, what it finds, and what all of them found."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chamber.doctor.growth import Growth

from chamber.words import count


class Needs(StrEnum):
    """What must be in order before a check can look at anything."""

    NOTHING = "nothing"
    DATABASE = "the database"
    MIGRATIONS = "the migrations of this version"
    TABLES = "the tables of this version"
    REDIS = "Redis"
    LIVE = "the part live"
    ADDRESS = "the address that people use"
    SOCKETS = "sockets at the address that people use"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """Something that is wrong: a sentence, and one with what to do."""

    problem: str
    advice: str


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that is as it should be, or cannot be looked at from here, and that an operator should know."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Check:
    """One question. `gives` is what may be relied on where it finds nothing; `also` is needed besides `needs`."""

    name: str
    look: Callable[[], Iterable[DoctorFinding | Fact]]
    needs: Needs = Needs.NOTHING
    gives: Needs | None = None
    also: Needs = Needs.NOTHING


@dataclass(slots=True)
class Examination:
    """What was found, by the check that found it; which checks were made, and which could not be; what else is so, and
    what the database holds. `lacks` says what each check lacked that was left out, where that is known.
    """

    findings: list[tuple[str, DoctorFinding]] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    facts: list[tuple[str, Fact]] = field(default_factory=list)
    growth: "list[Growth]" = field(default_factory=list)
    lacks: dict[str, Needs] = field(default_factory=dict)


def seconds_text(seconds: float) -> str:
    """Return how long something is, in its largest unit."""
    whole = round(seconds)
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if whole >= 2 * size:
            return f"{whole // size} {unit}"
    return count(whole, "second")
