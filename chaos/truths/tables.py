"""The tables at one moment, read by plain SQL: typed rows, and the look-ups that several checks need."""

from collections import defaultdict
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, TypeVar
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import class_row

R = TypeVar("R", bound="StoredRow")

RESERVED_FROM = 100
WHOLE_MILLI = 1000
ADMITTED = frozenset({"queued", "starting", "running"})
OPEN = ADMITTED | {"pending"}


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row; its fields are columns of `TABLE`."""

    TABLE: ClassVar[str]

    def __str__(self) -> str:
        # What is long says little in a line of proof.
        columns = [(field.name, str(getattr(self, field.name))) for field in fields(self)]
        return f"{self.TABLE}: " + ", ".join(f"{name}={text[:60]}" for name, text in columns if text)


@dataclass(frozen=True, slots=True)
class StoredUser(StoredRow):
    """Somebody who signs in."""

    TABLE = "chamber_user"
    id: UUID
    username: str


@dataclass(frozen=True, slots=True)
class StoredTeam(StoredRow):
    """A node of the tree; `path` holds the ids from the root down to itself."""

    TABLE = "teams_team"
    id: UUID
    slug: str
    parent_id: UUID | None
    path: str
    bursting_priority: int
    burst_limit_percent: int | None
    maximum_milli: int | None
    archived_at: datetime | None
    version: int


@dataclass(frozen=True, slots=True)
class StoredPool(StoredRow):
    """GPUs under one policy."""

    TABLE = "teams_pool"
    id: UUID
    slug: str
    order: int
    paused: bool


@dataclass(frozen=True, slots=True)
class StoredShare(StoredRow):
    """What a team is guaranteed of a pool."""

    TABLE = "teams_share"
    team_id: UUID
    pool_id: UUID
    reservation_milli: int
    maximum_milli: int | None
    version: int


@dataclass(frozen=True, slots=True)
class StoredBinding(StoredRow):
    """A role of a user on a team and below."""

    TABLE = "teams_binding"
    team_id: UUID
    user_id: UUID | None
    role: str


@dataclass(frozen=True, slots=True)
class Audit(StoredRow):
    """A change of the organisation."""

    TABLE = "teams_auditevent"
    user_id: UUID | None
    actor: str
    action: str
    target_name: str
    team_path: str


@dataclass(frozen=True, slots=True)
class StoredWorkload(StoredRow):
    """What somebody submitted, and where it stands."""

    TABLE = "workloads_workload"
    id: UUID
    slug: str
    name: str
    owner_id: UUID
    team_id: UUID
    priority: int
    pods: int
    min_pods: int
    gpu_milli: int | None
    gpu_types: list[str]
    node_selector: dict[str, str]
    pool_choice: list[str]
    status: str
    reason_code: str
    held: bool
    backoff_until: datetime | None
    submitted_at: datetime
    attempt_id: UUID | None
    version: int
    last_event: int

    @property
    def is_reserved(self) -> bool:
        """Return whether it is of the class that is never preempted."""
        return self.priority >= RESERVED_FROM


@dataclass(frozen=True, slots=True)
class StoredAttempt(StoredRow):
    """One try to run a workload."""

    TABLE = "workloads_attempt"
    id: UUID
    workload_id: UUID
    number: int
    pool_id: UUID
    phase: str
    allocation: list[dict[str, Any]]
    gpus_milli: int
    running_at: datetime | None
    ended_at: datetime | None
    released_at: datetime | None
    end_reason: str


@dataclass(frozen=True, slots=True)
class StoredEvent(StoredRow):
    """What happened to a workload."""

    TABLE = "workloads_event"
    id: int
    workload_id: UUID
    sequence: int
    kind: str
    user_id: UUID | None
    actor: str
    via: str
    attempt_number: int | None
    message: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StoredSubmissionKey(StoredRow):
    """An idempotency key and what it made."""

    TABLE = "workloads_submissionkey"
    owner_id: UUID
    key: str
    workload_ids: list[str]


@dataclass(frozen=True, slots=True)
class StoredCluster(StoredRow):
    """A cluster."""

    TABLE = "agentlink_cluster"
    id: UUID
    name: str
    connected: bool
    desired_generation: int


@dataclass(frozen=True, slots=True)
class StoredNode(StoredRow):
    """A machine."""

    TABLE = "agentlink_node"
    id: UUID
    cluster_id: UUID
    name: str
    pool_id: UUID | None
    ready: bool
    cordoned: bool
    sharing: bool
    labels: dict[str, str]
    gone_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredBoundNamespace(StoredRow):
    """A team's own namespace in a cluster: pods of two namespaces do not share a device."""

    TABLE = "agentlink_boundnamespace"
    cluster_id: UUID
    team_id: UUID


@dataclass(frozen=True, slots=True)
class StoredDevice(StoredRow):
    """A GPU or a slice of one, which counts as `share_milli`, with its counters."""

    TABLE = "agentlink_device"
    id: UUID
    node_id: UUID
    index: int
    foreign: bool
    gpu_type: str
    slicing: str
    share_milli: int
    occupied_milli: int
    allocated_milli: int


@dataclass(frozen=True, slots=True)
class StoredAssignment(StoredRow):
    """Where an attempt was sent."""

    TABLE = "agentlink_assignment"
    attempt_id: UUID
    cluster_id: UUID
    let_go: bool
    wanted: bool
    gone: bool


