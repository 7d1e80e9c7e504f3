"""What an array of 10,000 costs, beside as many single workloads: submitting it, cycles, the list and its page.

    python -m bench.arrays                 # on a PostgreSQL and a Redis of its own
    python -m bench.arrays --sqlite        # on SQLite, as the embedded default

A cycle after it was submitted reads and decides on all members anew; one after that looks again. Prints JSON; times in
milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from rig import servers
from rig.deployment import NO_LIMITS

ASKED = {"team": "team-0001", "image": "registry.example/train:1", "priority": 10, "gpus": 8}
MANY = 1000
"""Single workloads of one request."""


def main() -> int:
    """Run, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale", type=float, default=0.02)
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=40)
    parser.add_argument("--sqlite", action="store_true")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        os.environ |= NO_LIMITS | {
            "DJANGO_SETTINGS_MODULE": "chamber.settings",
            "CHAMBER_LOG_LEVEL": "WARNING",
        }
        if arguments.sqlite:
            os.environ["CHAMBER_DATA"] = stack.enter_context(tempfile.TemporaryDirectory())
        else:
            started = stack.enter_context(servers.postgresql()), stack.enter_context(servers.redis())
            os.environ |= servers.environment(*started)
        print(json.dumps(run(arguments), indent=2))
    return 0


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fill the tables, submit an array and as many single workloads, and measure what follows."""
    import django

    django.setup()
    from django.core.management import call_command

    from bench.pages import reader
    from bench.tables import TableWriter
    from scheduling.cycle.cycle import run_cycle
    from teams.usual_classes import make_usual_classes
    from workloads.models import Workload, WorkloadArray

    call_command("migrate", verbosity=0)
    TableWriter(arguments.scale, 1, 0, {}).fill()
    make_usual_classes()
    client, submit = reader("org-admin", ""), _submit(arguments.members)
    run_cycle()
    found: dict[str, Any] = {
        "database": "sqlite" if arguments.sqlite else "postgresql",
        "members": arguments.members,
    }
    ways: dict[str, Callable[[], None]] = {
        "single": lambda: submit(arguments.members, max_parallel=None),
        "array": lambda: submit(1, max_parallel=None),
        "array, 100 at once": lambda: submit(1, max_parallel=100),
    }
    for name, way in ways.items():
        took = _milliseconds(way)
        found[name] = {"submit": took, "cycle": _milliseconds(run_cycle), "next_cycle": _cycles(run_cycle)}
        if name != "single":
            array = WorkloadArray.objects.latest("submitted_at")
            pages = {"list": "/workloads/", "array": f"/workloads/arrays/{array.slug}/"}
            found[name] |= {page: _page(client, path, arguments.times) for page, path in pages.items()}
        found[name]["cancel"] = _milliseconds(_cancel)
        Workload.objects.filter(name="sweep").update(name="over")
        run_cycle()
    return found


def _submit(members: int) -> Callable[..., None]:
    """Return what submits one array of all, or so many single workloads."""
    from chamber.models import User
    from teams.actors import Actor, Via
    from workloads.requests import SubmissionRequest
    from workloads.submission import submit_all

    by = Actor.person(User.objects.get(username="org-admin"), Via.API)

    def submit(singly: int, *, max_parallel: int | None) -> None:
        if singly == 1:
            asked = {**ASKED, "name": "sweep", "array": {"range": members}, "max_parallel": max_parallel}
            submit_all(by=by, requests=[SubmissionRequest.parse(asked)])
            return
        one = SubmissionRequest.parse({**ASKED, "name": "sweep"})
        for _ in range(0, singly, MANY):
            submit_all(by=by, requests=[one] * MANY)

    return submit


def _cancel() -> None:
    """End all that was submitted."""
    from teams.actors import Actor
    from workloads import actions
    from workloads.models import Workload

    ids = list(Workload.objects.open().filter(name="sweep").values_list("pk", flat=True))
    actions.cancel_all(by=Actor.system("bench"), ids=ids)


def _milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return round((time.perf_counter() - began) * 1000, 1)


def _cycles(cycle: Callable[[], object]) -> float:
    """Return the median of some cycles that find nothing new."""
    return statistics.median(_milliseconds(cycle) for _ in range(5))


def _page(client: Any, path: str, times: int) -> dict[str, float]:
    """Return how long a page takes on the server, and how much of that this process worked."""
    client.get(path)
    took, worked = [], []
    for _ in range(times):
        busy = time.process_time()
        took.append(_milliseconds(lambda: client.get(path)))
        worked.append((time.process_time() - busy) * 1000)
    took.sort()
    return {
        "median": round(statistics.median(took), 1),
        "p95": took[int(len(took) * 0.95)],
        "cpu": round(statistics.median(worked), 1),
    }


if __name__ == "__main__":
    sys.exit(main())
