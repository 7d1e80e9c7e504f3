"""What comes out of the engine: decisions, reasons, figures.

See :mod:`scheduling.engine.model` for the units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scheduling.engine.model.snapshot import AfterDeadline, PodPlacement

# --- Reasons ------------------------------------------------------------------------------------------------------


class ReasonKind(StrEnum):
    """Who can do something about it: time, the user, an admin."""

    WAIT = "wait"
    CHANGE = "change"
    ADMIN = "admin"


class ReasonCode(StrEnum):
    """Why a workload waits (first match wins, in this order), or what happened to it (the last four)."""

    HELD = "held"
    NOT_BEFORE = "not-before"
    PEAK_HOURS = "peak-hours"
    WAITING_FOR_DEPENDENCY = "waiting-for-dependency"
    DEPENDENCY_FAILED = "dependency-failed"
    BACKING_OFF = "backing-off"
    ARRAY_LIMIT = "array-limit"
    POOL_PAUSED = "pool-paused"
    CLUSTER_OFFLINE = "cluster-offline"
    DATA_ELSEWHERE = "data-elsewhere"
    NO_MATCHING_GPU_TYPE = "no-matching-gpu-type"
    NO_MATCHING_NODES = "no-matching-nodes"
    LARGER_THAN_ANY_NODE = "larger-than-any-node"
    LARGER_THAN_POOL = "larger-than-pool"
    TOPOLOGY_IMPOSSIBLE = "topology-impossible"
    EXCEEDS_RESERVATION = "exceeds-reservation"
    BURSTING_DISABLED = "bursting-disabled"
    EXCEEDS_CEILING = "exceeds-ceiling"
    WAITING_FOR_RESERVATION = "waiting-for-reservation"
    WAITING_FOR_CEILING = "waiting-for-ceiling"
    BEHIND_RESERVATION = "behind-reservation"
    WAITING_FOR_TOPOLOGY = "waiting-for-topology"
    FRAGMENTED = "fragmented"
    WAITING_FOR_GPUS = "waiting-for-gpus"
    WAITING_FOR_VICTIMS = "waiting-for-victims"
    PREEMPTED = "preempted"
    SHRUNK = "shrunk"
    DEADLINE_PASSED = "deadline-passed"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a workload waits or is preempted.

    ``message`` and ``next_step`` are sentences for people; the numbers in them stand beside them. ``team`` is the
    team whose limit it is, ``level`` the team of the tree or the topology level that the reason comes from.
    """

    code: ReasonCode
    kind: ReasonKind
    message: str
    next_step: str
    asked_milli: int | None = None
    available_milli: int | None = None
    limit_milli: int | None = None
    team: str | None = None
    level: str | None = None


@dataclass(frozen=True, slots=True)
class Eta:
    """When a waiting workload starts at the earliest, and at the latest where that is known too.

    ``earliest`` is ``None`` where it is not known; ``why`` then says why.
    """

    earliest: int | None = None
    latest: int | None = None
    why: str = ""


# --- The plan -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Allocation:
    """What part of a workload counts against which team's guarantee; ``team`` is ``None`` for what it bursts."""

    team: str | None
    milli: int


class Rule(StrEnum):
    """The rule by which a workload is preempted."""

    RESERVED = "reserved"
    PRIORITY = "priority"
    FAIR_SHARE = "fair-share"


@dataclass(frozen=True, slots=True)
class Start:
    """A workload that goes from Pending to Queued on these devices.

    ``waits_for_victims``: some of them are still held, by ``victims`` of this plan or by attempts that stop already;
    ``reason`` is then ``waiting-for-victims``, else ``None``. ``victims`` are workloads preempted or shrunk for it.
    """

    workload: str
    pool: str
    placements: tuple[PodPlacement, ...]
    allocation: tuple[Allocation, ...]
    victims: tuple[str, ...]
    waits_for_victims: bool
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Grow:
    """Pods added to a workload that is placed already (only the new ones); ``allocation`` is that of all its pods."""

    workload: str
    pool: str
    placements: tuple[PodPlacement, ...]
    allocation: tuple[Allocation, ...]