@dataclass(frozen=True, slots=True)
class StoredPlacement(StoredRow):
    """A share of a device for a pod."""

    TABLE = "agentlink_placement"
    attempt_id: UUID
    pod_index: int
    device_id: UUID
    share_milli: int
    hold: str


@dataclass(frozen=True, slots=True)
class StoredCycle(StoredRow):
    """A run of the scheduler, with what it saw."""

    TABLE = "scheduling_cycle"
    number: int
    ran_by: str
    snapshot: bytes


@dataclass(frozen=True, slots=True)
class Index(StoredRow):
    """An index; `predicate` is empty where it holds all rows."""

    TABLE = "pg_index"
    name: str
    valid: bool
    predicate: str


INDEXES = """
    SELECT class.relname AS name, indisvalid AS valid, COALESCE(pg_get_expr(indpred, indrelid), '') AS predicate
    FROM pg_index JOIN pg_class class ON class.oid = indexrelid
"""


@dataclass(frozen=True)
class StoredTables:
    """All rows as one transaction saw them, at `now`."""

    now: datetime
    clock: int
    users: list[StoredUser]
    teams: list[StoredTeam]
    pools: list[StoredPool]
    shares: list[StoredShare]
    bindings: list[StoredBinding]
    audit: list[Audit]
    workloads: list[StoredWorkload]
    attempts: list[StoredAttempt]
    events: list[StoredEvent]
    keys: list[StoredSubmissionKey]
    clusters: list[StoredCluster]
    nodes: list[StoredNode]
    namespaces: list[StoredBoundNamespace]
    devices: list[StoredDevice]
    assignments: list[StoredAssignment]
    placements: list[StoredPlacement]
    cycles: list[StoredCycle]
    indexes: list[Index]

    @classmethod
    def read(cls, url: str) -> "StoredTables":
        """Return the tables of the PostgreSQL database at `url`, all as of one moment."""
        with psycopg.connect(url, connect_timeout=5) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            now, clock = connection.execute(
                "SELECT now(), COALESCE((SELECT max(cycle) FROM scheduling_clock), 0)"
            ).fetchone() or (None, 0)
            if now is None:
                raise RuntimeError("The database did not say what time it is.")
            indexes = connection.cursor(row_factory=class_row(Index)).execute(INDEXES).fetchall()

            def rows(kind: type[R]) -> list[R]:
                columns = sql.SQL(", ").join(sql.Identifier(field.name) for field in fields(kind))
                query = sql.SQL("SELECT {} FROM {}").format(columns, sql.Identifier(kind.TABLE))
                return connection.cursor(row_factory=class_row(kind)).execute(query).fetchall()

            return cls(
                now=now,
                clock=clock,
                users=rows(StoredUser),
                teams=rows(StoredTeam),
                pools=rows(StoredPool),
                shares=rows(StoredShare),
                bindings=rows(StoredBinding),
                audit=rows(Audit),
                workloads=rows(StoredWorkload),
                attempts=rows(StoredAttempt),
                events=rows(StoredEvent),
                keys=rows(StoredSubmissionKey),
                clusters=rows(StoredCluster),
                nodes=rows(StoredNode),
                namespaces=rows(StoredBoundNamespace),
                devices=rows(StoredDevice),
                assignments=rows(StoredAssignment),
                placements=rows(StoredPlacement),
                cycles=rows(StoredCycle),
                indexes=indexes,
            )

    @cached_property
    def workload(self) -> dict[UUID, StoredWorkload]:
        """Workloads by id."""
        return {row.id: row for row in self.workloads}

    @cached_property
    def attempt(self) -> dict[UUID, StoredAttempt]:
        """Attempts by id."""
        return {row.id: row for row in self.attempts}

    @cached_property
    def assignment(self) -> dict[UUID, StoredAssignment]:
        """Assignments by attempt."""
        return {row.attempt_id: row for row in self.assignments}

    @cached_property
    def team(self) -> dict[UUID, StoredTeam]:
        """Teams by id."""
        return {row.id: row for row in self.teams}

    @cached_property
    def username(self) -> dict[UUID, str]:
        """User names by id."""
        return {row.id: row.username for row in self.users}

    @cached_property
    def attempts_of(self) -> dict[UUID, list[StoredAttempt]]:
        """Attempts by workload, the first one first."""
        found: dict[UUID, list[StoredAttempt]] = defaultdict(list)
        for row in sorted(self.attempts, key=lambda attempt: attempt.number):
            found[row.workload_id].append(row)
        return found

    @cached_property
    def events_of(self) -> dict[UUID, list[StoredEvent]]:
        """Events by workload, in their order."""
        found: dict[UUID, list[StoredEvent]] = defaultdict(list)
        for row in sorted(self.events, key=lambda event: (event.sequence, event.id)):
            found[row.workload_id].append(row)
        return found

    @cached_property
    def device_name(self) -> dict[UUID, str]:
        """What people call a device, by id."""
        nodes = {node.id: node.name for node in self.nodes}
        return {device.id: f"GPU {device.index} of {nodes[device.node_id]}" for device in self.devices}

    def called(self, workload_id: UUID) -> str:
        """Return the workload's slug, its id where there is no such row."""
        row = self.workload.get(workload_id)
        return row.slug if row is not None else str(workload_id)
