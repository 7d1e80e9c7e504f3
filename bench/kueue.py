"""Kueue's performance scenario over the whole path: API, PostgreSQL, scheduler, agent link, a simulated cluster.

    python -m bench.kueue                          # the scenario: 600 GPUs, 15,000 workloads, runtimes as given
    python -m bench.kueue --quota 100 --runtime 0  # what the control plane does where GPUs are no bound
    python -m bench.kueue --single --count 600     # one request for each workload, eight clients at a time

The shape is Kueue's (test/performance/scheduler/configs/baseline): 5 cohorts of 6 queues with a quota of 20 each, and
in each queue 350 small workloads (1 for 0.2 s, priority 50), 100 medium ones (5 for 0.5 s) and 50 large ones (20 for
1 s). A cohort is a team with a maximum, a queue a team below it with a guarantee; a CPU there is a GPU here, 5 and 20
are pods of one GPU each in a gang, and as with Kueue nobody loses his own quota: preemption is by fair share. All is
submitted as fast as it is taken, in Kueue's order of creation. A simulated pod needs 0.2 to 0.6 s to start besides
what it runs, so 600 GPUs end at most about 150 workloads a second.

Runs the processes of the compose file with servers of their own, prints JSON; all on one machine, the load too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx
import psycopg

from bench.processes import cpu_seconds
from rig import deployment, servers

COHORTS, QUEUES = 5, 6
GPUS_PER_NODE = 8
WINDOW_SECONDS = 5
SUBMITTER = "load"
LIMITS = {"requests_per_minute": 20_000, "submissions_per_hour": 1_000_000, "open_workloads": 1_000_000}
"""Of the service account: 60 single submissions a second are three times what a person may ask for."""


@dataclass(frozen=True, slots=True)
class Class:
    """One of Kueue's three classes of workloads, in each queue."""

    name: str
    count: int
    every_ms: int
    runtime_ms: int
    priority: int
    gpus: int


CLASSES = (
    Class("small", 350, 100, 200, 50, 1),
    Class("medium", 100, 500, 500, 60, 5),
    Class("large", 50, 1200, 1000, 70, 20),
)


def queue_names() -> Iterator[tuple[str, str]]:
    """Yield each queue with its cohort."""
    for cohort in range(COHORTS):
        for queue in range(QUEUES):
            yield f"cohort-{cohort}-queue-{queue}", f"cohort-{cohort}"


def fill(quota: int) -> None:
    """Make pool, teams and the service account that submits; print its token. Run with the deployment's environment."""
    import django

    django.setup()
    from django.db import transaction

    from chamber.models import Scope
    from chamber.services import actions as services
    from chamber.tokens import TokenRequest
    from teams.actors import Actor
    from teams.models import Pool, Role, Share, Team

    with transaction.atomic():
        pool = Pool.objects.create(
            slug="kueue",
            name="Kueue",
            node_selector={"pool": "kueue"},
            policy={"elastic_preemption": "fair-share"},
        )
        root = Team.objects.get(depth=0)
        made: dict[str, Team] = {}
        for queue, cohort in queue_names():
            if cohort not in made:
                made[cohort] = _team(cohort, root, maximum_milli=quota * QUEUES * 1000)
            team = _team(queue, made[cohort])
            Share.objects.create(team=team, pool=pool, reservation_milli=quota * 1000)
        by = Actor.system("bench")
        account = services.create_service(by=by, name=SUBMITTER, team=root, role=Role.LEAD)
        services.set_limits(by=by, account=account, limits=LIMITS)
        print(services.make_token(by=by, account=account, wanted=TokenRequest("bench", Scope.SUBMIT))[1])


def _team(slug: str, parent: Any, **limits: Any) -> Any:
    from teams.models import Team

    team = Team(slug=slug, name=slug, parent=parent, depth=parent.depth + 1, **limits)
    team.path = Team.path_under(parent, team.pk)
    team.save()
    return team


def submissions(part: float, runtime: float) -> list[dict[str, Any]]:
    """Return the workloads in the order in which Kueue's generator creates them."""
    made = []
    for kind in CLASSES:
        for number in range(max(1, round(kind.count * part))):
            for queue, _ in queue_names():
                asked = {
                    "name": kind.name,
                    "team": queue,
                    "priority": kind.priority,
                    "pods": kind.gpus,
                    "gpus": 1,
                    "pools": ["kueue"],
                    "image": "registry.example/bench:1",
                    "command": ["sleep", f"{kind.runtime_ms * runtime / 1000:g}"],
                }
                made.append((number * kind.every_ms, queue, asked))
    return [asked for *_, asked in sorted(made, key=lambda each: each[:2])]


