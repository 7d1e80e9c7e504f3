"""How long the pages take on the server, with PostgreSQL, 100,000 workloads and 2,000 teams.

    python -m bench.pages                 # 1,000 nodes of 8 GPUs, 6,000 running, 10,000 pending, the rest ended
    python -m bench.pages --nodes 10000   # with 9,000 nodes more, which are idle
    python -m bench.pages --profile out   # and a profile of each page, out-<page>, for snakeviz or pstats

Starts a PostgreSQL and a Redis of its own, or takes those of CHAMBER_DATABASE and CHAMBER_REDIS and fills the tables
only where they are empty. Runs one cycle so that the pages have something to say, and asks for each
page through the whole stack of Django, as an admin of the organisation and as a researcher of one team. Prints JSON;
times are the server's own, in milliseconds.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import random
import statistics
import sys
import time
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

from rig import servers
from rig.deployment import NO_LIMITS

PAGES = {
    "overview": "/",
    "workloads": "/workloads/",
    "workloads of a team": "/workloads/?team={team}",
    "workloads that wait": "/workloads/?status=pending",
    "workloads by text": "/workloads/?q=w0012345",
    "workloads by a word": "/workloads/?q=w00",
    "teams": "/teams/",
    "figures of teams": "/scheduling/team-figures/",
    "queue": "/queue/",
    "pools": "/pools/",
    "pool": "/pools/{pool}/",
    "workload": "/workloads/{running}/",
    "workload that waits": "/workloads/{pending}/",
    "why it waits": "/scheduling/explain/{pending}/",
    "submit": "/workloads/submit/",
    "team": "/teams/{team}/",
    "new team": "/teams/new/",
    "edit teams": "/teams/edit/",
    "cluster": "/clusters/{cluster}/",
    "audit trail": "/settings/audit/",
    "API teams": "/api/v1/teams/",
    "API pools": "/api/v1/pools/",
    "API nodes": "/api/v1/nodes/",
    "API workloads": "/api/v1/workloads/?limit=500",
    "API figures of teams": "/api/v1/teams-figures/",
}


def main() -> int:
    """Run, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--workloads", type=int, default=100_000)
    parser.add_argument("--teams", type=int, default=2_000)
    parser.add_argument("--nodes", type=int, default=0, help="idle ones are added until there are so many")
    parser.add_argument("--times", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", default="")
    parser.add_argument("--only", default="", help="a page's name")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        os.environ |= NO_LIMITS  # a reader asks for a thousand pages here
        if "CHAMBER_DATABASE" not in os.environ:
            started = stack.enter_context(servers.postgresql()), stack.enter_context(servers.redis())
            os.environ |= servers.environment(*started)
        print(json.dumps(run(arguments), indent=2))
    return 0


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fill the tables and ask for each page."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chamber.settings")
    django.setup()
    from django.core.management import call_command

    from bench.tables import TableWriter
    from chamber import collecting
    from scheduling.cycle import cycle
    from teams.models import Team

    call_command("migrate", verbosity=0)
    if not Team.objects.exists():
        tables = TableWriter(arguments.scale, arguments.seed, 0, {})
        tables.fill()
        add_teams(tables, arguments.teams)
        add_nodes(tables, arguments.nodes)
        add_ended(tables, arguments.workloads)
        cycle.run_cycle()
    collecting.keep_what_is_loaded()  # as the web part does
    names = _names()
    readers = {"admin": reader("org-admin", ""), "researcher": reader("researcher", names["team"])}
    figures = {
        f"{page} ({who})": _measured(client, path.format(**names), page, who, arguments)
        for page, path in PAGES.items()
        if arguments.only in {"", page}
        for who, client in readers.items()
    }
    return {"shape": _shape(), "pages": figures}


def add_teams(tables: Any, wanted: int) -> None:
    """Write teams below those there are, until there are as many as wanted."""
    from teams.models import Team

    chance, rows = random.Random(1), []
    parents = list(Team.objects.filter(depth__lt=4))
    for number in range(Team.objects.count(), wanted):
        parent = chance.choice(parents)
        row = Team(slug=f"team-{number:04d}", name=f"Team {number}", parent=parent, depth=parent.depth + 1)
        row.path = Team.path_under(parent, row.pk)
        tables.ids[row.slug] = row.pk
        rows.append(row)
    Team.objects.bulk_create(rows)


