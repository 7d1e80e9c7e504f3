"""What the agent link costs with PostgreSQL: inventories, desired sets, reports, agents that all come at once.

    python -m bench.link                       # starts a PostgreSQL, a Redis and a live process of its own
    python -m bench.link --only life           # inventory, desired, life, agent or storm
    python -m bench.link --only life --profile out

Prints JSON. CPU is that of the process that takes (or sends) the messages; the database's own is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import os
import resource
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rig import deployment, servers

PARTS = ("inventory", "desired", "life", "agent", "storm")


def main() -> int:
    """Run, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--placements", type=int, default=50_000)
    parser.add_argument("--batch", type=int, default=200, help="attempts in one message")
    parser.add_argument("--pods", type=int, default=5_000, help="pods of the measured agent")
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--profile", default="")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        database, redis = stack.enter_context(servers.postgresql()), stack.enter_context(servers.redis())
        os.environ |= servers.environment(database, redis)
        os.environ |= {"DJANGO_SETTINGS_MODULE": "chamber.settings", "CHAMBER_LOG_LEVEL": "ERROR"}
        team = stack.enter_context(deployment.running(database, redis, start=False, organisation=False))
        import django

        django.setup()
        from bench import link_rows

        rows = link_rows.LinkRows()
        profile = cProfile.Profile() if arguments.profile else None
        measured: dict[str, Callable[[], dict[str, Any]]] = {
            "inventory": lambda: inventory(rows, arguments.nodes),
            "desired": lambda: desired(rows, arguments.placements, profile),
            "life": lambda: life(rows, arguments.batch, profile),
            "agent": lambda: asyncio.run(agent(arguments.pods, profile)),
            "storm": lambda: storm(rows, team, arguments.agents),
        }
        chosen = [arguments.only] if arguments.only else PARTS
        figures = {name: measured[name]() for name in chosen}
        if profile is not None:
            profile.dump_stats(arguments.profile)
    json.dump(figures, sys.stdout, indent=2)
    print()
    return 0


class LinkTimes:
    """Times of things that were done, by name, in milliseconds of CPU of this process and by the clock."""

    def __init__(self) -> None:
        self.cpu: dict[str, list[float]] = {}
        self.wall: dict[str, list[float]] = {}
        self.queries: dict[str, int] = {}

    @contextmanager
    def over(self, name: str) -> Iterator[None]:
        """Measure the block."""
        from django.db import connection

        count = [0]

        def counted(execute: Any, *arguments: Any) -> Any:
            count[0] += 1
            return execute(*arguments)

        cpu, wall = time.process_time(), time.perf_counter()
        with connection.execute_wrapper(counted):
            yield
        self.cpu.setdefault(name, []).append((time.process_time() - cpu) * 1000)
        self.wall.setdefault(name, []).append((time.perf_counter() - wall) * 1000)
        self.queries[name] = max(count[0], self.queries.get(name, 0))


def inventory(rows: Any, count: int) -> dict[str, Any]:
    """Return what it takes to take an inventory of `count` nodes with 8 GPUs, new, and then unchanged."""
    from agentlink import protocol
    from agentlink.tests.agents import nodes

    hand = rows.agent("inventory")
    found = nodes(count, gpus=8, labels={"zone": "z1", "rack": "r17", "pool": "main"})
    watch, before = LinkTimes(), _peak_mib()
    for generation, name in enumerate(("first", "second"), start=1):
        texts = [protocol.encode(part) for part in protocol.inventory_in_parts(found, generation=generation)]
        for text in texts:
            with watch.over(name):
                answer = hand.session.take(text)
        _expect(answer.messages == [protocol.Ack(inventory=generation)])
    return {
        "nodes": count,
        "gpus_a_node": 8,
        "parts": len(texts),
        "largest_part_bytes": max(map(len, texts)),
        **{f"{name}_seconds": round(sum(watch.wall[name]) / 1000, 2) for name in ("first", "second")},
        **{f"{name}_cpu_seconds": round(sum(watch.cpu[name]) / 1000, 2) for name in ("first", "second")},
        **{f"{name}_longest_part_ms": round(max(watch.wall[name]), 1) for name in ("first", "second")},
        **{f"{name}_queries_a_part": watch.queries[name] for name in ("first", "second")},
        "peak_grew_by_mib": round(_peak_mib() - before, 1),
    }