def submit(client: httpx.Client, asked: list[dict[str, Any]], batch: int, clients: int) -> dict[str, Any]:
    """Send everything, `batch` in a request and `clients` requests at a time; return how long that took."""

    def send(start: int) -> float:
        body: Any = asked[start] if batch == 1 else {"workloads": asked[start : start + batch]}
        sent = time.monotonic()
        answer = client.post("workloads/", json=body)
        if answer.status_code != 201:
            raise SystemExit(f"A submission was answered with {answer.status_code}: {answer.text[:500]}")
        return time.monotonic() - sent

    began = time.monotonic()
    with ThreadPoolExecutor(clients) as senders:
        took = list(senders.map(send, range(0, len(asked), batch)))
    seconds = time.monotonic() - began
    return {
        "requests": len(took),
        "at_a_time": clients,
        "seconds": round(seconds, 1),
        "workloads_per_second": round(len(asked) / seconds, 1),
        "request_ms": {"median": _ms(statistics.median(took)), "p95": _ms(_part(took, 0.95))},
    }


class StatementWatcher(threading.Thread):
    """Looks ten times a second which statements PostgreSQL is at."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url, self.seen, self.looks, self.done = url, Counter[str](), 0, threading.Event()

    def run(self) -> None:
        """Look until told to end."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            while not self.done.wait(0.1):
                self.looks += 1
                self.seen.update(_label(*row) for row in connection.execute(ACTIVE))

    def found(self) -> dict[str, float]:
        """Return how many backends were at a kind of statement on average, the most frequent first."""
        return {label: round(count / self.looks, 3) for label, count in self.seen.most_common(16)}


ACTIVE = """
SELECT query, coalesce(wait_event_type, 'cpu') FROM pg_stat_activity
WHERE backend_type = 'client backend' AND state = 'active' AND pid <> pg_backend_pid()
"""
STATEMENT = re.compile(
    r'^\s*(\w+)\b.*?"?((?:scheduling|workloads|agentlink|teams|chamber|auth)_\w+)', re.DOTALL
)


def _label(query: str, waits: str) -> str:
    found = STATEMENT.match(query)
    return f"{found[1]} {found[2]}: {waits}" if found else f"{query[:40]}: {waits}"