def add_nodes(tables: Any, wanted: int) -> None:
    """Write idle nodes of 8 GPUs, until there are as many as wanted."""
    from agentlink.models import Device, Node

    nodes = [
        Node(cluster=tables.cluster, pool=tables.pool, name=f"idle-{number:05d}")
        for number in range(wanted - Node.objects.count())
    ]
    Node.objects.bulk_create(nodes, batch_size=2_000)
    devices = (Device(node=node, index=index, gpu_type="h100") for node in nodes for index in range(8))
    Device.objects.bulk_create(devices, batch_size=10_000)


def _shape() -> dict[str, int]:
    from agentlink.models import Device
    from teams.models import Team
    from workloads.models import Status, Workload

    return {
        "teams": Team.objects.count(),
        "devices": Device.objects.count(),
        "workloads": Workload.objects.count(),
        "pending": Workload.objects.filter(status=Status.PENDING).count(),
        "admitted": Workload.objects.filter(attempt__isnull=False).count(),
    }


def add_ended(tables: Any, wanted: int, *, days: int = 90) -> None:
    """Write workloads that have completed within some days, until there are as many as wanted."""
    from django.db import connection
    from django.utils import timezone

    from workloads.models import Status, Workload

    teams = [name for name in tables.ids if name.startswith("team-")]
    chance, now = random.Random(1), timezone.now()
    rows = []
    for number in range(wanted - Workload.objects.count()):
        row = tables._row(
            tables.drawn._pending(number, teams, teams), status=Status.COMPLETED, pool=tables.pool
        )
        row.submitted_at = now - timedelta(seconds=chance.uniform(0, days * 86_400))
        row.finished_at = row.status_since = row.submitted_at + timedelta(minutes=chance.uniform(1, 300))
        rows.append(row)
    Workload.objects.bulk_create(rows, batch_size=2_000)
    tables._submitted(rows)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def _names() -> dict[str, str]:
    from agentlink.models import Cluster
    from teams.models import Pool, Team
    from workloads.models import Status, Workload

    def newest(status: Status) -> str:
        return str(Workload.objects.filter(status=status).latest("submitted_at").slug)

    return {
        "team": Team.objects.filter(slug__startswith="team-").latest("slug").slug,
        "pool": Pool.objects.values_list("slug", flat=True)[0],
        "cluster": Cluster.objects.values_list("name", flat=True)[0],
        "running": newest(Status.RUNNING),
        "pending": newest(Status.PENDING),
    }


def reader(role: str, team: str) -> Any:
    """Return a client that is signed in as somebody with the role on the team (the root where none is named)."""
    from django.test import Client

    from chamber.models import User
    from teams.models import Binding, Team

    user, _ = User.objects.get_or_create(username=role)
    where = Team.objects.get(slug=team) if team else Team.objects.get(depth=0)
    Binding.objects.get_or_create(team=where, user=user, role=role)
    client = Client(SERVER_NAME="localhost")
    client.force_login(user)
    return client


def _measured(client: Any, path: str, page: str, who: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what one page costs; 404 is a page too, where its reader may not see what it is about."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client.get(path)
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(path)
    # Later requests empty what was captured.
    count, slowest = len(queries), max((float(query["time"]) * 1000 for query in queries), default=0.0)
    took, worked = [], []
    for _ in range(arguments.times):
        began, busy = time.perf_counter(), time.process_time()
        client.get(path)
        took.append((time.perf_counter() - began) * 1000)
        worked.append((time.process_time() - busy) * 1000)
    if arguments.profile:
        profile = cProfile.Profile()
        profile.runcall(client.get, path)
        profile.dump_stats(f"{arguments.profile}-{page}-{who}".replace(" ", "_"))
    took.sort()
    return {
        "status": answer.status_code,
        "queries": count,
        "slowest_query_ms": slowest,
        "kilobytes": round(len(answer.content) / 1024),
        "p50_ms": round(statistics.median(took), 1),
        "own_cpu_p50_ms": round(statistics.median(worked), 1),
        "own_cpu_p95_ms": round(sorted(worked)[int(len(worked) * 0.95)], 1),
        "p95_ms": round(took[int(len(took) * 0.95)], 1),
    }


if __name__ == "__main__":
    sys.exit(main())
