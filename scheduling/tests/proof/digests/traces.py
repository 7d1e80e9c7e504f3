"""Real clusters' traces on a state that is kept: jobs of Philly over time, pods of openb until the cluster is full.

Of most plans only the decisions are looked at, as in a worker; of some all that they tell.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from math import ceil
from pathlib import Path
from random import Random

from scheduling.engine import (
    Changes,
    DeviceInfo,
    ElasticPreemption,
    GpuShare,
    NodeInfo,
    OpenStatus,
    Plan,
    Policy,
    PoolInfo,
    Queueing,
    Snapshot,
    State,
    TeamInfo,
    TeamShare,
    TypicalRequest,
    WorkloadInfo,
    decide,
)
from scheduling.tests.engine.build import MINUTE, NOW

Moment = tuple[str, Plan, bool]
"""When a plan was made, the plan, and whether all of it is looked at."""

SECOND = 1_000
GPUS_PER_NODE = 8
LIMITS_MINUTES = (15, 60, 240, 720, 1440, 2880, 7 * 1440, 14 * 1440, 90 * 1440)
DEPARTMENTS = ("research", "products", "platform")
INTERVAL = 30 * SECOND
LOOKED_AT_EVERY = 25
"""Of so many plans one is looked at as a whole."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Some days of the Philly trace, on a part of its nodes: all in one pool (``shared``) where each virtual cluster is
    guaranteed its nodes, or a pool for each; ``limits``: jobs have the shortest usual time limit that they keep."""

    since: str
    days: int
    part: float
    shared: bool = True
    limits: bool = True
    queueing: Queueing = Queueing.BACKFILL
    elastic: ElasticPreemption = ElasticPreemption.FAIR_SHARE
    most_cycles: int = 2_500


SEGMENTS = {
    "shared-october": Segment("2017-10-09", 4, 0.1),
    "shared-november": Segment("2017-11-06", 4, 0.12, elastic=ElasticPreemption.PRIORITY),
    "shared-unlimited": Segment("2017-10-23", 3, 0.15, limits=False),
    "shared-best-effort": Segment("2017-12-04", 3, 0.08, queueing=Queueing.BEST_EFFORT_FIFO),
    "given-strict": Segment("2017-10-16", 4, 0.3, shared=False, queueing=Queueing.STRICT_FIFO),
    "given-backfill": Segment("2017-11-13", 4, 0.3, shared=False, elastic=ElasticPreemption.NEVER),
}


@dataclass(frozen=True, slots=True)
class Job:
    """A job of the trace: when it is submitted, and for how long it runs, in milliseconds."""

    name: str
    cluster: str
    at: int
    gpus: int
    length: int

    @property
    def pods(self) -> int:
        """On how many nodes it runs, with as many GPUs on each."""
        return next(n for n in range(ceil(self.gpus / GPUS_PER_NODE), self.gpus + 1) if self.gpus % n == 0)


def philly(folder: Path, segment: Segment) -> Iterator[Moment]:
    """The plans of a segment, in order."""
    jobs = list(_jobs(folder / "philly_jobs.csv.gz", segment))
    nodes = {cluster: max(1, round(count * segment.part)) for cluster, count in _counts(folder, jobs).items()}
    yield from _Player(_organisation(segment, nodes), segment, jobs).run()


def _jobs(path: Path, segment: Segment) -> Iterator[Job]:
    """The jobs that are submitted in the segment, in order."""
    first = datetime.fromisoformat(segment.since).replace(tzinfo=UTC)
    last = first + timedelta(days=segment.days)
    with gzip.open(path, "rt") as lines:
        for row in csv.DictReader(lines):
            at = datetime.fromisoformat(row["submit_time"]).replace(tzinfo=UTC)
            if first <= at < last:
                since = round((at - first).total_seconds()) * SECOND
                name = f"job-{row['job_id']}"
                yield Job(name, row["vc"], NOW + since, int(row["num_gpus"]), int(row["duration_s"]) * SECOND)


def _counts(folder: Path, jobs: list[Job]) -> dict[str, int]:
    """How many nodes each virtual cluster has; where none are listed, as many as its largest job needs."""
    found: dict[str, int] = defaultdict(int)
    for job in jobs:
        found[job.cluster] = max(found[job.cluster], job.pods)
    with (folder / "philly_vc_nodes.csv").open(newline="") as lines:
        listed = {row["vc"]: int(row["node num"]) for row in csv.DictReader(lines)}
    return dict(sorted((found | listed).items()))


def _organisation(segment: Segment, nodes: dict[str, int]) -> Snapshot:
    """The pools, teams and nodes of a segment, and no work."""
    policy = Policy(queueing=segment.queueing, elastic_preemption=segment.elastic)
    names = ["shared"] if segment.shared else list(nodes)
    devices = tuple(DeviceInfo(index) for index in range(GPUS_PER_NODE))
    machines = tuple(
        NodeInfo(
            f"{cluster}-{at:02d}", f"{cluster}-{at:02d}", "shared" if segment.shared else cluster, devices
        )
        for cluster, count in nodes.items()
        for at in range(count)
    )
    teams = [TeamInfo("company", "company")]
    teams += [TeamInfo(name, name, "company") for name in DEPARTMENTS]
    for at, (cluster, count) in enumerate(nodes.items()):
        shares = (TeamShare("shared", count * GPUS_PER_NODE * 1000),) if segment.shared else ()
        teams.append(TeamInfo(cluster, cluster, DEPARTMENTS[at % len(DEPARTMENTS)], shares=shares))
    return Snapshot(tuple(PoolInfo(name, name, policy) for name in names), tuple(teams), machines, ())


class _Player:
    """One segment as it is played: plans are carried out at once, and jobs end after their time."""

    def __init__(self, organisation: Snapshot, segment: Segment, jobs: list[Job]) -> None:
        self._segment = segment
        self._jobs = {job.name: job for job in jobs}
        self._arrivals = [(job.at, job.name) for job in reversed(jobs)]
        self._state = State.of(organisation)
        self._rows: dict[str, WorkloadInfo] = {}
        self._ends: list[tuple[int, str, int]] = []
        self._attempts: Counter[str] = Counter()
        self._changed: dict[str, WorkloadInfo] = {}
        self._gone: set[str] = set()

    def run(self) -> Iterator[Moment]:
        """Play it; yields each plan before it is carried out."""
        at, again = NOW, False
        for number in range(self._segment.most_cycles):
            due = [self._arrivals[-1][0]] if self._arrivals else []
            due += [self._ends[0][0]] if self._ends else []
            if not (due or again):
                return
            at = at + INTERVAL if again else max(at + INTERVAL, min(due))
            self._happen(at)
            self._state.apply(Changes(tuple(self._changed.values()), tuple(sorted(self._gone))))
            self._changed.clear()
            self._gone.clear()
            plan = decide(self._state, at)
            yield f"{(at - NOW) // MINUTE} min", plan, number % LOOKED_AT_EVERY == 0
            self._carry_out(plan, at)
            again = bool(plan.preemptions or plan.shrinks)

    def _happen(self, at: int) -> None:
        """Let jobs end and come."""
        while self._ends and self._ends[0][0] <= at:
            _, name, attempt = heappop(self._ends)
            if self._attempts[name] == attempt and name in self._rows:
                del self._rows[name]
                self._changed.pop(name, None)
                self._gone.add(name)
        while self._arrivals and self._arrivals[-1][0] <= at:
            job = self._jobs[self._arrivals.pop()[1]]
            limit = next(
                each for each in LIMITS_MINUTES if each * MINUTE >= min(job.length, 90 * 1440 * MINUTE)
            )
            self._put(
                WorkloadInfo(
                    job.name,
                    job.name,
                    job.cluster,
                    GpuShare(job.gpus // job.pods * 1000),
                    pods=job.pods,
                    min_pods=job.pods,
                    pools=("shared" if self._segment.shared else job.cluster,),
                    submitted_at=job.at,
                    time_limit_ms=limit * MINUTE if self._segment.limits else None,
                )
            )

    def _put(self, row: WorkloadInfo) -> None:
        self._rows[row.id] = self._changed[row.id] = row

    def _carry_out(self, plan: Plan, at: int) -> None:
        for gone in plan.preemptions:
            row = self._rows[gone.workload]
            self._attempts[row.id] += 1
            self._put(
                replace(
                    row,
                    status=OpenStatus.PENDING,
                    pool=None,
                    placements=(),
                    started_at=None,
                    preemptions_24h=row.preemptions_24h + 1,
                )
            )
        for start in plan.starts:
            row = self._rows[start.workload]
            self._put(
                replace(
                    row,
                    status=OpenStatus.RUNNING,
                    pool=start.pool,
                    placements=start.placements,
                    started_at=at,
                )
            )
            heappush(self._ends, (at + self._jobs[row.id].length, row.id, self._attempts[row.id]))


# --- openb --------------------------------------------------------------------------------------------------------

LISTS = ("default", "gpushare40", "multigpu30", "gpuspec20")
OVERLOAD = 1.3
TOGETHER = 40
"""So many pods are submitted at once."""


def openb(folder: Path, name: str) -> Iterator[Moment]:
    """The plans by which pods of a list, in random order, are placed until they have asked for 130 % of the GPUs; those
    that find no place are dropped."""
    nodes = _nodes(folder / "openb_node_list_gpu_node.csv")
    listed = _requests(folder / f"openb_pod_list_{name}.csv")
    policy = Policy(queueing=Queueing.BEST_EFFORT_FIFO, elastic_preemption=ElasticPreemption.NEVER)
    pool = PoolInfo("openb", "openb", policy, recent=_typical(listed))
    state = State.of(Snapshot((pool,), (TeamInfo("all", "all"),), nodes, ()))
    arrivals = list(_arrivals(listed, OVERLOAD * 1000 * sum(len(node.devices) for node in nodes)))
    batches = [arrivals[at : at + TOGETHER] for at in range(0, len(arrivals), TOGETHER)]
    for number, batch in enumerate(batches):
        rows = {row.id: row for row in batch}
        state.apply(Changes(tuple(batch)))
        plan = decide(state, NOW)
        yield f"batch {number}", plan, number in (0, len(batches) - 1)
        placed = {start.workload: start for start in plan.starts}
        running = [
            replace(
                rows[id_],
                status=OpenStatus.RUNNING,
                pool="openb",
                placements=start.placements,
                started_at=NOW,
            )
            for id_, start in placed.items()
        ]
        state.apply(Changes(tuple(running), tuple(sorted(rows.keys() - placed.keys()))))


def _nodes(path: Path) -> tuple[NodeInfo, ...]:
    with path.open(newline="") as lines:
        return tuple(
            NodeInfo(
                row["sn"],
                row["sn"],
                "openb",
                tuple(DeviceInfo(index, row["model"]) for index in range(int(row["gpu"]))),
                cpu_milli=int(row["cpu_milli"]),
                memory_mib=int(row["memory_mib"]),
            )
            for row in csv.DictReader(lines)
        )


def _requests(path: Path) -> list[WorkloadInfo]:
    """The pods of a list, as workloads that wait."""
    with path.open(newline="") as lines:
        return [
            WorkloadInfo(
                row["name"],
                row["name"],
                "all",
                GpuShare(int(row["num_gpu"]) * int(row["gpu_milli"])),
                cpu_milli=int(row["cpu_milli"]),
                memory_mib=int(row["memory_mib"]),
                gpu_types=tuple(sorted(filter(None, set((row.get("gpu_spec") or "").split("|"))))),
            )
            for row in csv.DictReader(lines)
        ]


def _milli(row: WorkloadInfo) -> int:
    return row.request.milli if isinstance(row.request, GpuShare) else 0


def _typical(rows: list[WorkloadInfo]) -> tuple[TypicalRequest, ...]:
    """What is often asked for: the pods with GPUs, by what they ask."""
    counted = Counter(
        (_milli(row), row.cpu_milli, row.memory_mib, row.gpu_types) for row in rows if _milli(row)
    )
    return tuple(
        TypicalRequest(milli, float(count), cpu, memory, types)
        for (milli, cpu, memory, types), count in sorted(counted.items())
    )


def _arrivals(listed: list[WorkloadInfo], goal_milli: float) -> Iterator[WorkloadInfo]:
    """All pods in random order, then more drawn from them, until they ask for so much."""
    chance = Random(42)
    queue = chance.sample(listed, len(listed))[::-1]
    asked = number = 0
    while asked < goal_milli:
        row = queue.pop() if queue else chance.choice(listed)
        asked += _milli(row)
        yield replace(row, id=f"{number:05d}-{row.id}", submitted_at=NOW + number)
        number += 1
