"""Drive a running server with the openb trace: its nodes as a simulated cluster, its pods as workloads, over the API.

    python -m bench.openb --nodes openb_node_list_gpu_node.csv --pods openb_pod_list_default.csv \
        --url http://127.0.0.1:8000 --username olga --password chamber-demo

Makes a pool and a cluster of its own and a team per quality-of-service class (the user must be an organisation admin),
runs the cluster's agent itself, and submits the first pods that ask for GPUs, in bulk. While they start it reads the
devices over and over: none may be given out beyond itself. Shares are rounded up to quarters. At the end everything is
cancelled, unless `--keep`. The figures are printed as JSON; exit status 1 where a device was ever over its capacity.
One person submits thousands: start the server with CHAMBER_LIMIT_SUBMISSIONS, CHAMBER_LIMIT_OPEN_WORKLOADS,
CHAMBER_LIMIT_TOKEN and CHAMBER_LIMIT_PERSON set to 0.
"""

import argparse
import asyncio
import csv
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from agentlink.agent.backends.simulated import SimulatedCluster
from agentlink.agent.command import nodes_from_csv
from agentlink.agent.runner import run_agent

NAME = "openb"
BATCH = 200
LOOK_EVERY_SECONDS = 5
"""A look reads thousands of devices from the server that is being measured: not all the time."""
AT_ONCE = 20
"""Requests under way together while everything is cancelled."""
SETTLED_SECONDS = 10
"""No start for so long, and nothing under way: whoever still waits does not fit."""


def main() -> int:
    """Run, print the figures, and return the exit status."""
    arguments = _arguments()
    return asyncio.run(_run(arguments))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="address of the server")
    parser.add_argument("--username", default="olga", help="an organisation admin")
    parser.add_argument("--password", default="chamber-demo")
    parser.add_argument(
        "--nodes", type=Path, required=True, help="CSV: sn, cpu_milli, memory_mib, gpu, model"
    )
    parser.add_argument(
        "--pods", type=Path, required=True, help="CSV: name, cpu_milli, num_gpu, gpu_milli, ..."
    )
    parser.add_argument("--count", type=int, default=2000, help="how many pods, of those that ask for GPUs")
    parser.add_argument("--keep", action="store_true", help="leave the workloads running")
    return parser.parse_args()


async def _run(arguments: argparse.Namespace) -> int:
    async with httpx.AsyncClient(base_url=f"{arguments.url}/api/v1/", timeout=120) as api:
        await _sign_in(api, arguments)
        nodes = nodes_from_csv(arguments.nodes.read_text().splitlines())
        nodes = [node.model_copy(update={"labels": {**node.labels, "trace": NAME}}) for node in nodes]
        token = await _make_room(api)
        cluster = SimulatedCluster(nodes, name=NAME)
        agent = asyncio.create_task(run_agent(arguments.url, token, cluster))
        try:
            gpus = sum(len(node.devices) for node in nodes)
            await _until_seen(api, len(nodes))
            pods = list(_requests(arguments.pods, arguments.count))
            figures = await _drive(api, pods)
            figures = {"nodes": len(nodes), "gpus": gpus, **figures}
            print(json.dumps(figures, indent=2), flush=True)
            if not arguments.keep:
                await _cancel_all(api)
        finally:
            agent.cancel()
            await asyncio.gather(agent, return_exceptions=True)
    return 1 if figures["devices_over_capacity"] else 0


async def _sign_in(api: httpx.AsyncClient, arguments: argparse.Namespace) -> None:
    body = {
        "username": arguments.username,
        "password": arguments.password,
        "scope": "admin",
        "name": "bench",
    }
    api.headers["Authorization"] = f"Bearer {_taken(await api.post('login/', json=body))['token']}"


async def _make_room(api: httpx.AsyncClient) -> str:
    """Make pool, teams and cluster where they are missing; return a token of the cluster's agent."""
    teams = _taken(await api.get("teams/"))["results"]
    root = next(team["slug"] for team in teams if team["parent"] is None)
    for quality in ("ls", "be", "burstable", "guaranteed"):
        slug = f"{NAME}-{quality}"
        if slug not in {team["slug"] for team in teams}:
            _taken(await api.post("teams/", json={"name": slug, "slug": slug, "parent": root}))
    pools = _taken(await api.get("pools/"))["results"]
    if NAME not in {pool["slug"] for pool in pools}:
        pool = {"name": NAME, "slug": NAME, "order": 0, "node_selector": {"trace": NAME}, "clusters": [NAME]}
        _taken(await api.post("pools/", json=pool))
    made = await api.post("clusters/", json={"name": NAME, "backend": "simulated"})
    if made.status_code == httpx.codes.CONFLICT:
        for token in _taken(await api.get(f"clusters/{NAME}/tokens/"))["results"]:
            await api.delete(f"clusters/{NAME}/tokens/{token['id']}/")
        made = await api.post(f"clusters/{NAME}/tokens/")
    return str(_taken(made)["token"])


def _taken(answer: httpx.Response) -> Any:
    """Return the body of an answer; stop with the server's sentence where it refused."""
    if answer.is_error:
        sys.exit(f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text[:500]}")
    return answer.json()


