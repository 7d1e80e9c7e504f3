"""From a scenario file to what the engine takes: a snapshot, a now, and what is expected of the plan.

Ids are names. Every refusal is a `ScenarioError`. The modules beside this one read pools, teams, workloads
and expectations; here they are brought together, named one by one, given their times, and placed.
"""

import datetime as dt
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain

from scheduling.engine import OpenStatus, Snapshot, WorkloadInfo

from .document import Format, Value, parse
from .expectations import Expectations, read_expectations
from .fields import SECOND_MS, Fields
from .placing import Lying, Placed, place_all
from .pools import Machines, read_machines
from .rows import AllNames
from .teams import read_teams
from .trace import read_trace
from .workloads import WorkloadRow, read_workloads

VERSION = 1
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NOW_MS = int(NOW.timestamp()) * SECOND_MS
DOCUMENT_KEYS = frozenset({"version", "now", "pools", "teams", "workloads", "expect"})


@dataclass(frozen=True, slots=True)
class Course:
    """What becomes of a workload as the clock runs: how long it runs (None: for ever), and whom it waits for."""

    duration_ms: int | None
    depends_on: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A described organisation at one moment, `now` in milliseconds since the epoch.

    `arrivals` are submitted later, in that order. `courses` are those of the workloads that have one of their own,
    by id.
    """

    snapshot: Snapshot
    now: int
    expectations: Expectations
    arrivals: tuple[WorkloadInfo, ...] = ()
    courses: dict[str, Course] = field(default_factory=dict)


def load(content: bytes, form: Format, *, trace: bytes | None = None, future: bool = False) -> Scenario:
    """Return the scenario that a file's bytes describe; raises ScenarioError for one that is refused.

    `trace` is CSV with more workloads. Where `future`, workloads may be submitted later than now.
    """
    return read_scenario(parse(content, form), trace, future=future)


def read_scenario(document: Value, trace: bytes | None = None, *, future: bool = False) -> Scenario:
    """Return the scenario of a document that is parsed already."""
    fields = Fields(document, "the file", DOCUMENT_KEYS)
    fields.require("version")
    if fields.text("version") != str(VERSION):
        raise fields.refusal("version", f"allowed is {VERSION}")
    now = _now(fields)
    known = AllNames()
    machines = read_machines(fields.sequence("pools"), known)
    teams = read_teams(fields.sequence("teams"), known, machines.pools)
    described = fields.sequence("workloads")
    every = described if trace is None else chain(described, read_trace(trace))
    rows = read_workloads(every, known, machines.pools, future=future)
    expectations = read_expectations(fields.value("expect"), known)
    workloads = _workloads(rows, machines, now)
    present = tuple(each for each in workloads if each.submitted_at <= now)
    arrivals = [each for each in workloads if each.submitted_at > now]
    return Scenario(
        Snapshot(machines.pools, teams, machines.nodes, present),
        now,
        expectations,
        tuple(sorted(arrivals, key=lambda each: (each.submitted_at, each.id))),
        dict(_courses(rows)),
    )


def _now(fields: Fields) -> int:
    """The file's moment, in milliseconds since the epoch."""
    text = fields.text("now")
    if text is None:
        return NOW_MS
    found: dt.datetime | None = None
    with suppress(ValueError):
        found = dt.datetime.fromisoformat(text)
    if found is None or found.tzinfo is None or not 2000 <= found.year < 2100:
        raise fields.refusal(
            "now", 'allowed are times from 2000 to 2099 with their zone, such as "2026-01-05T09:00:00Z"'
        )
    return int(found.timestamp() * SECOND_MS)


def _courses(rows: list[WorkloadRow]) -> Iterator[tuple[str, Course]]:
    for row in rows:
        if row.duration_ms is not None or row.depends_on:
            course = Course(row.duration_ms, row.depends_on)
            yield from ((name, course) for name in row.names)


def _workloads(rows: list[WorkloadRow], machines: Machines, now: int) -> list[WorkloadInfo]:
    """Name, place and date the workloads of all rows."""
    placed = [
        Placed(
            order,
            row.line if row.nodes is None else row.nodes_line,
            replace(row.workload, id=name),
            row.nodes,
        )
        for order, (name, row) in enumerate(_named(rows))
        if row.workload.status is not OpenStatus.PENDING
    ]
    lying = place_all(machines, placed)
    min_runtimes_ms = {pool.id: pool.policy.min_runtime_ms for pool in machines.pools}
    total = sum(len(row.names) for row in rows)
    return [
        _dated(name, row, (now, order - total), lying.get(name), min_runtimes_ms)
        for order, (name, row) in enumerate(_named(rows))
    ]


def _named(rows: list[WorkloadRow]) -> Iterator[tuple[str, WorkloadRow]]:
    return ((name, row) for row in rows for name in row.names)


def _dated(
    name: str, row: WorkloadRow, at: tuple[int, int], lying: Lying | None, min_runtimes_ms: dict[str, int]
) -> WorkloadInfo:
    """Return one workload of a row; `at` is now, and the seconds from now at which it was submitted where the row does
    not say.
    """
    now, seconds = at
    submitted_ms = seconds * SECOND_MS if row.submitted_ms is None else row.submitted_ms
    started_ms = None if lying is None else row.started_ms
    if (
        lying is not None
        and started_ms is None
        and row.workload.status in (OpenStatus.RUNNING, OpenStatus.STOPPING)
    ):
        started_ms = min(-min_runtimes_ms[lying.pool], row.checkpointed_ms or 0)
    return replace(
        row.workload,
        id=name,
        name=name,
        pool=None if lying is None else lying.pool,
        placements=() if lying is None else lying.placements,
        submitted_at=now + submitted_ms,
        started_at=None if started_ms is None else now + started_ms,
        checkpointed_at=None if row.checkpointed_ms is None else now + row.checkpointed_ms,
        start_after=None if row.start_after_ms is None else now + row.start_after_ms,
        deadline=None if row.deadline_ms is None else now + row.deadline_ms,
    )
