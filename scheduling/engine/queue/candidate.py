"""Waiting workloads when their turn comes, and what blocks them (section 4)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum, auto

from scheduling.engine.model.snapshot import RESERVED_PRIORITY, WorkloadInfo
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.quota.charging import Ceiling
from scheduling.engine.quota.demand import ReservedWant

OwnKey = tuple[int, int, str]
"""Keys 2, 4 and 5 of the queue's order, the order inside a team: -priority, submission, id."""


@dataclass(frozen=True, slots=True, eq=False)
class PoolRequest:
    """What a workload requests of one pool at its turn, and for how long: one object for all that request the same.

    ``pod_milli`` is what a pod takes there at most; ``pods`` how many it needs (its minimum, or one to grow), in all
    ``next_milli``; ``wanted_pods`` how many count in its team's demand, in all ``wanted_milli``. It ``counts`` there in
    one pool only, if it stands in the queues of several. ``off_peak``: it is not admitted in the pool's peak hours.
    """

    pool: str
    request: PodRequest
    pod_milli: int
    pods: int
    wanted_pods: int
    time_limit_ms: int | None
    counts: bool = True
    off_peak: bool = False
    next_milli: int = field(init=False)
    wanted_milli: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "next_milli", self.pods * self.pod_milli)
        object.__setattr__(self, "wanted_milli", self.wanted_pods * self.pod_milli if self.counts else 0)

    def of_one_pod(self) -> PoolRequest:
        """That of one more pod."""
        return self if self.pods == 1 else replace(self, pods=1)


class Candidate:
    """A waiting workload in one pool where it could ever run.

    ``several``: it stands in the queues of several pools. The other fields are those of the workload and of its
    ``pool_request``, kept at hand.
    """

    __slots__ = (
        "id",
        "key",
        "leaf",
        "next_milli",
        "pods",
        "pool_request",
        "priority",
        "request",
        "reserved",
        "several",
        "workload",
    )

    def __init__(self, workload: WorkloadInfo, leaf: int, pool_request: PoolRequest) -> None:
        self.workload = workload
        self.leaf = leaf
        self.pool_request = pool_request
        self.request = pool_request.request
        self.pods = pool_request.pods
        self.next_milli = pool_request.next_milli
        self.several = False
        self.id = id_ = workload.id
        self.priority = priority = workload.priority
        self.reserved = priority >= RESERVED_PRIORITY
        self.key: OwnKey = (-priority, workload.submitted_at, id_)

    def reserved_want(self) -> ReservedWant:
        """What it counts in the demand if it is reserved."""
        takes = self.pool_request
        return ReservedWant(self.key, self.leaf, takes.pod_milli, takes.next_milli, takes.wanted_pods)


class Cause(IntEnum):
    """What stops a candidate when its turn comes. A number, as tables are keyed by it."""

    GUARANTEE = auto()
    CEILING = auto()
    BEHIND = auto()
    PLACE = auto()


@dataclass(slots=True, eq=False)
class Blocked:
    """A candidate that could not start at its turn, with the numbers of then; ``number`` counts such turns."""

    candidate: Candidate
    cause: Cause
    available: int = 0
    ceiling: Ceiling | None = None
    ahead: str = ""
    number: int = 0