def wait_for_end(connection: psycopg.Connection[Any], seconds: float) -> None:
    """Wait until nothing is open any more. Raises `SystemExit`."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        counts = dict(
            connection.execute("SELECT status, count(*) FROM workloads_workload GROUP BY 1").fetchall()
        )
        print(json.dumps(counts), file=sys.stderr)
        if not sum(counts.get(status, 0) for status in ("pending", "queued", "starting", "running")):
            return
        time.sleep(2)
    raise SystemExit(f"Not all had ended after {seconds:.0f} s.")


ADMITTED = """
SELECT w.name, w.submitted_at, w.status, w.finished_at, min(a.queued_at), min(a.running_at), count(*)
FROM workloads_workload w JOIN workloads_attempt a ON a.workload_id = w.id GROUP BY w.id
"""


def figures(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    """Return what the tables tell of the run."""
    rows = connection.execute(ADMITTED).fetchall()
    first = min(row[1] for row in rows)
    admitted = [row[4] for row in rows]
    finished = [row[3] for row in rows if row[3] is not None]
    waits: dict[str, list[float]] = defaultdict(list)
    runs: dict[str, list[float]] = defaultdict(list)
    for name, submitted, _, _, queued, running, _ in rows:
        waits[name].append((queued - submitted).total_seconds())
        if running is not None:
            runs[name].append((running - submitted).total_seconds())
    cycles = connection.execute(
        "SELECT count(*), avg(took_ms), avg(decide_ms), avg(decisions) FROM scheduling_cycle WHERE decisions > 0"
    ).fetchone()
    return {
        "workloads": len(rows),
        "ended_as": dict(Counter(row[2] for row in rows)),
        "attempts": sum(row[6] for row in rows),
        "admitted_per_second": {
            "total": round(len(rows) / (max(admitted) - first).total_seconds(), 1),
            "median_window": _median_window(first, admitted),
        },
        "completed_per_second": {
            "total": round(len(finished) / (max(finished) - first).total_seconds(), 1),
            "median_window": _median_window(first, finished),
        },
        "seconds_until_all_completed": round((max(finished) - first).total_seconds(), 1),
        "seconds_to_admission": {name: _spread(each) for name, each in waits.items()},
        "seconds_to_running": {name: _spread(each) for name, each in runs.items()},
        "cycles_that_decided": dict(
            zip(
                ("count", "took_ms", "decide_ms", "decisions"),
                (round(float(value), 1) for value in cycles),
                strict=True,
            )
        )
        if cycles and cycles[0]
        else {},
    }


def _median_window(first: datetime, moments: list[datetime]) -> float:
    """Return how many a second there were in the median window of five seconds, without the last, unfinished one."""
    windows = Counter(int((moment - first).total_seconds() // WINDOW_SECONDS) for moment in moments)
    full = [windows[number] for number in range(max(windows))] or [windows[0]]
    return round(statistics.median(full) / WINDOW_SECONDS, 1)


def _spread(seconds: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(seconds), 2),
        "p95": round(_part(seconds, 0.95), 2),
        "max": round(max(seconds), 2),
    }


def _part(values: list[float], part: float) -> float:
    return sorted(values)[int(part * (len(values) - 1))]


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Start the deployment, submit, wait, and return the figures."""
    asked = submissions(arguments.part, arguments.runtime)[: arguments.count or None]
    gpus = arguments.quota * COHORTS * QUEUES
    environment = {"CHAMBER_LOG_LEVEL": "WARNING", **deployment.USUAL_LIMITS}
    with (
        servers.postgresql(durable=True) as database,
        servers.redis() as redis,
        deployment.running(database, redis, environment=environment) as team,
        psycopg.connect(database.url, autocommit=True) as connection,
    ):
        made = team.run("-m", "bench.kueue", "--fill", "--quota", str(arguments.quota))
        if made.returncode:
            raise SystemExit(made.stderr)
        nodes = deployment.nodes("kueue", -(-gpus // GPUS_PER_NODE), gpus=GPUS_PER_NODE, pool="kueue")
        team.add_agent("kueue", nodes)
        _wait_for_nodes(connection, len(nodes))
        processes = {name: each.pid for name, each in (team.services | team.agents).items()} | {
            "postgresql": _pid(database),
            "redis": _pid(redis),
            "load": os.getpid(),
        }
        before = {name: cpu_seconds(pid) for name, pid in processes.items()}
        began = time.monotonic()
        watcher = StatementWatcher(database.url)
        watcher.start()
        headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
        with httpx.Client(base_url=f"{team.web_url}/api/v1/", headers=headers, timeout=60) as client:
            batch, clients = (1, arguments.clients) if arguments.single else (arguments.batch, 1)
            submitted = submit(client, asked, batch, clients)
        wait_for_end(connection, arguments.limit)
        took = time.monotonic() - began
        watcher.done.set()
        used = {
            name: round(cpu_seconds(pid) - before[name], 1)
            for name, pid in processes.items()
            if name != "load"
        }
        used["load"] = round(time.process_time(), 1)
        return {
            "mode": "single" if arguments.single else f"bulk of {arguments.batch}",
            "quota_gpus": arguments.quota,
            "runtime_factor": arguments.runtime,
            "gpus": gpus,
            "submitted": submitted,
            **figures(connection),
            "cpu_seconds": used,
            "backends_busy_with": watcher.found(),
            "cycles": _rings(connection),
            "cpus_busy": round(sum(used.values()) / took, 2),
        }


def _rings(connection: psycopg.Connection[Any]) -> dict[str, int]:
    stored = connection.execute("SELECT count(*) FROM scheduling_cycle").fetchone()
    rung = connection.execute("SELECT sum(rings)::int FROM scheduling_bell").fetchone()
    return {"stored": stored[0] if stored else 0, "rings": rung[0] if rung else 0}


def _pid(server: servers.Server) -> int:
    assert server.process is not None  # noqa: S101 - it was started
    return server.process.pid


def _wait_for_nodes(connection: psycopg.Connection[Any], count: int) -> None:
    for _ in range(300):
        found = connection.execute("SELECT count(*) FROM agentlink_node WHERE pool_id IS NOT NULL").fetchone()
        if found and found[0] == count:
            return
        time.sleep(0.2)
    raise SystemExit("The agent's nodes did not arrive within a minute.")


def main() -> int:
    """Run the scenario, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quota", type=int, default=20, help="GPUs of each queue")
    parser.add_argument("--runtime", type=float, default=1.0, help="factor for how long pods run")
    parser.add_argument("--part", type=float, default=1.0, help="part of the workloads of each class")
    parser.add_argument("--count", type=int, default=0, help="at most so many workloads")
    parser.add_argument("--batch", type=int, default=200, help="workloads in a request")
    parser.add_argument("--single", action="store_true", help="one request for each workload")
    parser.add_argument("--clients", type=int, default=8, help="who submit at a time, with --single")
    parser.add_argument("--limit", type=float, default=900, help="seconds after which it is given up")
    parser.add_argument("--fill", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fill:
        fill(arguments.quota)
    else:
        print(json.dumps(run(arguments), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