@dataclass(frozen=True, slots=True)
class Keep:
    """A placed workload that stays as it is. ``reason`` is ``waiting-for-victims`` for a Queued one on held devices.

    STOPPING ones stand here too, with an empty allocation.
    """

    workload: str
    pool: str
    allocation: tuple[Allocation, ...]
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Shrink:
    """Pods above its minimum that a workload gives up (``pods``: their indexes) to the preemptor ``by``."""

    workload: str
    pool: str
    pods: tuple[int, ...]
    allocation: tuple[Allocation, ...]
    by: str
    by_team: str
    rule: Rule
    level: str | None
    reason: Reason


@dataclass(frozen=True, slots=True)
class Preemption:
    """A workload that leaves whole, for the preemptor ``by`` (the first, of several).

    ``level`` is the team where the two branches part: the common team itself for two of one team, ``None`` for the
    nameless root. ``lost_gpu_ms`` is the work since its last checkpoint, else since its start, in GPU-milliseconds.
    """

    workload: str
    pool: str
    milli: int
    by: str
    by_team: str
    rule: Rule
    level: str | None
    lost_gpu_ms: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Expiry:
    """A pending workload whose deadline has passed: it ends, as Failed or Cancelled (``ends_as``)."""

    workload: str
    ends_as: AfterDeadline
    reason: Reason


@dataclass(frozen=True, slots=True)
class Wait:
    """A pending workload that does not start.

    ``pool`` is the one it waits in (``None`` if none can ever take it). ``position`` counts from 1 among those of its
    pool that wait in the queue; ``None`` for one that is not in it (held, backing off, can never run, ...).
    """

    workload: str
    pool: str | None
    position: int | None
    reason: Reason
    eta: Eta


@dataclass(frozen=True, slots=True)
class StartReservation:
    """Nodes kept for the first blocked workload of a pool, and from when (``None`` if not known)."""

    workload: str
    pool: str
    nodes: tuple[str, ...]
    at: int | None


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """A pool after the plan: ``in_use_milli`` is allocated, ``free_milli`` neither held nor promised.

    ``oversubscribed``: the guarantees add up to more than the capacity. ``fragmentation``: the part (0 to 1) of what
    is free that the pool's typical requests could not use.
    """

    pool: str
    capacity_milli: int
    in_use_milli: int
    free_milli: int
    oversubscribed: bool
    fragmentation: float


@dataclass(frozen=True, slots=True)
class TeamFigures:
    """A team in a pool after the plan, with its subtree; demand and entitlement are those of the plan."""

    team: str
    pool: str
    guarantee_milli: int
    ceiling_milli: int | None
    in_use_milli: int
    reserved_in_use_milli: int
    demand_milli: int
    entitlement_milli: int


class FindingCode(StrEnum):
    """What an admin should know about."""

    OVERSUBSCRIBED = "oversubscribed"
    ABOVE_CEILING = "above-ceiling"
    MIXED_GPU_TYPES = "mixed-gpu-types"
    UNKNOWN_TEAM = "unknown-team"
    BROKEN_TREE = "broken-tree"
    IMPOSSIBLE_NUMBER = "impossible-number"
    UNKNOWN_POOL = "unknown-pool"
    MISSING_NODE = "missing-node"
    OVERCOMMITTED = "overcommitted"
    CLOCK = "clock"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is worth a warning: it is legal (the first three codes), or cannot be and is read as the nearest
    thing that can. ``pool`` is empty where it concerns all pools.
    """

    code: FindingCode
    pool: str
    team: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """One cycle's decisions. Every workload of the snapshot stands in exactly one of starts, grows, keeps, shrinks,
    preemptions, expiries and waits. Each is sorted by id (waits by pool, position, id). Keeps, waits and the
    figures may be worked out when they are first read."""

    starts: tuple[Start, ...] = ()
    grows: tuple[Grow, ...] = ()
    keeps: Sequence[Keep] = ()
    shrinks: tuple[Shrink, ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    waits: Sequence[Wait] = ()
    reservations: tuple[StartReservation, ...] = ()
    pools: Sequence[PoolFigures] = ()
    teams: Sequence[TeamFigures] = ()
    findings: Sequence[Finding] = ()
    expiries: tuple[Expiry, ...] = ()
