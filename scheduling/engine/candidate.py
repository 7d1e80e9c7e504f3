"""Waiting workloads when their turn comes, and what becomes of them (sections 4 and 7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from scheduling.engine.ask import Ask
from scheduling.engine.charges import Ceiling
from scheduling.engine.rights import Party
from scheduling.engine.types import RESERVED_PRIORITY, PodPlacement, Rule, Workload

OwnKey = tuple[int, int, str]
"""Keys 2, 4 and 5 of the queue's order, the order inside a team: -priority, submission, id."""


@dataclass(slots=True, eq=False)
class Candidate:
    """A waiting workload in one pool where it could ever run.

    ``pod_milli`` is what a pod takes there at most; ``pods`` how many it needs when its turn comes (its minimum, or
    one to grow), ``next_milli`` what they take. The others are the workload's own, at hand because they are asked for
    over and over.
    """

    workload: Workload
    leaf: int
    ask: Ask
    pod_milli: int
    pods: int
    id: str = field(init=False)
    priority: int = field(init=False)
    reserved: bool = field(init=False)
    next_milli: int = field(init=False)
    key: OwnKey = field(init=False)

    def __post_init__(self) -> None:
        workload = self.workload
        self.id = workload.id
        self.priority = workload.priority
        self.reserved = workload.priority >= RESERVED_PRIORITY
        self.next_milli = self.pods * self.pod_milli
        self.key = (-workload.priority, workload.submitted_at, workload.id)

    def party(self) -> Party:
        """It as a party to the rules of preemption."""
        return Party(self.id, self.leaf, self.priority, self.reserved, self.next_milli)


class Cause(Enum):
    """What stops a candidate when its turn comes."""

    RESERVATION = auto()
    CEILING = auto()
    BEHIND = auto()
    PLACE = auto()


@dataclass(slots=True, eq=False)
class Blocked:
    """A candidate whose turn came in vain, with the numbers of that moment."""

    candidate: Candidate
    cause: Cause
    available: int = 0
    ceiling: Ceiling | None = None
    ahead: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """Pods that a workload gave to a newcomer, and by which right."""

    by: Candidate
    rule: Rule
    level: str | None
    pods: tuple[PodPlacement, ...]
    lost_gpu_ms: int
