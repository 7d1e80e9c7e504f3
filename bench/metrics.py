"""How long a scrape of /metrics takes with PostgreSQL: 100,000 workloads, 2,000 teams, 1,000 nodes of 8 GPUs.

    python -m bench.metrics                 # 6,000 running, 10,000 pending, the rest ended
    python -m bench.metrics --nodes 10000   # of a large fleet
    python -m bench.metrics --profile out   # and a profile of one scrape for snakeviz or pstats

Starts a PostgreSQL and a Redis of its own, writes rows as cycles would leave them, and scrapes. Prints JSON; times in
milliseconds. `cpu` is processor time of the scraped process and of the database's: what a machine that is busy with
other things leaves comparable.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import random
import statistics
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from rig import servers

TEAMS, GPUS, RUNNING, PENDING = 2_000, 8, 6_000, 10_000
REASONS = ("waiting-for-gpus", "behind-reservation", "waiting-for-reservation", "fragmented", "held")
BATCH = 2_000


class MetricRows:
    """An organisation, its nodes and its workloads."""

    def __init__(self, seed: int, workloads: int, nodes: int) -> None:
        from django.utils import timezone

        from agentlink.models import Cluster
        from chamber.models import User
        from teams.models import Pool

        self.chance, self.now, self.wanted = random.Random(seed), timezone.now(), workloads
        self.nodes = nodes
        self.owner = User.objects.create(username="bench")
        self.pool = Pool.objects.create(slug="main", name="main", clusters=["bench"])
        self.cluster = Cluster.objects.create(name="bench", connected=True, last_seen_at=self.now)
        self.teams: list[Any] = []

    def write(self) -> None:
        """Write everything."""
        from django.db import connection, transaction

        with transaction.atomic():
            self._teams()
            self._nodes()
            self._workloads()
            self._cycle()
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")

    def _teams(self) -> None:
        """Write a tree of five levels below the root."""
        from teams.models import Share, Team

        for number in range(TEAMS):
            parent = self.teams[self.chance.randrange(max(1, number // 4))] if number else None
            team = Team(slug=f"team-{number:04d}", name=f"Team {number}", parent=parent)
            team.depth = 0 if parent is None else parent.depth + 1
            team.path = Team.path_under(parent, team.pk)
            self.teams.append(team)
        Team.objects.bulk_create(self.teams, batch_size=BATCH)
        Share.objects.bulk_create(Share(team=team, pool=self.pool) for team in self.teams)

    def _nodes(self) -> None:
        from agentlink.models import Device, Node

        nodes = [
            Node(cluster=self.cluster, pool=self.pool, name=f"n{number:05d}") for number in range(self.nodes)
        ]
        Node.objects.bulk_create(nodes, batch_size=BATCH)
        taken = (0, 250, 1000, 1000, 1000)
        Device.objects.bulk_create(
            (
                Device(node=node, index=index, allocated_milli=milli, occupied_milli=milli)
                for node in nodes
                for index in range(GPUS)
                for milli in [self.chance.choice(taken)]
            ),
            batch_size=BATCH,
        )

    def _workloads(self) -> None:
        from chamber.ids import new_id
        from workloads.models import Attempt, Phase, Status, Workload

        ended = self.wanted - RUNNING - PENDING
        running = [self._workload(Status.RUNNING, attempt_id=new_id()) for _ in range(RUNNING)]
        pending = (
            self._workload(Status.PENDING, reason_code=self.chance.choice(REASONS)) for _ in range(PENDING)
        )
        over = (self._workload(Status.COMPLETED, finished_at=self.now) for _ in range(ended))
        times = {"queued_at": self.now, "starting_at": self.now, "running_at": self.now}
        Workload.objects.bulk_create((*running, *pending, *over), batch_size=BATCH)
        Attempt.objects.bulk_create(
            (
                Attempt(
                    id=row.attempt_id,
                    workload=row,
                    number=1,
                    pool=self.pool,
                    phase=Phase.RUNNING,
                    gpus_milli=2_000,
                    allocation=self._allocation(row.team),
                    **times,
                )
                for row in running
            ),
            batch_size=BATCH,
        )

    def _workload(self, status: str, **fields: Any) -> Any:
        from workloads.models import Workload

        name = f"w{self.chance.getrandbits(60):015x}"
        at = self.now - timedelta(seconds=self.chance.randrange(86_400))
        team = self.chance.choice(self.teams)
        common = {
            "owner": self.owner,
            "submitted_at": at,
            "status_since": at,
            "gpu_milli": 1_000,
            "image": "i",
        }
        return Workload(slug=name, name=name, team=team, status=status, **common, **fields)

    def _allocation(self, team: Any) -> list[dict[str, Any]]:
        """Return a charge to the team or one above it, or none, or both."""
        charged = {"team": str(self.chance.choice(team.ancestor_ids())), "milli": 1_000}
        burst = {"team": None, "milli": 1_000}
        return self.chance.choice([[charged], [burst], [charged, burst]])

    def _cycle(self) -> None:
        """Write a cycle as if it had decided all this."""
        from dataclasses import asdict

        from scheduling import engine
        from scheduling.models import Cycle

        pool = str(self.pool.pk)
        teams = [
            engine.TeamFigures(str(team.pk), pool, 4_000, None, 3_000, 0, 9_000, 5_000) for team in self.teams
        ]
        pools = [
            engine.PoolFigures(
                pool, self.nodes * GPUS * 1_000, 7_000_000, 1_000_000, oversubscribed=False, fragmentation=0.1
            )
        ]
        Cycle.objects.create(
            number=1,
            began_at=self.now,
            took_ms=400,
            decide_ms=200,
            ran_by="bench",
            figures={"pools": [asdict(each) for each in pools], "teams": [asdict(each) for each in teams]},
            plan=b"plan",
            snapshot=b"snapshot",
            decisions=0,
        )


def scraped(times: int, profile_to: str | None) -> dict[str, Any]:
    """Scrape again and again; return the figures."""
    from django.db import connection
    from django.test import RequestFactory
    from django.test.utils import CaptureQueriesContext

    from chamber.metrics.view import metrics

    request = RequestFactory().get("/metrics")
    with CaptureQueriesContext(connection) as queries:
        answer = metrics(request)
    took, cpu = [], []
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend: int = cursor.fetchone()[0]
    backend_began = _cpu_seconds(backend)
    for _ in range(times):
        began, cpu_began = time.perf_counter(), time.process_time()
        metrics(request)
        took.append(time.perf_counter() - began)
        cpu.append(time.process_time() - cpu_began)
    backend_cpu = (_cpu_seconds(backend) - backend_began) / times
    if profile_to:
        profile = cProfile.Profile()
        profile.runcall(metrics, request)
        profile.dump_stats(profile_to)
    return {
        "median": _ms(statistics.median(took)),
        "p95": _ms(statistics.quantiles(took, n=20)[-1]),
        "least": _ms(min(took)),
        "cpu_median": _ms(statistics.median(cpu)),
        "cpu_p95": _ms(statistics.quantiles(cpu, n=20)[-1]),
        "cpu_database_mean": _ms(backend_cpu),
        "queries": len(queries),
        "samples": sum(not line.startswith(b"#") for line in answer.content.splitlines()),
        "bytes": len(answer.content),
    }


def _cpu_seconds(process: int) -> float:
    """Return how much of the processor a process of this machine has had so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def main() -> None:
    """Read the arguments, start the servers, print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workloads", type=int, default=100_000, help="all of them, ended ones too")
    parser.add_argument("--nodes", type=int, default=1_000, help="of 8 GPUs each")
    parser.add_argument("--times", type=int, default=40, help="how often it scrapes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", help="write a profile of one scrape to this file")
    arguments = parser.parse_args()
    with servers.postgresql() as database, servers.redis() as bell:
        os.environ.update(servers.environment(database, bell))
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chamber.settings")
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        MetricRows(arguments.seed, arguments.workloads, arguments.nodes).write()
        shape = {"teams": TEAMS, "devices": arguments.nodes * GPUS, "workloads": arguments.workloads}
        shape |= {"running": RUNNING, "pending": PENDING}
        print(
            json.dumps({"work": shape, "milliseconds": scraped(arguments.times, arguments.profile)}, indent=2)
        )


if __name__ == "__main__":
    main()
