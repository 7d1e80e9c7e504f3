"""Replay the Philly trace through the scheduler: how long it takes, how much memory, and how long jobs wait.

    python -m bench.replay --jobs philly_jobs.csv.gz --nodes philly_vc_nodes.csv

Two organisations on the same machines, each also on a part of them (`--part`), for contention:

- `given`: a pool for each virtual cluster with strict queues, as in the trace
- `shared`: one pool with backfill; every virtual cluster is a team that is guaranteed the nodes it had. The teams
  above are made up: by size, the virtual clusters are dealt out in turn to three departments of one company.

All jobs are elastic and of one priority; one of more than eight GPUs is a gang of equal pods on as few nodes as
possible. Four virtual clusters (77 jobs) have no nodes in the list, and get as many as their largest job needs. A run
lasts from the first submission to 30 days after the last. Each organisation runs in a process of its own. Printed is
JSON; `seconds` are of CPU, and `memory_mib` is what the process held after each tenth of the time that passed.

`--limits` gives each job the shortest usual time limit (15 minutes to 90 days) that it keeps, and adds `eta`: a job is
promised the latest time of the ETA it has in the first plan in which it waits, and has kept it if it starts by then or
at the first cycle after; who starts without having waited was promised nothing, nor who had no time in that plan.
"""

import argparse
import csv
import gzip
import io
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Any

from scheduling.engine import Plan, Snapshot
from scheduling.scenario.document import Format
from scheduling.scenario.loader import load
from scheduling.simulation.clock import SimulationClock
from scheduling.simulation.summary import summary_of

