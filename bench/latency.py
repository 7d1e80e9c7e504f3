"""How long a single workload takes from its submission to Running, on an idle server with a simulated cluster.

    python -m bench.latency                        # production: the compose file's processes and one agent, its own
    python -m bench.latency --embedded             # the embedded default: `chamber demo`, its own
    python -m bench.latency --url http://127.0.0.1:8000 --username rosa --password chamber-demo --team nlp

Submits one workload after another over the API and waits for each to end. A simulated pod takes 0.2 to 0.6 s to start
of itself. Prints JSON; times are the server's own, in seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from rig import deployment, servers
from rig.organisation import PASSWORD

LONGEST_SECONDS = 60.0
BETWEEN_LOOKS_SECONDS = 0.2


def main() -> int:
    """Run, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--embedded", action="store_true", help="measure the embedded default")
    parser.add_argument("--url", default="", help="measure a server that runs already")
    parser.add_argument("--username", default="rosa")
    parser.add_argument("--password", help="that of its own server where none is given")
    parser.add_argument("--team", default="nlp")
    parser.add_argument("--count", type=int, default=50)
    arguments = parser.parse_args()
    server: AbstractContextManager[str]
    if arguments.url:
        way, server = "given", nullcontext(arguments.url)
    elif arguments.embedded:
        way, server = "embedded", _demo()
    else:
        way, server = "production", _deployment()
    own = PASSWORD if way == "production" else "chamber-demo"
    with server as url, httpx.Client(base_url=f"{url}/api/v1/", timeout=30) as api:
        _sign_in(api, arguments.username, arguments.password or own)
        # The first one waits for the cluster to connect, and warms everything up.
        _one(api, arguments.team)
        waits = sorted(_one(api, arguments.team) for _ in range(arguments.count))
    figures = {
        "way": way,
        "workloads": len(waits),
        "submission_to_running_p50_seconds": round(statistics.median(waits), 3),
        "submission_to_running_p95_seconds": round(waits[int(len(waits) * 0.95)], 3),
        "submission_to_running_max_seconds": round(waits[-1], 3),
    }
    print(json.dumps(figures, indent=2))
    return 0


@contextmanager
def _deployment() -> Iterator[str]:
    """Run PostgreSQL that syncs to disk, Redis, the processes and an agent; yield where the API is."""
    with (
        servers.postgresql(durable=True) as database,
        servers.redis() as redis,
        deployment.running(database, redis) as team,
    ):
        team.add_agent("east", deployment.nodes("east", 8))
        yield team.web_url


@contextmanager
def _demo() -> Iterator[str]:
    """Run the demo without its stream of workloads, in a folder of its own; yield where the API is."""
    with tempfile.TemporaryDirectory(prefix="chamber-latency-") as folder:
        port = str(servers.free_port())
        command = ["chamber", "demo", "--port", port, "--data", f"{folder}/data", "--no-stream"]
        own = {name: value for name, value in os.environ.items() if not name.startswith("CHAMBER_")}
        demo = deployment.ServiceProcess(
            "demo", command, own | deployment.NO_LIMITS | {"CHAMBER_LISTEN_PORT": port}, Path(folder)
        )
        try:
            demo.start()
            yield demo.url
        finally:
            demo.stop()


def _sign_in(api: httpx.Client, username: str, password: str) -> None:
    body = {"username": username, "password": password, "scope": "submit", "name": "bench"}
    api.headers["Authorization"] = f"Bearer {_taken(api.post('login/', json=body))['token']}"


def _one(api: httpx.Client, team: str) -> float:
    """Submit a workload that runs for a second, wait for its end, and return its seconds until Running."""
    asked = {"name": "latency", "team": team, "gpus": 1, "image": "bench/pod:1", "command": ["sleep", "1"]}
    slug = _taken(api.post("workloads/", json=asked))["slug"]
    deadline = time.monotonic() + LONGEST_SECONDS
    while (workload := _taken(api.get(f"workloads/{slug}/")))["finished_at"] is None:
        if time.monotonic() > deadline:
            sys.exit(f"{slug} is still {workload['status']} after a minute.")
        time.sleep(BETWEEN_LOOKS_SECONDS)
    attempt = _taken(api.get(f"workloads/{slug}/attempts/"))["results"][0]
    began = datetime.fromisoformat(workload["submitted_at"])
    return (datetime.fromisoformat(attempt["running_at"]) - began).total_seconds()


def _taken(answer: httpx.Response) -> Any:
    if answer.is_error:
        sys.exit(f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text[:500]}")
    return answer.json()


if __name__ == "__main__":
    sys.exit(main())
