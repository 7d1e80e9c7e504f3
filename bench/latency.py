"""How long a single workload takes from its submission to Running, on an idle server with a simulated cluster.

    python -m bench.latency --url http://127.0.0.1:8000 --username rosa --password chamber-demo --team nlp

Submits one workload after another over the API and waits for each to end. A simulated pod takes 0.2 to 0.6 s to start
of itself. Prints JSON; times are the server's own, in seconds.
"""

import argparse
import json
import statistics
import sys
import time
from datetime import datetime
from typing import Any

import httpx


def main() -> int:
    """Run, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--username", default="rosa")
    parser.add_argument("--password", default="chamber-demo")
    parser.add_argument("--team", default="nlp")
    parser.add_argument("--count", type=int, default=50)
    arguments = parser.parse_args()
    with httpx.Client(base_url=f"{arguments.url}/api/v1/", timeout=30) as api:
        body = {
            "username": arguments.username,
            "password": arguments.password,
            "scope": "submit",
            "name": "bench",
        }
        api.headers["Authorization"] = f"Bearer {_taken(api.post('login/', json=body))['token']}"
        waits = sorted(_one(api, arguments.team) for _ in range(arguments.count))
    figures = {
        "workloads": len(waits),
        "submission_to_running_p50_seconds": round(statistics.median(waits), 3),
        "submission_to_running_p95_seconds": round(waits[int(len(waits) * 0.95)], 3),
        "submission_to_running_max_seconds": round(waits[-1], 3),
    }
    print(json.dumps(figures, indent=2))
    return 0


def _one(api: httpx.Client, team: str) -> float:
    """Submit a workload that runs for a second, wait for its end, and return its seconds until Running."""
    asked = {"name": "latency", "team": team, "gpus": 1, "image": "bench/pod:1", "command": ["sleep", "1"]}
    slug = _taken(api.post("workloads/", json=asked))["slug"]
    deadline = time.monotonic() + 60
    while (workload := _taken(api.get(f"workloads/{slug}/")))["finished_at"] is None:
        if time.monotonic() > deadline:
            sys.exit(f"{slug} is still {workload['status']} after a minute.")
        time.sleep(0.2)
    attempt = _taken(api.get(f"workloads/{slug}/attempts/"))["results"][0]
    began = datetime.fromisoformat(workload["submitted_at"])
    return (datetime.fromisoformat(attempt["running_at"]) - began).total_seconds()


def _taken(answer: httpx.Response) -> Any:
    if answer.is_error:
        sys.exit(f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text[:500]}")
    return answer.json()


if __name__ == "__main__":
    sys.exit(main())