async def _until_seen(api: httpx.AsyncClient, nodes: int) -> None:
    deadline = time.monotonic() + 120
    while _taken(await api.get(f"clusters/{NAME}/"))["nodes"] < nodes:
        if time.monotonic() > deadline:
            sys.exit("The cluster's nodes did not arrive within two minutes.")
        await asyncio.sleep(0.5)


def _requests(path: Path, count: int) -> Iterator[dict[str, Any]]:
    """Yield the first `count` pods that ask for GPUs, as submissions."""
    with path.open() as lines:
        rows = (row for row in csv.DictReader(lines) if int(row["num_gpu"]) > 0)
        for row, _ in zip(rows, range(count), strict=False):
            whole = int(row["num_gpu"])
            share = math.ceil(int(row["gpu_milli"]) / 250) * 0.25
            yield {
                "name": row["name"],
                "team": f"{NAME}-{row['qos'].lower()}",
                "pools": [NAME],
                "gpus": whole if whole > 1 else share,
                "cpu": int(row["cpu_milli"]) / 1000,
                "memory_mib": int(row["memory_mib"]),
                "gpu_types": row["gpu_spec"].split("|") if row["gpu_spec"] else [],
                "image": "trace/pod:1",
                "command": ["sleep", "86400"],
            }


async def _drive(api: httpx.AsyncClient, pods: list[dict[str, Any]]) -> dict[str, Any]:
    """Submit, wait until nothing starts any more, and return the figures."""
    began = time.monotonic()
    stop = asyncio.Event()
    watch = asyncio.create_task(_watch_devices(api, stop))
    slugs: set[str] = set()
    for start in range(0, len(pods), BATCH):
        answer = await api.post("workloads/", json={"workloads": pods[start : start + BATCH]})
        slugs |= {row["slug"] for row in _taken(answer)["workloads"]}
    submitted = time.monotonic() - began
    rows = await _until_settled(api, slugs)
    stop.set()
    looks, over = await watch
    running = [row for row in rows if row["status"] == "running"]
    waits = sorted(_seconds(row["submitted_at"], row["status_since"]) for row in running)
    first = min(row["submitted_at"] for row in rows)
    last = max((row["status_since"] for row in running), default=first)
    return {
        "workloads": len(rows),
        "submitted_seconds": round(submitted, 2),
        "statuses": dict(Counter(row["status"] for row in rows)),
        "reasons": dict(Counter(row["reason_code"] for row in rows if row["status"] == "pending")),
        "admitted_per_second": round(len(running) / max(_seconds(first, last), 0.001), 1),
        "submission_to_running_p50_seconds": round(waits[len(waits) // 2], 2) if waits else None,
        "submission_to_running_p95_seconds": round(waits[int(len(waits) * 0.95)], 2) if waits else None,
        "device_looks": looks,
        "devices_over_capacity": over,
    }


def _seconds(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()


async def _watch_devices(api: httpx.AsyncClient, stop: asyncio.Event) -> tuple[int, list[str]]:
    """Read all devices over and over until told to stop; return how often, and those seen over their capacity."""
    looks, over = 0, list[str]()
    while not stop.is_set():
        for node in await _all(api, "nodes/", {"cluster": NAME, "limit": "500"}):
            over += [
                f"{node['name']}:{device['index']} {device['occupied']}/{device['allocated']}"
                for device in node["devices"]
                if device["occupied"] > 1 or device["allocated"] > 1
            ]
        looks += 1
        await asyncio.sleep(LOOK_EVERY_SECONDS)
    return looks, over


async def _until_settled(api: httpx.AsyncClient, slugs: set[str]) -> list[dict[str, Any]]:
    """Return the workloads once nothing has started for a while and nothing is under way."""
    before, since = Counter[str](), time.monotonic()
    while True:
        await asyncio.sleep(1)
        listed = await _all(api, "workloads/", {"pool": NAME, "limit": "500"})
        listed += await _all(api, "workloads/", {"status": "pending", "limit": "500"})
        rows = {row["slug"]: row for row in listed if row["slug"] in slugs}
        now = Counter(row["status"] for row in rows.values())
        if now != before:
            before, since = now, time.monotonic()
        under_way = now["queued"] + now["starting"]
        if len(rows) == len(slugs) and not under_way and time.monotonic() - since > SETTLED_SECONDS:
            return list(rows.values())


async def _all(api: httpx.AsyncClient, path: str, parameters: dict[str, str]) -> list[dict[str, Any]]:
    """Return all pages of a list."""
    page = _taken(await api.get(path, params=parameters))
    rows: list[dict[str, Any]] = page["results"]
    while page["next"]:
        page = _taken(await api.get(page["next"]))
        rows += page["results"]
    return rows


async def _cancel_all(api: httpx.AsyncClient) -> None:
    rows = [
        row
        for status in ("pending", "running")
        for row in await _all(api, "workloads/", {"status": status, "limit": "500"})
        if row["team"].startswith(f"{NAME}-")
    ]
    for start in range(0, len(rows), AT_ONCE):
        batch = rows[start : start + AT_ONCE]
        await asyncio.gather(*(api.post(f"workloads/{row['slug']}/cancel/") for row in batch))


if __name__ == "__main__":
    sys.exit(main())
