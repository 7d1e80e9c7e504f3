"""What goes into the engine: pools, nodes, teams, workloads.

See :mod:`scheduling.engine.model` for the units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from scheduling.engine.model.peak import PeakHours

GPU_MILLI = 1000
"""One whole GPU, in milli-GPUs."""

RESERVED_PRIORITY = 100
"""From this priority on a workload is reserved, below it is elastic."""

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

Labels = tuple[tuple[str, str], ...]
"""Label pairs, sorted by key. See :func:`labels_of`."""


def labels_of(mapping: Mapping[str, str]) -> Labels:
    """The mapping as sorted, hashable pairs."""
    return tuple(sorted(mapping.items()))


# --- Pools and their policies -------------------------------------------------------------------------------------


class Queueing(StrEnum):
    """Which workloads may pass one that waits for a place."""

    STRICT_FIFO = "strict-fifo"
    BEST_EFFORT_FIFO = "best-effort-fifo"
    BACKFILL = "backfill"


class ElasticPreemption(StrEnum):
    """Which workloads an elastic one may preempt."""

    PRIORITY = "priority"
    FAIR_SHARE = "fair-share"
    NEVER = "never"


class NodeOrder(StrEnum):
    """Which node of those that fit is taken first."""

    BINPACK = "binpack"
    SPREAD = "spread"


class Fairness(StrEnum):
    """What makes one team come before another in the queue."""

    ENTITLEMENT = "entitlement"
    USAGE = "usage"


class Sharing(StrEnum):
    """Whether a pool's devices may be shared by several pods."""

    FRACTIONS = "fractions"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Policy:
    """A pool's rules.

    ``usage_half_life_ms`` is for whoever keeps ``TeamShare.usage_gpu_ms``: the engine takes usage as it is at
    ``now``. ``default_time_limit_ms`` is only reckoned with (backfill, ETA), never enforced.
    """

    queueing: Queueing = Queueing.BACKFILL
    elastic_preemption: ElasticPreemption = ElasticPreemption.PRIORITY
    placement: NodeOrder = NodeOrder.BINPACK
    fairness: Fairness = Fairness.ENTITLEMENT
    usage_half_life_ms: int = 7 * DAY_MS
    min_runtime_ms: int = 0
    max_preemptions: int | None = None
    default_time_limit_ms: int | None = None
    sharing: Sharing = Sharing.FRACTIONS
    peak: PeakHours | None = None

    def limit_ms(self, time_limit_ms: int | None) -> int | None:
        """The time limit of a workload, else the pool's default one."""
        return self.default_time_limit_ms if time_limit_ms is None else time_limit_ms


@dataclass(frozen=True, slots=True)
class TypicalRequest:
    """What a pod of this pool often asks for, and how often relative to the others; measures fragmentation.

    ``gpu_memory_mib``, where it is not 0, stands in place of ``milli``. ``cpu_milli`` and ``memory_mib`` are those of
    the pod; an empty ``gpu_types`` is any.
    """

    milli: int
    weight: float
    cpu_milli: int = 0
    memory_mib: int = 0
    gpu_types: tuple[str, ...] = ()
    gpu_memory_mib: int = 0


@dataclass(frozen=True, slots=True)
class PoolInfo:
    """GPUs shared under one policy.

    ``topology`` names the label keys of its levels, outermost first; "node" is always the innermost and not listed. A
    paused pool starts nothing and preempts nothing; what it runs goes on.
    """

    id: str
    name: str
    policy: Policy = Policy()
    topology: tuple[str, ...] = ()
    recent: tuple[TypicalRequest, ...] = ()
    paused: bool = False


# --- Nodes --------------------------------------------------------------------------------------------------------


class Slicing(StrEnum):
    """How a device was cut from a GPU, if it was: a slice is no GPU."""

    WHOLE = "whole"
    MIG = "mig"
    REPLICAS = "replicas"


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One GPU of a node, or one slice of a GPU.

    A ``foreign`` one is used by pods Chamber does not manage and is not capacity. ``share_milli`` is the share of a
    GPU that the device counts as when it is taken whole: 1000 but for slices, which are taken whole or not at all.
    ``shared_by`` names those with pods on it: parts of it are only for workloads that have them in ``shares_with``.
    """

    index: int
    gpu_type: str = ""
    memory_mib: int | None = None
    foreign: bool = False
    slicing: Slicing = Slicing.WHOLE
    share_milli: int = GPU_MILLI
    shared_by: str | None = None


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint. ``NoSchedule`` and ``NoExecute`` keep out pods that do not tolerate them, other effects none."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Toleration:
    """What a workload tolerates: the taints of a key, or (with a value) the one taint of that key and value."""

    key: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A machine of one pool and one cluster.

    ``cpu_milli`` and ``memory_mib`` are what workloads may use, ``None`` for unlimited. One that is not ready, is
    cordoned, or belongs to a disconnected cluster (``cluster_online`` false) takes nothing new but keeps what it
    holds; the first two are not capacity either. ``drained``: it is cordoned because Chamber drains it. ``sharing``
    false: whole GPUs only. ``partition``: only for workloads that name the same.
    """

    id: str
    name: str
    pool: str
    devices: tuple[DeviceInfo, ...]
    cluster: str = ""
    cluster_online: bool = True
    cpu_milli: int | None = None
    memory_mib: int | None = None
    labels: Labels = ()
    taints: tuple[Taint, ...] = ()
    partition: str | None = None
    ready: bool = True
    cordoned: bool = False
    sharing: bool = True
    drained: bool = False