GPUS_PER_NODE = 8
DEPARTMENTS = ("research", "products", "platform")
SHARED = "shared"
AFTERWARDS_SECONDS = 30 * 86400
LIMITS_MINUTES = (15, 60, 240, 720, 1440, 2880, 7 * 1440, 14 * 1440, 30 * 1440, 60 * 1440, 90 * 1440)
ARRANGEMENTS = ("given", SHARED)


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of the trace; `at` in seconds since its first."""

    name: str
    cluster: str
    at: int
    gpus: int
    seconds: int

    @property
    def pods(self) -> int:
        """On how many nodes it runs, with as many GPUs on each."""
        return next(n for n in range(ceil(self.gpus / GPUS_PER_NODE), self.gpus + 1) if self.gpus % n == 0)


def main() -> int:
    """Replay what is asked for, everything by default, and print the figures."""
    arguments = _arguments()
    if arguments.only is not None:
        print(json.dumps(_replay(arguments, arguments.only, arguments.part)))
        return 0
    runs = {}
    for part in (1.0, arguments.part):
        for arrangement in ARRANGEMENTS:
            words = [*sys.argv[1:], "--only", arrangement, "--part", str(part)]
            done = subprocess.run(
                [sys.executable, "-m", "bench.replay", *words], stdout=subprocess.PIPE, check=True
            )
            runs[f"{arrangement} on {part:.0%} of the nodes"] = json.loads(done.stdout)
    print(json.dumps(runs, indent=2))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        prog="python -m bench.replay",
    )
    parser.add_argument(
        "--jobs", type=Path, required=True, help="CSV: job_id, vc, submit_time, num_gpus, duration_s"
    )
    parser.add_argument("--nodes", type=Path, required=True, help="CSV: vc, node num")
    parser.add_argument("--interval", type=int, default=30, help="seconds between two cycles, at least")
    parser.add_argument("--part", type=float, default=0.55, help="the part of each virtual cluster's nodes")
    parser.add_argument("--since", type=_day, help="only jobs submitted from this day on")
    parser.add_argument("--before", type=_day, help="only jobs submitted before this day")
    parser.add_argument(
        "--known", action="store_true", help="only jobs of virtual clusters whose nodes are listed"
    )
    parser.add_argument(
        "--limits", action="store_true", help="give jobs time limits, and see whether ETAs are kept"
    )
    parser.add_argument("--queueing", default="strict-fifo", help="of the pools as given")
    parser.add_argument("--only", choices=ARRANGEMENTS, help="run one organisation in this process")
    return parser.parse_args()


def _day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _replay(arguments: argparse.Namespace, arrangement: str, part: float) -> dict[str, Any]:
    jobs = list(_jobs(arguments))
    nodes = {cluster: max(1, round(count * part)) for cluster, count in _nodes(arguments, jobs).items()}
    shared = arrangement == SHARED
    pools = _shared_pool(nodes) if shared else _given_pools(nodes, arguments.queueing)
    document = {"version": 1, "pools": pools, "teams": _teams(nodes, shared=shared)}
    window_seconds = jobs[-1].at + AFTERWARDS_SECONDS
    began = time.process_time()
    trace = _trace(jobs, SHARED if shared else None, limits=arguments.limits)
    scenario = load(json.dumps(document).encode(), Format.JSON, trace=trace, future=True)
    loaded = time.process_time()
    memory = MemoryUse(scenario.now, window_seconds * 1000)
    promises = StartPromises(arguments.interval * 1000)
    watches = [promises.look] if arguments.limits else []
    ending = SimulationClock(scenario, watches).run(
        window_seconds * 1000, arguments.interval * 1000, memory.look
    )
    summary = summary_of(ending.snapshot, ending.tally, ending.now)
    details = {"pools", "classes"} if shared else {"teams", "classes"}
    return {
        "jobs": len(jobs),
        "nodes": sum(nodes.values()),
        "seconds": round(time.process_time() - began, 1),
        "seconds_loading": round(loaded - began, 1),
        "cycles": ending.cycles,
        **({"eta": promises.figures()} if arguments.limits else {}),
        "memory_mib": memory.found,
        "never_started": summary.everything.submitted - summary.everything.started,
        "summary": {key: value for key, value in summary.as_object().items() if key not in details},
    }


def _jobs(arguments: argparse.Namespace) -> Iterator[TraceJob]:
    """Yield the jobs in the order of their submission."""
    listed = set(_listed(arguments.nodes))
    first: datetime | None = None
    with gzip.open(arguments.jobs, "rt") as lines:
        for row in csv.DictReader(lines):
            at = datetime.fromisoformat(row["submit_time"]).replace(tzinfo=UTC)
            if (arguments.since and at < arguments.since) or (arguments.before and at >= arguments.before):
                continue
            if arguments.known and row["vc"] not in listed:
                continue
            first = first or at
            seconds = int((at - first).total_seconds())
            yield TraceJob(
                f"job-{row['job_id']}", row["vc"], seconds, int(row["num_gpus"]), int(row["duration_s"])
            )


def _listed(path: Path) -> dict[str, int]:
    with path.open() as lines:
        return {row["vc"]: int(row["node num"]) for row in csv.DictReader(lines)}


def _nodes(arguments: argparse.Namespace, jobs: list[TraceJob]) -> dict[str, int]:
    """How many nodes each virtual cluster has."""
    found: dict[str, int] = defaultdict(int)
    for job in jobs:
        found[job.cluster] = max(found[job.cluster], job.pods)
    return found | _listed(arguments.nodes)


def _given_pools(nodes: dict[str, int], queueing: str) -> list[dict[str, Any]]:
    policy = {"queueing": queueing, "elastic_preemption": "never"}
    return [
        {"name": cluster, "policy": policy, "nodes": [_rows(cluster, count)]}
        for cluster, count in nodes.items()
    ]


def _shared_pool(nodes: dict[str, int]) -> list[dict[str, Any]]:
    policy = {"queueing": "backfill", "elastic_preemption": "fair-share"}
    rows = [_rows(cluster, count) for cluster, count in nodes.items()]
    return [{"name": SHARED, "policy": policy, "nodes": rows}]


def _rows(cluster: str, count: int) -> dict[str, Any]:
    return {"name": f"{cluster}-{{i}}", "count": count, "gpus": GPUS_PER_NODE}


def _teams(nodes: dict[str, int], *, shared: bool) -> list[dict[str, Any]]:
    """A team for each virtual cluster; where they share, with its guarantee, below a made-up department."""
    if not shared:
        return [{"name": cluster} for cluster in nodes]
    teams: list[dict[str, Any]] = [{"name": "company"}]
    teams += [{"name": department, "parent": "company"} for department in DEPARTMENTS]
    by_size = sorted(nodes, key=lambda cluster: (-nodes[cluster], cluster))
    for number, cluster in enumerate(by_size):
        reservation = {SHARED: nodes[cluster] * GPUS_PER_NODE}
        department = DEPARTMENTS[number % len(DEPARTMENTS)]
        teams.append({"name": cluster, "parent": department, "reservations": reservation})
    return teams


def _trace(jobs: list[TraceJob], pool: str | None, *, limits: bool) -> bytes:
    """The jobs as the trace of a scenario; in the pool of their virtual cluster, where none is given."""
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["name", "team", "pool", "pods", "gpus", "submitted", "duration", "time_limit"])
    for job in jobs:
        gpus = job.gpus // job.pods
        where = job.cluster if pool is None else pool
        limit = next(f"{each}m" for each in LIMITS_MINUTES if each * 60 >= job.seconds) if limits else ""
        rows.writerow([job.name, job.cluster, where, job.pods, gpus, f"{job.at}s", f"{job.seconds}s", limit])
    return text.getvalue().encode()


class StartPromises:
    """What waiting jobs were promised when they were first seen, and whether their first start kept it."""

    def __init__(self, tolerance_ms: int) -> None:
        self._tolerance_ms = tolerance_ms
        self._seen: set[str] = set()
        self._open: dict[str, int] = {}
        self._at_once = 0
        self._promised = 0
        self._late_ms: list[int] = []

    def look(self, _: Snapshot, plan: Plan, now: int) -> None:
        """Note new promises, and how late those start who had one."""
        for start in plan.starts:
            if start.workload not in self._seen:
                self._at_once += 1
                self._seen.add(start.workload)
            elif (promise := self._open.pop(start.workload, None)) is not None:
                self._late_ms.append(now - promise)
        for wait in plan.waits:
            if wait.workload not in self._seen:
                self._seen.add(wait.workload)
                if wait.eta.latest is not None:
                    self._promised += 1
                    self._open[wait.workload] = wait.eta.latest

    def figures(self) -> dict[str, Any]:
        """Return how many waited, were promised a time, and started by then; those who never start kept nothing."""
        late = sorted(self._late_ms) + [sys.maxsize] * len(self._open)
        if not late:
            return {
                "started_at_once": self._at_once,
                "waited": len(self._seen) - self._at_once,
                "promised": 0,
            }
        return {
            "started_at_once": self._at_once,
            "waited": len(self._seen) - self._at_once,
            "promised": self._promised,
            "kept_to_the_second": round(sum(ms <= 0 for ms in late) / len(late), 4),
            "kept": round(sum(ms <= self._tolerance_ms for ms in late) / len(late), 4),
            "late_seconds_p90": late[len(late) * 90 // 100] / 1000,
            "late_seconds_p95": late[len(late) * 95 // 100] / 1000,
        }


class MemoryUse:
    """What the process holds after each tenth of a window."""

    def __init__(self, start: int, window_ms: int) -> None:
        self.found: list[int] = []
        self._marks = [start + window_ms * tenth // 10 for tenth in range(10, -1, -1)]

    def look(self, at: int) -> None:
        """Look, if it is time to."""
        while self._marks and at >= self._marks[-1]:
            self._marks.pop()
            self.found.append(_resident_mib())


def _resident_mib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    return 0


if __name__ == "__main__":
    sys.exit(main())