def desired(rows: Any, count: int, profile: cProfile.Profile | None) -> dict[str, Any]:
    """Return what it takes to tell an agent of `count` assignments at once, and the agent to understand it."""
    from agentlink import protocol
    from agentlink.agent.core import Core

    cluster, devices = rows.cluster("desired", devices=count)
    rows.admit(cluster, devices)
    hand = rows.agent_of(cluster)
    watch, before = LinkTimes(), _peak_mib()
    if profile is not None:
        profile.enable()
    with watch.over("server"):
        answer = hand.say(hand.hello())
        texts = [protocol.encode(message) for message in answer.messages]
    if profile is not None:
        profile.disable()
    peak = _peak_mib() - before
    del answer
    core = Core()
    core.connected(hand.connection)
    core.observe([])
    with watch.over("agent"):
        for text in texts:
            message = protocol.from_server(text)
            if isinstance(message, protocol.Desired):
                _expect(core.desire(message))
        plan = core.plan()
    _expect(len(plan.creates) == count)
    return {
        "placements": count,
        "parts": len(texts),
        "mib": round(sum(map(len, texts)) / 2**20, 1),
        "largest_part_bytes": max(map(len, texts)),
        "server_seconds": round(watch.wall["server"][0] / 1000, 2),
        "queries": watch.queries["server"],
        "agent_seconds": round(watch.wall["agent"][0] / 1000, 2),
        **{f"{name}_cpu_seconds": round(watch.cpu[name][0] / 1000, 2) for name in ("server", "agent")},
        "server_peak_grew_by_mib": round(peak, 1),
    }


def life(rows: Any, batch: int, profile: cProfile.Profile | None, rounds: int = 6) -> dict[str, Any]:
    """Return what each message about `batch` attempts costs the server, from their placement to their release."""
    from agentlink import protocol
    from agentlink.protocol import ReportedPhase
    from agentlink.tests.agents import report

    cluster, devices = rows.cluster("life", devices=batch)
    hand = rows.agent_of(cluster)
    hand.say(hand.hello())
    watch = LinkTimes()
    for turn in range(rounds):
        if profile is not None and turn:
            profile.enable()
        admitted, items = rows.admit_only(cluster, devices)
        with watch.over("assign"):
            rows.assign(items)
        with watch.over("desired"):
            told = [protocol.encode(message) for message in hand.session.news().messages]
        _expect(len(told) >= 1)
        for sequence, phase in enumerate(
            (ReportedPhase.STARTING, ReportedPhase.RUNNING, ReportedPhase.SUCCEEDED), start=1
        ):
            reports = [report(attempt, phase, sequence) for attempt in admitted]
            texts = [protocol.encode(message) for message in protocol.observed_in_parts(reports)]
            with watch.over(phase.value):
                answers = [hand.session.take(text) for text in texts]
                [protocol.encode(message) for answer in answers for message in answer.messages]
        if profile is not None:
            profile.disable()
    each = {
        name: round(statistics.median(times[1:]) / batch, 3) for name, times in watch.cpu.items()
    }  # the first round prepares statements
    return {
        "attempts_a_message": batch,
        "cpu_ms_a_workload": {**each, "sum": round(sum(each.values()), 3)},
        "wall_ms_a_workload": {
            name: round(statistics.median(times[1:]) / batch, 3) for name, times in watch.wall.items()
        },
        "queries_a_message": watch.queries,
        "note": "reports include what workloads.lifecycle writes",
    }


async def agent(pods: int, profile: cProfile.Profile | None) -> dict[str, Any]:
    """Return what an agent costs in which `pods` start, run and end, and what one more costs among them."""
    from agentlink.agent.core import Core

    now = [1_700_000_000.0]
    cluster, core = _simulated(pods, now), Core()
    connection = uuid.uuid4()
    core.connected(connection)
    work = _assignments(pods + 1)
    seen = -1

    async def turn() -> int:
        nonlocal seen
        seen, observed = await cluster.observe(seen)
        core.observe(observed)
        plan = core.plan()
        for create in plan.creates:
            await cluster.create(create.assignment, create.pods)
        for attempt in plan.forgets:
            await cluster.forget(attempt)
        core.acknowledge(_ack(plan.reports))
        return len(plan.reports)

    if profile is not None:
        profile.enable()
    began = time.process_time()
    core.desire(_full(connection, work[:pods]))
    reported = 0
    for _ in range(8):
        reported += await turn()
        now[0] += 0.3
    all_of_them = time.process_time() - began
    began = time.process_time()
    core.desire(_delta(connection, work[pods:]))
    for _ in range(4):
        await turn()
        now[0] += 0.3
    one_more = time.process_time() - began
    if profile is not None:
        profile.disable()
    _expect(reported >= pods)
    return {
        "pods": pods,
        "reports": reported,
        "cpu_ms_a_pod": round(all_of_them * 1000 / pods, 3),
        "one_more_among_them_cpu_ms": round(one_more * 1000, 2),
    }