# --- Teams --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TeamShare:
    """What one team has in one pool.

    ``maximum_milli`` overrides the team's own for this pool. ``usage_gpu_ms`` is decayed use in GPU-milliseconds as
    of ``now``, of the team's own workloads only: the engine adds up the children's.
    """

    pool: str
    reservation_milli: int = 0
    maximum_milli: int | None = None
    usage_gpu_ms: int = 0


@dataclass(frozen=True, slots=True)
class TeamInfo:
    """A node of the tree. Several teams may have no parent: they are children of a nameless root.

    ``weight`` is the bursting priority (1 to 10; 0 takes no part in the surplus, larger numbers are legal).
    ``burst_limit_percent`` over the guarantee: ``None`` unlimited, 0 no bursting.
    """

    id: str
    name: str
    parent: str | None = None
    weight: int = 1
    burst_limit_percent: int | None = None
    maximum_milli: int | None = None
    shares: tuple[TeamShare, ...] = ()


# --- Workloads ----------------------------------------------------------------------------------------------------


class OpenStatus(StrEnum):
    """Where an unfinished workload stands.

    A STOPPING attempt is over for its team (or preempted) while its pods still hold devices. A workload that is back
    in the queue while its last attempt is STOPPING is two rows with two ids.
    """

    PENDING = "pending"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


PLACED = frozenset({OpenStatus.QUEUED, OpenStatus.STARTING, OpenStatus.RUNNING})
"""Statuses with an allocation, which counts against a team."""


class DependencyState(StrEnum):
    """What the workloads this one depends on mean for it."""

    NONE = "none"
    WAITING = "waiting"
    FAILED = "failed"


class AfterPreemption(StrEnum):
    """What becomes of a preempted workload."""

    REQUEUE = "requeue"
    STOP = "stop"


class AfterDeadline(StrEnum):
    """As what a workload ends that is not Queued by its deadline."""

    FAIL = "fail"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class GpuShare:
    """A pod's request in milli-GPUs: a multiple of 1000, or a part of one device."""

    milli: int


@dataclass(frozen=True, slots=True)
class Memory:
    """A pod's request as device memory: a share of the one device it lands on."""

    mib: int


Request = GpuShare | Memory


@dataclass(frozen=True, slots=True)
class Topology:
    """The levels (label keys of the pool, or "node") a gang must or would like to stay inside."""

    required: str | None = None
    preferred: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """What a pod holds of one device; 1000 is all of it."""

    index: int
    milli: int


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """Where one pod is placed. ``pod_index`` counts from 0 and stays with the pod as a gang shrinks and grows."""

    pod_index: int
    node: str
    devices: tuple[DeviceShare, ...]

    @property
    def milli(self) -> int:
        """The pod's size in milli-GPUs."""
        return sum(share.milli for share in self.devices)


@dataclass(frozen=True, slots=True)
class DataSet:
    """Something that pods mount, and the clusters that have it, by id; ``named`` is what people call these."""

    name: str
    clusters: tuple[str, ...]
    named: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadInfo:
    """A workload that waits or is placed.

    ``pools`` in the order of preference; ``None`` is any, in the organisation's order. ``request``, ``cpu_milli`` and
    ``memory_mib`` are per pod. An empty ``gpu_types`` is any. ``min_pods`` equals ``pods`` for a gang that is all or
    nothing. ``pool`` and ``placements`` are those of a placed or stopping one; a QUEUED one's devices may still be
    held by a STOPPING one. ``submitted_at`` is the original submission, which a requeue keeps. ``started_at`` is
    when a RUNNING one began. ``preemptions_24h`` counts how often it was preempted in the last 24 hours.
    ``shares_with`` are those with whose pods its own may share a device (``shared_by``). Before ``start_after`` it is
    in no queue; a pending one ends at its ``deadline``. ``job_class`` is what a pool's peak hours may name. ``data`` is
    what its pods mount: they lie only in clusters that have all of it. ``array`` names the array that it is a member
    of, where that has at most ``max_parallel`` members placed at once.
    """

    id: str
    name: str
    team: str
    request: Request
    priority: int = 50
    pods: int = 1
    min_pods: int = 1
    pools: tuple[str, ...] | None = None
    cpu_milli: int = 0
    memory_mib: int = 0
    gpu_types: tuple[str, ...] = ()
    node_selector: Labels = ()
    partition: str | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology: Topology = Topology()
    status: OpenStatus = OpenStatus.PENDING
    pool: str | None = None
    placements: tuple[PodPlacement, ...] = ()
    submitted_at: int = 0
    started_at: int | None = None
    checkpointed_at: int | None = None
    time_limit_ms: int | None = None
    preemptions_24h: int = 0
    held: bool = False
    dependency: DependencyState = DependencyState.NONE
    backing_off_until: int | None = None
    on_preemption: AfterPreemption = AfterPreemption.REQUEUE
    shares_with: tuple[str, ...] = ()
    start_after: int | None = None
    deadline: int | None = None
    on_deadline: AfterDeadline = AfterDeadline.FAIL
    job_class: str = ""
    data: tuple[DataSet, ...] = ()
    array: str | None = None
    max_parallel: int | None = None

    @property
    def reserved(self) -> bool:
        """Whether it is of the reserved class."""
        return self.priority >= RESERVED_PRIORITY


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything one cycle looks at. Pools are in the organisation's order; the order of the rest means nothing.

    A workload's pool, team and nodes should be among the rows. Placements on nodes that are not are kept and charged,
    but hold no device.
    """

    pools: tuple[PoolInfo, ...]
    teams: tuple[TeamInfo, ...]
    nodes: tuple[NodeInfo, ...]
    workloads: tuple[WorkloadInfo, ...]
