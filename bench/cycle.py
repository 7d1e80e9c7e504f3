"""How long one scheduling cycle takes with PostgreSQL: read, decide, write; and where the time goes.

    python -m bench.cycle                   # 1,000 nodes of 8 GPUs, 200 teams, 10,000 pending, 1,000 starts
    python -m bench.cycle --profile out     # and a profile of the last cycle for snakeviz or pstats

Starts a PostgreSQL that syncs to disk and a Redis of its own, writes the organisation of `bench.engine` into it and
runs cycles: the first reads everything anew, each later one after about `--starts` workloads ended and as many were
submitted. A second cycle after each decides little: what it costs to look again. Prints JSON; times in milliseconds.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import re
import resource
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rig import servers

STATEMENT = re.compile(r'^\s*(\w+)\b.*?"?((?:scheduling|workloads|agentlink|teams)_\w+)', re.DOTALL)
ROUND = ("milliseconds", "cpu_milliseconds", "backend_cpu_milliseconds", "told", "decisions", "queries")
STEPS = (
    ("scheduling.cycle.pending_changes", "fingerprint"),
    ("scheduling.cycle.cycle", "_reassign_nodes"),
    ("scheduling.cycle.cycle", "take"),
    ("scheduling.cycle.cycle", "decide"),
    ("scheduling.cycle.cycle", "apply"),
    ("scheduling.cycle.cycle", "complete"),
    ("scheduling.cycle.tell", "tell"),
)
INNER = (
    ("scheduling.cycle.apply", "settle"),
    ("scheduling.cycle.tell", "upkeep"),
    ("scheduling.cycle.tell", "encode_snapshot"),
    ("scheduling.cycle.tell", "signature"),
    ("scheduling.explain.stored_plan", "pack"),
    ("workloads.lifecycle", "admit_many"),
    ("workloads.lifecycle", "set_reasons"),
    ("workloads.lifecycle", "recharge"),
    ("agentlink.assignments", "assign_many"),
)


class Clocked:
    """Adds up the time spent in functions and statements while it is installed."""

    def __init__(self) -> None:
        self.steps: dict[str, float] = defaultdict(float)
        self.cpu: dict[str, float] = defaultdict(float)
        self.statements: dict[str, float] = defaultdict(float)
        self.counts: Counter[str] = Counter()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Measure inside the block."""
        from django.db import connection

        undo = [self._wrap(module, name) for module, name in (*STEPS, *INNER)]
        wrapper: Any = connection
        commit = wrapper._commit
        wrapper._commit = self._timed("COMMIT", commit, self.statements)
        try:
            with connection.execute_wrapper(self._execute):
                yield
        finally:
            wrapper._commit = commit
            for put_back in undo:
                put_back()

    def _wrap(self, module: str, name: str) -> Callable[[], None]:
        holder = sys.modules[module]
        original = getattr(holder, name)
        setattr(holder, name, self._timed(name.strip("_"), original, self.steps))
        return lambda: setattr(holder, name, original)

    def _timed(self, label: str, call: Callable[..., Any], into: dict[str, float]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            cpu, began = time.thread_time(), time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                into[label] += time.perf_counter() - began
                self.cpu[label] += time.thread_time() - cpu

        return timed

    def _execute(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        found = STATEMENT.match(sql)
        label = f"{found[1]} {found[2]}" if found else sql[:40]
        began = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            self.statements[label] += time.perf_counter() - began
            self.counts[label] += 1


def measured(profile: cProfile.Profile | None = None) -> dict[str, Any]:
    """Run one cycle as the worker would after a ring; return its figures.

    Its decisions are written when `milliseconds` are over; what people are told of them is written after that.
    """
    from chamber.collecting import without_collecting
    from scheduling.cycle import cycle, wake_ups

    wake_ups._raise_version()
    clocked = Clocked()
    with clocked.installed(), without_collecting():
        rung = wake_ups.hear()
        times = [Moment.now()]
        if profile is not None:
            profile.enable()
        untold = cycle._one_cycle(rung)
        times.append(Moment.now())
        if untold is not None:
            cycle._tell(untold)
        if profile is not None:
            profile.disable()
        times.append(Moment.now())
    applied = untold.applied if untold is not None else None
    largest = sorted(clocked.statements.items(), key=lambda item: -item[1])
    return {
        **times[0].until(times[1]),
        "told": times[1].until(times[2]),
        "decisions": applied.decisions if applied else 0,
        "queries": sum(clocked.counts.values()),
        "steps": {
            name: {"milliseconds": _ms(seconds), "cpu": _ms(clocked.cpu[name])}
            for name, seconds in clocked.steps.items()
        },
        "statements": {
            name: {"milliseconds": _ms(seconds), "times": clocked.counts[name]}
            for name, seconds in largest
            if seconds >= 0.001
        },
    }


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment by the clock, and what this process and its connection's backend had used of the processor."""

    at: float
    cpu: float
    backend_cpu: float

    @classmethod
    def now(cls) -> Moment:
        """Return this one."""
        from django.db import connection

        connection.ensure_connection()
        text = Path(f"/proc/{connection.connection.info.backend_pid}/stat").read_text()
        user, system = text.rpartition(")")[2].split()[11:13]
        ticks = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        return cls(time.perf_counter(), time.process_time(), ticks)

    def until(self, later: Moment) -> dict[str, float]:
        """Return what passed, in milliseconds."""
        return {
            "milliseconds": _ms(later.at - self.at),
            "cpu_milliseconds": _ms(later.cpu - self.cpu),
            "backend_cpu_milliseconds": _ms(later.backend_cpu - self.backend_cpu),
        }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fill the tables and measure cycles."""
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    from bench.tables import TableWriter
    from scheduling.models import Cycle

    tables = TableWriter(arguments.scale, arguments.seed, arguments.starts, arguments.policy)
    tables.fill()
    first = measured()
    rounds, idle = [], []
    for number in range(arguments.runs):
        idle.append(measured())
        tables.turn_over(arguments.starts)
        last = arguments.profile and number == arguments.runs - 1
        profile = cProfile.Profile() if last else None
        rounds.append(measured(profile))
        if profile is not None:
            profile.dump_stats(arguments.profile)
    newest = Cycle.objects.exclude(snapshot=b"").latest("number")
    return {
        "scale": arguments.scale,
        "seed": arguments.seed,
        "work": shape(),
        "first": first,
        "idle": _middle(idle),
        "rounds": [{key: each[key] for key in ROUND} for each in rounds],
        "median_round": _middle(rounds),
        "stored_bytes": {"plan": len(newest.plan), "snapshot": len(newest.snapshot)},
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def _middle(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    middle = statistics.median_low(each["milliseconds"] for each in rounds)
    return next(each for each in rounds if each["milliseconds"] == middle)


def shape() -> dict[str, Any]:
    """Return what the work was."""
    from agentlink.models import Device, Node, Placement
    from teams.models import Team
    from workloads.models import Status, Workload

    return {
        "nodes": Node.objects.count(),
        "devices": Device.objects.count(),
        "teams": Team.objects.count(),
        "pending": Workload.objects.filter(status=Status.PENDING).count(),
        "admitted": Workload.objects.filter(attempt__isnull=False).count(),
        "placements": Placement.objects.exclude(hold="released").count(),
    }


def main() -> int:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--starts", type=int, default=1000, help="about how many start in each cycle")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--policy", type=json.loads, default={}, help="the pool's, as JSON; the default without"
    )
    parser.add_argument("--profile", default="", help="file for a profile of the last cycle")
    arguments = parser.parse_args()
    with servers.postgresql(durable=True) as database, servers.redis() as bell:
        os.environ |= servers.environment(database, bell) | {"DJANGO_SETTINGS_MODULE": "chamber.settings"}
        print(json.dumps(run(arguments), indent=2))
        from django.db import connections

        connections.close_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
