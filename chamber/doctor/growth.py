"""What the database holds by kind, how fast that grows, and for how many days each kind is kept."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import DatabaseError, models
from django.db.backends.base.base import BaseDatabaseWrapper

from agentlink.models import Assignment, GpuUse, GpuUseSample, Placement, PodLog
from chamber.doctor.database import on_postgresql
from chamber.serving import surroundings
from scheduling.models import Cycle, UsageSample
from teams import retention
from teams.models import AuditEvent, AuditSeal, AuditUnsealed
from teams.retention import RetentionKind
from workloads.models import (
    Attempt,
    AttemptNotes,
    Checkpoint,
    Dependency,
    Event,
    MountedSource,
    NamedCredential,
    Workload,
    WorkloadArray,
)

LEAST_SPAN = timedelta(hours=1)
"""What a younger kind grows by a day cannot be told yet."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class HistoryKind:
    """A kind of history: the tables that it lies in, and which column of which table tells when its rows came."""

    name: str
    kind: RetentionKind
    tables: tuple[type[models.Model], ...]
    since: tuple[type[models.Model], str]


KINDS = (
    HistoryKind(
        "workloads and events",
        RetentionKind.WORKLOADS,
        (
            Workload,
            Attempt,
            Event,
            Dependency,
            Assignment,
            Placement,
            AttemptNotes,
            Checkpoint,
            NamedCredential,
            MountedSource,
            WorkloadArray,
        ),
        (Workload, "created_at"),
    ),
    HistoryKind("logs of pods", RetentionKind.LOGS, (PodLog,), (PodLog, "created_at")),
    HistoryKind(
        "audit trail", RetentionKind.AUDIT, (AuditEvent, AuditSeal, AuditUnsealed), (AuditEvent, "at")
    ),
    HistoryKind(
        "samples of use", RetentionKind.SAMPLES, (UsageSample, GpuUse, GpuUseSample), (UsageSample, "minute")
    ),
    HistoryKind("cycles", RetentionKind.CYCLES, (Cycle,), (Cycle, "began_at")),
)


@dataclass(frozen=True, slots=True)
class Growth:
    """One line of the table. `size_bytes` is with indexes; `kept_days` None: as long as the deployment."""

    kind: str
    size_bytes: int
    bytes_a_day: int | None
    kept_days: int | None


def measure(now: datetime | None = None) -> list[Growth]:
    """Return the kinds in order, then all other tables; nothing where the database does not answer, or is a file.

    A kind's growth is its size by the days since its oldest row: an average, of all the time that it is kept.
    """
    if not on_postgresql():
        return []
    try:
        with closing(surroundings.connection_without_pool()) as found:
            return list(_measured(found, now or datetime.now(UTC)))
    except DatabaseError:
        return []


def _measured(found: BaseDatabaseWrapper, now: datetime) -> Iterator[Growth]:
    rest = int(_one(found, "SELECT pg_database_size(current_database())"))
    for held in KINDS:
        size = sum(_size(found, model) for model in held.tables)
        rest -= size
        yield Growth(held.name, size, _a_day(found, held, size, now), retention.kept(held.kind).days)
    yield Growth("everything else", rest, None, None)


def _size(found: BaseDatabaseWrapper, model: type[models.Model]) -> int:
    return int(_one(found, "SELECT pg_total_relation_size(%s::regclass)", model._meta.db_table))


def _a_day(found: BaseDatabaseWrapper, held: HistoryKind, size: int, now: datetime) -> int | None:
    model, column = held.since
    oldest = _one(found, f"SELECT min({column}) FROM {model._meta.db_table}")  # noqa: S608 - names of ours
    if not isinstance(oldest, datetime) or now - oldest < LEAST_SPAN:
        return None
    return int(size * timedelta(days=1) / (now - oldest))


def _one(found: BaseDatabaseWrapper, sql: str, *parameters: str) -> Any:
    with found.cursor() as cursor:
        cursor.execute(sql, parameters or None)
        row = cursor.fetchone()
    return row[0] if row else None


def lines(growth: list[Growth]) -> Iterator[str]:
    """Yield the table for people."""
    rows = [("kind", "size", "a day", "kept")]
    for row in growth:
        a_day = "" if row.bytes_a_day is None else mebibytes(row.bytes_a_day)
        kept = "" if row.kept_days is None else f"{row.kept_days} {'day' if row.kept_days == 1 else 'days'}"
        rows.append((row.kind, mebibytes(row.size_bytes), a_day, kept))
    widths = [max(len(row[index]) for row in rows) for index in range(4)]
    for name, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([name.ljust(widths[0]), *cells]).rstrip()


def mebibytes(count: int) -> str:
    """Return a size as people read it."""
    if count < 10 * MIB:
        return f"{count / MIB:.1f} MiB"
    return f"{count / MIB:,.0f} MiB" if count < 10_240 * MIB else f"{count / (1 << 30):,.1f} GiB"
