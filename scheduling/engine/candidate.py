"""Waiting workloads when their turn comes, and what becomes of them (sections 4 and 7)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto

from scheduling.engine.ask import Ask
from scheduling.engine.charges import Ceiling
from scheduling.engine.rights import Party
from scheduling.engine.types import RESERVED_PRIORITY, PodPlacement, Rule, Workload

OwnKey = tuple[int, int, str]
"""Keys 2, 4 and 5 of the queue's order, the order inside a team: -priority, submission, id."""


class Candidate:
    """A waiting workload in one pool where it could ever run.

    ``pod_milli`` is what a pod takes there at most; ``pods`` how many it needs when its turn comes (its minimum, or
    one to grow), ``next_milli`` what they take; ``wanted_pods`` how many count in its team's demand. ``several``: it
    stands in the queues of several pools. The others are the workload's own, at hand because they are asked for over
    and over.
    """

    __slots__ = (
        "ask",
        "id",
        "key",
        "leaf",
        "next_milli",
        "pod_milli",
        "pods",
        "priority",
        "reserved",
        "several",
        "wanted_pods",
        "workload",
    )

    def __init__(
        self, workload: Workload, leaf: int, ask: Ask, pod_milli: int, *, pods: int, wanted_pods: int
    ) -> None:
        self.workload = workload
        self.leaf = leaf
        self.ask = ask
        self.pod_milli = pod_milli
        self.pods = pods
        self.wanted_pods = wanted_pods
        self.several = False
        self.id = id_ = workload.id
        self.priority = priority = workload.priority
        self.reserved = priority >= RESERVED_PRIORITY
        self.next_milli = pods * pod_milli
        self.key: OwnKey = (-priority, workload.submitted_at, id_)

    def party(self) -> Party:
        """It as a party to the rules of preemption."""
        return Party(self.id, self.leaf, self.priority, self.reserved, self.next_milli)


class Cause(IntEnum):
    """What stops a candidate when its turn comes. A number, as tables are keyed by it."""

    RESERVATION = auto()
    CEILING = auto()
    BEHIND = auto()
    PLACE = auto()


@dataclass(slots=True, eq=False)
class Blocked:
    """A candidate whose turn came in vain, with the numbers of that moment; ``number`` counts the turns in vain."""

    candidate: Candidate
    cause: Cause
    available: int = 0
    ceiling: Ceiling | None = None
    ahead: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class Taken:
    """Pods that a workload gave to a newcomer, and by which right."""

    by: Candidate
    rule: Rule
    level: str | None
    pods: tuple[PodPlacement, ...]
    lost_gpu_ms: int
