"""One reason why a workload waits, as it is told to one reader, and the words for its code."""

from dataclasses import dataclass
from datetime import datetime

from chamber.words import code_in_words
from scheduling import engine
from scheduling.engine.reasons import sentences as reasons


@dataclass(frozen=True, slots=True)
class Explanation:
    """One reason, for one reader. `eta` says in words when it starts, `starts_at` is the earliest time if known."""

    code: str
    sentence: str
    kind: str
    next_step: str = ""
    level: str = ""
    team: str = ""
    position: int | None = None
    eta: str = ""
    starts_at: datetime | None = None
    starts_by: datetime | None = None
    asked_milli: int | None = None
    available_milli: int | None = None
    limit_milli: int | None = None
    is_for_reader: bool = True
    """Whether the reader can take the next step, or only somebody else."""

    @property
    def sentences(self) -> tuple[str, str]:
        """What of it may name workloads."""
        return self.sentence, self.eta


def kind_of(code: str) -> str:
    """Return who can do something about a reason: `wait`, `change` or `admin`."""
    try:
        return reasons.kind_of(engine.ReasonCode(code)).value
    except ValueError:
        return engine.ReasonKind.WAIT.value


def label(code: str) -> str:
    """Return a reason's code in words: `Waiting for GPUs`."""
    return code_in_words(code)


def label_inside(code: str) -> str:
    """Return a reason's code in words inside a sentence: `waiting for GPUs`."""
    words = label(code)
    return words if words[:2].isupper() else words[:1].lower() + words[1:]
