"""Waiting workloads when their turn comes, and what becomes of them (sections 4 and 7)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from scheduling.engine.ask import Ask
from scheduling.engine.charges import Ceiling
from scheduling.engine.rights import Party
from scheduling.engine.types import PodPlacement, Rule, Workload


@dataclass(frozen=True, slots=True)
class Candidate:
    """A waiting workload in one pool where it could ever run. ``pod_milli`` is what a pod takes there at most."""

    workload: Workload
    leaf: int
    ask: Ask
    pod_milli: int

    @property
    def id(self) -> str:
        """Its id."""
        return self.workload.id

    @property
    def priority(self) -> int:
        """Its priority."""
        return self.workload.priority

    @property
    def reserved(self) -> bool:
        """Its class."""
        return self.workload.reserved

    @property
    def submitted_at(self) -> int:
        """Its original submission, in milliseconds since the epoch."""
        return self.workload.submitted_at

    @property
    def next_milli(self) -> int:
        """What it needs to start: its minimum of pods."""
        return self.workload.min_pods * self.pod_milli

    def party(self) -> Party:
        """It as a party to the rules of preemption."""
        return Party(self.id, self.leaf, self.priority, self.reserved, self.next_milli)


class Cause(Enum):
    """What stops a candidate when its turn comes."""

    RESERVATION = auto()
    CEILING = auto()
    BEHIND = auto()
    PLACE = auto()


@dataclass(frozen=True, slots=True)
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
