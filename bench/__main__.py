"""Every figure, one after the other: `python -m bench [NAME ...]` prints one JSON object; `--list` says what there is.

Each runs by itself, on servers and processes of its own, which end with it. Nothing else should run on the machine.
`--small` does as little work as it takes to see that each of them runs; its figures say nothing else.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any

FIGURES = {
    "latency": ["bench.latency"],
    "latency-embedded": ["bench.latency", "--embedded"],
    "kueue": ["bench.kueue", "--quota", "100", "--runtime", "0", "--part", "0.2"],
    "kueue-single": ["bench.kueue", "--quota", "100", "--runtime", "0", "--single", "--count", "600"],
    "cycle": ["bench.cycle"],
    "pages": ["bench.pages"],
    "arrays": ["bench.arrays"],
    "arrays-sqlite": ["bench.arrays", "--sqlite"],
    "live": ["bench.live"],
    "metrics": ["bench.metrics"],
    "link": ["bench.link"],
    "kubernetes": ["bench.kubernetes"],
    "engine": ["bench.engine", "--rows", "cold", "event"],
    "engine-starts": ["bench.engine", "--rows", "cold", "--scale", "0.1", "--starts", "1000"],
    "engine-preemption": ["bench.engine", "--rows", "preemption"],
    "engine-growth": ["bench.engine", "--rows", "growth", "--runs", "3"],
    "packing": [
        "bench.packing",
        "--nodes",
        "{openb}_node_list_gpu_node.csv",
        "--pods",
        "{openb}_pod_list_default.csv",
    ],
    "replay": ["bench.replay", "--jobs", "{philly}_jobs.csv.gz", "--nodes", "{philly}_vc_nodes.csv"],
}
"""What is run for each figure of the operations page; `bench.openb` drives a running server and is run by hand."""

SMALL = {
    "latency": ["--count", "2"],
    "latency-embedded": ["--count", "2"],
    "kueue": ["--part", "0.01"],
    "kueue-single": ["--count", "20"],
    "cycle": ["--scale", "0.01", "--starts", "20", "--runs", "1"],
    "pages": ["--scale", "0.01", "--workloads", "2000", "--teams", "250", "--times", "2"],
    "arrays": ["--scale", "0.01", "--members", "100", "--times", "2"],
    "arrays-sqlite": ["--scale", "0.01", "--members", "100", "--times", "2"],
    "live": ["--pages", "5", "--kinds", "5", "--changes", "5", "--seconds", "6"],
    "metrics": ["--nodes", "10", "--workloads", "16000", "--times", "2"],
    "link": ["--nodes", "20", "--placements", "20", "--batch", "10", "--pods", "20", "--agents", "2"],
    "kubernetes": ["--nodes", "10", "--workloads", "2", "--others", "10", "--changes", "5", "--idle", "5"],
    "engine": ["--scale", "0.01", "--events", "2"],
    "engine-starts": ["--scale", "0.01", "--starts", "20"],
    "engine-preemption": ["--scale", "0.02", "--runs", "1"],
    "engine-growth": ["--scale", "0.01", "--runs", "1"],
    "packing": ["--seeds", "1"],
    "replay": ["--since", "2017-10-10", "--before", "2017-10-11"],
}
"""What `--small` adds to each."""

TRACES = "CHAMBER_BENCH_TRACES"
"""The folder of real clusters' traces; without it, what replays one is left out, by name."""


def main() -> int:
    """Run what is asked for, everything by default; return 1 where something failed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FIGURES)}")
    parser.add_argument("--list", action="store_true", help="print what would be run")
    parser.add_argument("--small", action="store_true", help="do as little as it takes to see that each runs")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in FIGURES]
    if unknown:
        parser.error(f"unknown is {', '.join(unknown)}; allowed are {', '.join(FIGURES)}")
    words = {name: FIGURES[name] + (SMALL[name] if given.small else []) for name in given.names or FIGURES}
    chosen = _with_traces(words)
    if given.list:
        print("\n".join(f"{name}: python -m {' '.join(words)}" for name, words in chosen.items()))
        return 0
    found = {name: run(name, words) for name, words in chosen.items()}
    print(json.dumps(found, indent=2))
    return 1 if any("failed" in figures for figures in found.values()) else 0


def _with_traces(chosen: dict[str, list[str]]) -> dict[str, list[str]]:
    """Fill in where the traces lie, or leave out what needs one."""
    traces = os.environ.get(TRACES, "")
    if traces:
        where = {name: f"{traces}/{name}/{name}" for name in ("openb", "philly")}
        return {name: [word.format(**where) for word in words] for name, words in chosen.items()}
    without = {name: words for name, words in chosen.items() if "{" not in "".join(words)}
    for name in chosen.keys() - without.keys():
        print(f"{name} is left out: {TRACES} names no folder.", file=sys.stderr)
    return without


def run(name: str, words: list[str]) -> dict[str, Any]:
    """Return what a bench printed, with its command and its seconds; where it failed, its last lines."""
    print(f"{name} ...", file=sys.stderr, flush=True)
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)
    told: dict[str, Any] = {
        "command": f"python -m {' '.join(words)}",
        "seconds": round(time.monotonic() - began),
    }
    if done.returncode != 0:
        return told | {"failed": done.stderr[-2000:]}
    return told | {"figures": json.loads(done.stdout)}


if __name__ == "__main__":
    sys.exit(main())
