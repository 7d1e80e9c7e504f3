"""Backup and restore with PostgreSQL's own tools, as docs/operations.md says; the clusters went on meanwhile."""

import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rig import servers
from rig.deployment import Deployment
from tests.deployment_fixtures import CLUSTER, PARTS, becomes, start_all, status_of, stop_all, submit
from tests.waiting import until

pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.usefixtures("mended")]


def program(name: str, *arguments: str) -> None:
    """Run one of PostgreSQL's programs; what it has to say is an error."""
    folder = servers.postgresql_folder()
    assert folder is not None
    done = subprocess.run([str(folder / name), *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def restore(team: Deployment, dump: Path) -> None:
    """Put the dump in the database's place, while nothing of Chamber runs."""
    with psycopg.connect(team.database.url_of("postgres"), autocommit=True) as connection:
        connection.execute("DROP DATABASE chamber")
        connection.execute("CREATE DATABASE chamber")
    program("pg_restore", "--exit-on-error", "--no-owner", "--dbname", team.database.url, str(dump))


def test_after_a_restore_the_agent_that_is_ahead_and_the_server_converge(
    team: Deployment, tmp_path: Path
) -> None:
    kept = submit(team, name="kept", command=["sleep", "900"])
    ended = submit(team, name="ended", command=["sleep", "900"])
    for slug in (kept, ended):
        becomes(team, slug, "running")
    dump = tmp_path / "chamber.dump"
    program("pg_dump", "--format=custom", "--file", str(dump), team.database.url)
    with team.api("rosa") as api:
        assert api.post(f"workloads/{ended}/cancel/").status_code == 200
    for short in [submit(team) for _ in range(5)]:
        becomes(team, short, "completed")
    lost = submit(team, name="lost", command=["sleep", "900"])
    becomes(team, lost, "running")

    assert stop_all(team) == [0] * len(PARTS)
    restore(team, dump)
    team.migrate()
    start_all(team)

    becomes(team, submit(team, name="after"), "completed", seconds=180)
    assert status_of(team, kept) == "running"
    assert attempts(team, kept) == 1, "what ran all the time was not touched"
    with team.api("rosa") as api:
        assert api.get(f"workloads/{lost}/").status_code == 404
    # It ran when the backup was made: it runs again, or ends; what the restored server knows and what is there agree.
    until(lambda: status_of(team, ended) in {"running", "failed", "cancelled", "completed"})
    until(lambda: in_use(team) == running(team), telling=lambda: told(team))
    with team.api("rosa") as api:
        for slug in (kept, ended):
            api.post(f"workloads/{slug}/cancel/")
    until(lambda: in_use(team) == 0, telling=lambda: told(team))


def told(team: Deployment) -> str:
    """Return what the server knows of all attempts that hold GPUs or are running, and what the processes warned of."""
    query = """
        SELECT name, status, number, phase, end_reason, report_sequence, wanted, let_go, gone, unheard_since, hold
        FROM workloads_workload JOIN workloads_attempt ON workload_id = workloads_workload.id
        JOIN agentlink_assignment ON agentlink_assignment.attempt_id = workloads_attempt.id
        LEFT JOIN agentlink_placement ON agentlink_placement.attempt_id = workloads_attempt.id
        WHERE status = 'running' OR hold <> 'released' ORDER BY queued_at
    """
    with psycopg.connect(team.database.url) as connection:
        rows = [", ".join(map(str, row)) for row in connection.execute(query).fetchall()]
    parts = {**team.services, **team.agents}.items()
    return "\n".join([*rows, *(f"{name}: {part.printed()[-1500:]}" for name, part in parts)])


def attempts(team: Deployment, slug: str) -> int:
    with team.api("rosa") as api:
        return len(api.get(f"workloads/{slug}/attempts/").json()["results"])


def running(team: Deployment) -> int:
    with team.api("olga") as api:
        return len(api.get("workloads/", params={"status": "running"}).json()["results"])


def in_use(team: Deployment) -> float:
    """Return the GPUs on which pods may exist, by the server's counters."""
    with team.api("olga") as api:
        nodes = api.get("nodes/", params={"cluster": CLUSTER}).json()["results"]
    return sum(float(device["occupied"]) for node in nodes for device in node["devices"])


def test_the_dump_has_the_triggers_and_the_constraints(team: Deployment, tmp_path: Path) -> None:
    def rules(url: str) -> list[tuple[Any, ...]]:
        query = """
            SELECT 'trigger', tgrelid::regclass::text, tgname FROM pg_trigger WHERE NOT tgisinternal
            UNION SELECT contype::text, conrelid::regclass::text, conname FROM pg_constraint WHERE conrelid > 0
            ORDER BY 1, 2, 3
        """
        with psycopg.connect(url) as connection:
            return connection.execute(query).fetchall()

    dump = tmp_path / "chamber.dump"
    program("pg_dump", "--format=custom", "--file", str(dump), team.database.url)
    with psycopg.connect(team.database.url_of("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE restored")
    restored = team.database.url_of("restored")
    program("pg_restore", "--exit-on-error", "--no-owner", "--dbname", restored, str(dump))
    assert rules(restored) == rules(team.database.url)
    assert sum(kind == "trigger" for kind, *_ in rules(restored)) > 5
    with psycopg.connect(team.database.url_of("postgres"), autocommit=True) as connection:
        connection.execute("DROP DATABASE restored WITH (FORCE)")
