"""What the database grows by for 1,000 workloads, by kind: submitted, decided, run and ended by a whole deployment.

    python -m bench.growth [WORKLOADS]

Prints JSON. Workloads run for two seconds on simulated nodes and write a few lines. Logs, GPU use and cycles of real
ones depend on what those write, how long they run and how busy the queue is: see "Growth" in docs/operations.md.
"""

import json
import sys
import time
from typing import Any

import psycopg

from rig import deployment
from rig.deployment import Deployment

AT_ONCE = 100
PATIENCE_SECONDS = 1200.0
TABLES = {
    "workloads and events": [
        "workloads_workload",
        "workloads_attempt",
        "workloads_event",
        "workloads_dependency",
        "agentlink_assignment",
        "agentlink_placement",
    ],
    "logs of pods": ["agentlink_podlog"],
    "audit trail": ["teams_auditevent"],
    "samples of use": ["scheduling_usagesample", "agentlink_gpuuse", "agentlink_gpuusesample"],
    "cycles": ["scheduling_cycle"],
    "keys": ["workloads_submissionkey"],
}


def main(count: int) -> None:
    """Run the workloads, and print what each kind takes and has as rows."""
    with deployment.running() as team:
        team.add_agent("east", deployment.nodes("east", 32))
        before = measure(team)
        began = time.monotonic()
        submit(team, count)
        wait(team, count)
        took = time.monotonic() - began
        after = measure(team)
        done = team.run("-m", "bench.growth_rows", str(count))
        if done.returncode != 0:
            raise SystemExit(done.stderr[-1500:])
        full = measure(team)
    kinds = {name: grown(before[name], after[name], count) for name in TABLES}
    # Logs were written anew, full ones in the place of short ones.
    units = {
        "full log of a pod": grown((0, 0), full["logs of pods"], count),
        "hour of GPU use": grown(after["samples of use"], full["samples of use"], count),
        "act in the audit trail": grown(after["audit trail"], full["audit trail"], count),
    }
    told = {"workloads": count, "seconds": round(took, 1), "kinds": kinds, "by 1,000 of a kind": units}
    print(json.dumps(told, indent=2))


def grown(before: tuple[int, int], after: tuple[int, int], count: int) -> dict[str, int]:
    """Return what bytes and rows came, and the bytes for 1,000 of what was done `count` times."""
    size = after[0] - before[0]
    return {"bytes": size, "rows": after[1] - before[1], "bytes_per_1000": round(size * 1000 / count)}


def submit(team: Deployment, count: int) -> None:
    """Submit in bulk, of each hundred one with two pods."""
    with team.api("rosa") as api:
        for first in range(0, count, AT_ONCE):
            rows = [workload(number) for number in range(first, min(first + AT_ONCE, count))]
            answer = api.post("workloads/", json={"workloads": rows})
            answer.raise_for_status()


def workload(number: int) -> dict[str, Any]:
    """Return an ordinary workload: a name, an image, a command of some words and a few variables."""
    return {
        "name": f"train-{number}",
        "team": "nlp",
        "image": "registry.example.org/nlp/train:2026-11",
        "command": ["sh", "-c", "echo begin; sleep 2; echo end"],
        "environment": {"EPOCHS": "3", "DATASET": "/data/corpus-v7", "LEARNING_RATE": "0.0003"},
        "gpus": 1,
        "pods": 2 if number % 100 == 0 else 1,
    }


def wait(team: Deployment, count: int) -> None:
    """Wait until all of them have completed and their logs are kept."""
    query = (
        "SELECT (SELECT count(*) FROM workloads_workload WHERE status = 'completed'), "
        "(SELECT count(DISTINCT attempt_id) FROM agentlink_podlog)"
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    with psycopg.connect(team.database.url, autocommit=True) as connection:
        while (found := connection.execute(query).fetchone()) != (count, count):
            if time.monotonic() > deadline:
                raise SystemExit(
                    f"After {PATIENCE_SECONDS:.0f} s {found} of {count} had completed, with logs."
                )
            time.sleep(1)


def measure(team: Deployment) -> dict[str, tuple[int, int]]:
    """Return bytes (with indexes) and rows by kind."""
    found = {}
    with psycopg.connect(team.database.url, autocommit=True) as connection:
        for name, tables in TABLES.items():
            size = rows = 0
            for table in tables:
                query = f"SELECT pg_total_relation_size('{table}'), (SELECT count(*) FROM {table})"  # noqa: S608 - ours
                row = connection.execute(query.encode()).fetchone()
                assert row is not None  # noqa: S101 - an aggregate has one row
                size, rows = size + row[0], rows + row[1]
            found[name] = size, rows
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