def storm(rows: Any, team: deployment.Deployment, agents: int, assigned: int = 50) -> dict[str, Any]:
    """Return how long it takes until agents that all connect at once each have their full set."""
    secrets = []
    for number in range(agents):
        cluster, devices = rows.cluster(f"storm-{number}", devices=assigned)
        rows.admit(cluster, devices)
        secrets.append(rows.secret(cluster))
    live = team.services["live"]
    live.start(wait=False)
    live.wait_for("/livez")
    began, cpu = time.perf_counter(), _cpu_seconds(live.pid)
    waits = asyncio.run(_all_say_hello(live.url, secrets))
    took, cpu = time.perf_counter() - began, _cpu_seconds(live.pid) - cpu
    resident = _resident_mib(live.pid)
    live.stop()
    return {
        "agents": agents,
        "assignments_each": assigned,
        "seconds_until_all_have_their_set": round(took, 2),
        "p50_seconds": round(statistics.median(waits), 2),
        "live_process_cpu_seconds": round(cpu, 2),
        "live_process_resident_mib": resident,
    }


async def _all_say_hello(url: str, secrets: Sequence[str]) -> list[float]:
    from agentlink import protocol
    from agentlink.agent.link import open_websocket
    from agentlink.protocol import Desired, Hello
    from agentlink.tests.agents import nodes

    found = nodes(10, gpus=8)
    began = time.perf_counter()

    async def one(secret: str) -> float:
        connection = uuid.uuid4()
        hello = Hello(connection=connection, agent_version="1", cluster_uid="b", nodes=10, gpus=80)
        async with open_websocket(url, secret) as link:
            await link.send([hello, *protocol.inventory_in_parts(found, generation=1)])
            while True:
                message = await link.receive()
                if isinstance(message, Desired) and message.last and message.base is None:
                    return time.perf_counter() - began

    return await asyncio.gather(*(one(secret) for secret in secrets))


def _simulated(pods: int, now: list[float]) -> Any:
    from agentlink.agent.backends.simulated import SimulatedCluster
    from agentlink.tests.agents import nodes

    return SimulatedCluster(nodes(pods // 8 + 1, gpus=8), clock=lambda: now[0])


def _assignments(count: int) -> list[Any]:
    from agentlink.protocol import AssignedPod, AssignedShare, DesiredAttempt

    return [
        DesiredAttempt(
            workload=uuid.UUID(int=number + 1), slug=f"w{number}", attempt=uuid.UUID(int=10**9 + number), number=1,
            let_go=True, image="registry.example/bench:1", command=("sleep", "1"), grace_seconds=5,
            pods=(AssignedPod(
                index=0, node=f"n{number // 8 + 1}", devices=(AssignedShare(index=number % 8, share_milli=1000),)
            ),),
        )
        for number in range(count)
    ]  # fmt: skip


def _full(connection: uuid.UUID, work: Sequence[Any]) -> Any:
    from agentlink.protocol import Desired

    return Desired(connection=connection, generation=1, base=None, part=0, last=True, assignments=tuple(work))


def _delta(connection: uuid.UUID, work: Sequence[Any]) -> Any:
    from agentlink.protocol import Desired

    return Desired(connection=connection, generation=2, base=1, part=0, last=True, assignments=tuple(work))


def _ack(reports: Sequence[Any]) -> Any:
    from agentlink.protocol import Ack, Taken

    return Ack(reports=tuple(Taken(attempt=each.attempt, sequence=each.sequence) for each in reports))


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith("VmRSS"))
    return round(int(line.split()[1]) / 1024, 1)


def _expect(holds: bool) -> None:
    if not holds:
        sys.exit("What was measured did not do what it should: the figures would mean nothing.")


if __name__ == "__main__":
    sys.exit(main())
