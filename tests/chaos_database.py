"""A small healthy database, written by plain SQL, for those who look for what is broken in one.

Alpha has a GPU guaranteed of two. `done` has run; `running` is reserved and holds GPU 0; `old` was preempted and is
leaving GPU 1, which is promised to `next`; `waiting` needs two GPUs and has none.
"""

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql

from rig.servers import PostgreSQL

ROOT = Path(__file__).resolve().parent.parent
EMPTY = {"text": "", "character varying": "", "jsonb": "{}", "boolean": False, "uuid": None}


def made(name: str) -> UUID:
    """Return the id of what is called so."""
    return UUID(bytes=name.encode().ljust(16, b"."))


def migrate(url: str) -> None:
    """Give an empty database all tables."""
    environment = {**os.environ, "CHAMBER_DATABASE": url, "DJANGO_SETTINGS_MODULE": "chamber.settings"}
    command = [sys.executable, "-m", "django", "migrate", "--verbosity", "0"]
    subprocess.run(command, env=environment, cwd=ROOT, check=True)


@contextmanager
def copy(server: PostgreSQL, name: str) -> Iterator[str]:
    """Make a copy of the server's database inside the block; give its URL."""
    template = server.url.rpartition("/")[2]
    with psycopg.connect(server.url_of("postgres"), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        try:
            yield server.url_of(name)
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


class Rows:
    """Inserts rows; columns that must not be empty and were not given are made empty by their type."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection

    def add(self, table: str, **given: Any) -> None:
        """Insert a row."""
        columns = self._connection.execute(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s "
            "AND is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO'",
            [table],
        ).fetchall()
        values = {name: _empty(kind) for name, kind in columns} | given
        values = {
            key: json.dumps(value) if isinstance(value, dict | list) else value
            for key, value in values.items()
        }
        query = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
            sql.Identifier(table),
            sql.SQL(", ").join(map(sql.Identifier, values)),
            sql.SQL(", ").join(sql.Placeholder() * len(values)),
        )
        self._connection.execute(query, list(values.values()))

    def life(self, name: str, statuses: Sequence[str], *, freed: bool = False, **data: Any) -> None:
        """Insert a workload's events: its submission, each status it had, and that its devices are free."""
        self.event(name, 1, "submitted", "rosa", status="pending")
        for number, status in enumerate(statuses, start=2):
            about = data if status == "queued" else {}
            self.event(name, number, "status", "scheduler", attempt=1, status=status, **about)
        if freed:
            self.event(name, len(statuses) + 2, "devices-freed", "agent of east", attempt=1)

    def event(
        self, name: str, number: int, kind: str, actor: str, *, attempt: int | None = None, **data: Any
    ) -> None:
        """Insert an event."""
        self.add(
            "workloads_event",
            workload_id=made(name), sequence=number, kind=kind, attempt_number=attempt, data=data, actor=actor,
            user_id=made(actor) if actor in ("rosa", "vito") else None,
            via="api" if actor in ("rosa", "vito") else "agent" if "agent" in actor else "system",
        )  # fmt: skip

    def workload(self, name: str, status: str, **given: Any) -> None:
        """Insert rosa's workload of this name."""
        row = {
            "id": made(name), "slug": name, "name": name, "owner_id": made("rosa"), "team_id": made("alpha"),
            "priority": 50, "pods": 1, "min_pods": 1, "gpu_milli": 1000, "status": status, "version": 1,
            "gpu_types": [], "tolerations": [], "pool_choice": [], "command": [], "image": "x",
        }  # fmt: skip
        self.add("workloads_workload", **row | given)

    def attempt(self, name: str, phase: str, device: str, hold: str, **given: Any) -> None:
        """Insert the workload's first attempt, on one device."""
        row = {
            "id": made(f"{name}1"), "workload_id": made(name), "number": 1, "pool_id": made("main"), "phase": phase,
            "allocation": [{"team": str(made("alpha")), "milli": 1000}], "gpus_milli": 1000,
        }  # fmt: skip
        self.add("workloads_attempt", **row | given)
        over = phase == "over"
        self.add(
            "agentlink_assignment", attempt_id=made(f"{name}1"), cluster_id=made("east"), generation=1, pods=[],
            let_go=hold != "promised", wanted=not over, gone=hold == "released",
        )  # fmt: skip
        self.add(
            "agentlink_placement", id=made(f"{name}p"), attempt_id=made(f"{name}1"), device_id=made(device),
            share_milli=1000, hold=hold,
        )  # fmt: skip


def fill(url: str) -> None:
    """Write the healthy rows."""
    with psycopg.connect(url) as connection:
        connection.execute("SET session_replication_role = replica")  # workloads and attempts name each other
        rows = Rows(connection)
        _organisation(rows)
        _machines(rows)
        connection.execute("SET session_replication_role = DEFAULT")
        connection.execute("SET CONSTRAINTS ALL DEFERRED")
        _workloads(rows)
        rows.add("scheduling_clock", id=1, cycle=2)
        for number, status in ((1, "pending"), (2, "running")):
            picture = {"workloads": [{"id": str(made("running")), "status": status}]}
            snapshot = zlib.compress(json.dumps(picture).encode())
            rows.add("scheduling_cycle", number=number, snapshot=snapshot, plan=b"")


def _organisation(rows: Rows) -> None:
    for user in ("rosa", "vito"):
        rows.add("chamber_user", id=made(user), username=user, email=f"{user}@example.org")
    root = f"/{made('acme').hex}/"
    rows.add("teams_team", id=made("acme"), slug="acme", path=root, bursting_priority=1)
    alpha = {"slug": "alpha", "parent_id": made("acme"), "path": f"{root}{made('alpha').hex}/", "depth": 1}
    rows.add("teams_team", id=made("alpha"), bursting_priority=1, **alpha)
    rows.add("teams_binding", id=made("b"), team_id=made("alpha"), user_id=made("rosa"), role="researcher")
    rows.add("teams_pool", id=made("main"), slug="main", topology=[])
    rows.add("teams_share", id=made("s"), team_id=made("alpha"), pool_id=made("main"), reservation_milli=1000)


def _machines(rows: Rows) -> None:
    rows.add("agentlink_cluster", id=made("east"), name="east", backend="simulated", connected=True)
    node = {
        "name": "east-0",
        "cluster_id": made("east"),
        "pool_id": made("main"),
        "ready": True,
        "taints": [],
    }
    rows.add("agentlink_node", id=made("node"), **node)
    for index in (0, 1):
        rows.add("agentlink_device", id=made(f"gpu{index}"), node_id=made("node"), index=index)


def _workloads(rows: Rows) -> None:
    began, now = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
    ran = {"starting_at": began, "running_at": began}
    ended = {**ran, "ended_at": now}
    rows.workload("done", "completed", version=5, last_event=6, finished_at=now)
    rows.attempt("done", "over", "gpu0", "released", **ended, released_at=now, end_reason="completed")
    rows.life("done", ("queued", "starting", "running", "completed"), freed=True)
    rows.workload("running", "running", version=4, last_event=4, priority=100, attempt_id=made("running1"))
    rows.attempt("running", "running", "gpu0", "held", **ran)
    rows.life("running", ("queued", "starting", "running"), cycle=1)
    rows.workload("old", "pending", version=6, last_event=6, reason_code="waiting-for-gpus", gpu_milli=2000)
    rows.attempt("old", "over", "gpu1", "leaving", **ended, end_reason="preempted")
    rows.life("old", ("queued", "starting", "running", "preempted", "pending"))
    rows.workload(
        "next", "queued", version=2, last_event=2, attempt_id=made("next1"), reason_code="waiting-for-victims"
    )
    rows.attempt("next", "queued", "gpu1", "promised")
    rows.life("next", ("queued",))
    rows.workload("waiting", "pending", last_event=1, gpu_milli=2000, reason_code="waiting-for-gpus")
    rows.life("waiting", ())


def _empty(kind: str) -> Any:
    if kind.startswith("timestamp"):
        return "2026-01-01T00:00:00Z"
    return EMPTY.get(kind, 0)
