"""How full the engine packs a cluster of a GPU trace, in the experiment of the FGD paper (USENIX ATC'23).

    python -m bench.packing --nodes openb_node_list_gpu_node.csv --pods openb_pod_list_default.csv --seeds 42-51

Arrivals: all pods of the list shuffled once, then more drawn from it with replacement, until what they ask for is 130 %
of the cluster's GPUs. One after the other is placed by the engine's own ledger; who does not fit is dropped, and nobody
leaves. The score is the part of all GPUs that is allocated at the end, in unrounded milli-GPUs. Pods without GPUs take
their CPU and memory.

The typical requests are those of the whole list, as in the paper (`--recent list`), or, as in production, those that
arrived last, whether they were placed or not (`--recent 1000`: so many, counted anew every so many arrivals). Prints
JSON.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.engine import DeviceInfo, GpuShare, NodeInfo, PoolInfo, TypicalRequest, WorkloadInfo
from scheduling.engine.placement.nodes import Nodes
from scheduling.engine.placement.pod_request import PodRequest

OVERLOAD = 1.3
TIE = "score in steps of 0.02 GPU; then 2 x the node's free part + what a share leaves of its device; then id"
RECOUNTED_EVERY = 250
"""Arrivals after which the last ones are counted anew."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a pod of the trace asks for; 0 milli-GPUs for none."""

    milli: int
    cpu_milli: int
    memory_mib: int
    gpu_types: tuple[str, ...]

    def request(self) -> PodRequest:
        """Return it as the engine takes it."""
        workload = WorkloadInfo("pod", "pod", "team", GpuShare(self.milli), gpu_types=self.gpu_types)
        return PodRequest.of(replace(workload, cpu_milli=self.cpu_milli, memory_mib=self.memory_mib))


def read_nodes(path: Path) -> list[NodeInfo]:
    """Return the nodes of a CSV: sn, cpu_milli, memory_mib, gpu, model."""
    with path.open(newline="") as lines:
        return [
            NodeInfo(
                id=row["sn"],
                name=row["sn"],
                pool="pool",
                devices=tuple(DeviceInfo(index, row["model"]) for index in range(int(row["gpu"]))),
                cpu_milli=int(row["cpu_milli"]),
                memory_mib=int(row["memory_mib"]),
            )
            for row in csv.DictReader(lines)
        ]


def read_requests(path: Path) -> list[Request]:
    """Return the pods of a CSV: cpu_milli, memory_mib, num_gpu, gpu_milli, and gpu_spec if there are any."""
    with path.open(newline="") as lines:
        return [
            Request(
                milli=int(row["num_gpu"]) * int(row["gpu_milli"]),
                cpu_milli=int(row["cpu_milli"]),
                memory_mib=int(row["memory_mib"]),
                gpu_types=tuple(sorted(filter(None, set((row.get("gpu_spec") or "").split("|"))))),
            )
            for row in csv.DictReader(lines)
        ]


def arrivals(requests: Sequence[Request], goal_milli: float, seed: int) -> Iterator[Request]:
    """Yield who arrives, until they have asked for so much."""
    chance = random.Random(seed)
    queue = chance.sample(requests, len(requests))[::-1]
    asked = 0
    while asked < goal_milli:
        request = queue.pop() if queue else chance.choice(requests)
        asked += request.milli
        yield request


def typical(requests: Sequence[Request]) -> tuple[TypicalRequest, ...]:
    """Return these requests as a pool's typical ones, those for GPUs."""
    counted = Counter(request for request in requests if request.milli)
    return tuple(
        TypicalRequest(each.milli, float(count), each.cpu_milli, each.memory_mib, each.gpu_types)
        for each, count in counted.items()
    )


def fill(
    nodes: Sequence[NodeInfo], requests: Sequence[Request], seed: int, window: int | None
) -> dict[str, Any]:
    """Return how much is allocated when all have arrived, and how long placing took."""
    pool = PoolInfo("pool", "pool", recent=() if window is not None else typical(requests))
    fleet = Nodes(pool, nodes, ())
    ledger = KeptLedger(fleet, ())
    pod_requests: dict[Request, PodRequest] = {}
    goal = OVERLOAD * fleet.capacity_milli
    allocated, seen, seconds = 0, list[Request](), list[float]()
    for request in arrivals(requests, goal, seed):
        if window and seen and len(seen) % RECOUNTED_EVERY == 0:
            fleet.pool = replace(pool, recent=typical(seen[-window:]))
        seen.append(request)
        pod_request = pod_requests.setdefault(request, request.request())
        began = time.perf_counter()
        placed = ledger.place(pod_request, (0,))
        seconds.append(time.perf_counter() - began)
        allocated += request.milli if placed else 0
    percent = 100 * allocated / fleet.capacity_milli
    return {
        "seed": seed,
        "arrivals": len(seen),
        "allocated_percent": round(percent, 4),
        "placement_ms": {
            "median": round(statistics.median(seconds) * 1000, 3),
            "p95": round(statistics.quantiles(seconds, n=20)[-1] * 1000, 3),
        },
    }


def seeds_of(text: str) -> list[int]:
    """Return the seeds of `42-51` or `42,43`."""
    first, dash, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if dash else [int(seed) for seed in text.split(",")]


def main() -> int:
    """Fill the cluster once per seed, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=Path, required=True)
    parser.add_argument("--pods", type=Path, required=True)
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("42-51"))
    parser.add_argument("--recent", default="list", help="list, or how many of the last arrivals")
    arguments = parser.parse_args()
    window = None if arguments.recent == "list" else int(arguments.recent)
    nodes, requests = read_nodes(arguments.nodes), read_requests(arguments.pods)
    runs = [fill(nodes, requests, seed, window) for seed in arguments.seeds]
    found = [run["allocated_percent"] for run in runs]
    figures = {
        "pods": arguments.pods.name,
        "recent": arguments.recent,
        "gpus": sum(len(node.devices) for node in nodes),
        "tie": TIE,
        "mean_percent": round(statistics.fmean(found), 3),
        "sd": round(statistics.stdev(found), 3) if len(found) > 1 else None,
        "runs": runs,
    }
    print(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
