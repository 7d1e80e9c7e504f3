"""What of each kind of thing is shown, in which order; rows are the API's own objects."""

import shlex
from collections.abc import Callable
from datetime import datetime

from chamber.cli.output import Column, Row, ago, duration, gpus, in_words, local_time, text


def slices(figures: Row) -> str | None:
    """Return how many slices of GPUs a pool or cluster has, or a team uses, and what they count as: `9 (1.859)`."""
    count = figures.get("slices")
    return f"{count} ({text(figures['slice_gpus'])})" if count else None


def _status(workload: Row) -> str:
    held = " (held)" if workload["held"] else ""
    return str(workload["status"]).capitalize() + held


def _partly(workload: Row) -> str:
    """Return how many of its pods have GPUs where others wait: `3 of 30`; else nothing."""
    placed = workload.get("placed_pods")
    return "" if placed in {None, workload["pods"]} else f"{placed} of {workload['pods']}"


def _gpus(workload: Row) -> str:
    """Return what all pods ask for together, as `2 x 4`; memory of a GPU, or slices, where these are asked for. Of one
    that runs with fewer pods, what these hold: `3 (of 30 x 1)`.
    """
    held = f"{text(workload['held_gpus'])} (of {{}})" if _partly(workload) else "{}"
    return held.format(_asked(workload))


def _asked(workload: Row) -> str:
    if slices := workload.get("slices"):
        return f"{slices} slice{'' if slices == 1 else 's'} ({text(workload['total_gpus'])})"
    one = f"{workload['gpu_memory_mib']} MiB" if workload["gpu_memory_mib"] else text(workload["gpus"])
    return one if workload["pods"] == 1 else f"{workload['pods']} x {one}"


WORKLOADS = [
    Column("Name", lambda w: w["slug"]),
    Column("Status", _status),
    Column("Team", lambda w: w["team"]),
    Column("Owner", lambda w: w["owner"]),
    Column("GPUs", _gpus, number=True),
    Column("Priority", lambda w: f"{w['priority']} {w['priority_class']}"),
    Column("Submitted", lambda w: ago(w["submitted_at"])),
    Column("Reason", lambda w: in_words(w["reason_code"]), wide=True),
    Column("Pool", lambda w: w["pool"], wide=True),
    Column("Class", lambda w: w["job_class"], wide=True),
    Column("Image", lambda w: w["image"], wide=True),
    Column("Id", lambda w: w["id"], wide=True),
]

WORKLOAD = [
    *(Column(column.heading, column.value) for column in WORKLOADS),
    Column("Pods", lambda w: _partly(w) or w["pods"]),
    Column("Min pods", lambda w: None if w["min_pods"] == w["pods"] else w["min_pods"]),
    Column("GPU types", lambda w: w["gpu_types"]),
    Column("Time limit", lambda w: w["time_limit_seconds"] and duration(w["time_limit_seconds"])),
    Column("Command", lambda w: shlex.join(w["command"])),
    Column("Since", lambda w: ago(w["status_since"])),
    Column("Requeues", lambda w: w["requeues"] or None),
    Column("How it ended", lambda w: w["reason"].get("message")),
    Column("Next step", lambda w: w["reason"].get("next_step")),
]


def _pairs(name: str, sign: str = "=") -> Callable[[Row], object]:
    return lambda w: [f"{key}{sign}{value}" for key, value in w[name].items()]


def _per_pod(w: Row) -> str:
    """Return CPU and memory of each pod: `8 CPUs, 65536 MiB`."""
    cpu = f"{text(w['cpu'])} CPU{'' if w['cpu'] == 1 else 's'}" if w["cpu"] else ""
    return ", ".join(filter(None, [cpu, f"{w['memory_mib']} MiB" if w["memory_mib"] else ""]))


def _after_deadline(w: Row) -> str | None:
    """What becomes of a workload that waits; one that does not has met its deadline, or has ended."""
    waits = w.get("deadline") and w["status"] == "pending"
    return {"cancel": "It is cancelled"}.get(w["on_deadline"], "It fails") if waits else None


DESCRIBED = [
    *WORKLOAD,
    Column("Pods ask for", _per_pod),
    Column("Scratch", lambda w: w.get("scratch_mib") and f"{w['scratch_mib']} MiB at /scratch"),
    Column("Shared memory", lambda w: w["shm_mib"] and f"{w['shm_mib']} MiB"),
    Column("Pools", lambda w: w["pools"]),
    Column("Partition", lambda w: w["partition"]),
    Column("Node selector", _pairs("node_selector")),
    Column("Tolerations", lambda w: w["tolerations"]),
    Column("Topology required", lambda w: w["topology_required"]),
    Column("Topology preferred", lambda w: w["topology_preferred"]),
    Column("Environment", lambda w: w.get("runs_in")),
    Column("Working folder", lambda w: w.get("working_dir")),
    Column("Variables", lambda w: list(w["environment"])),
    Column("Data", lambda w: w.get("mounts")),
    Column("Credentials", lambda w: w.get("credentials")),
    Column("Labels", _pairs("labels")),
    Column("Annotations", _pairs("annotations", ": ")),
    Column("Starts after", lambda w: w.get("depends_on")),
    Column("Array", lambda w: w.get("array")),
    Column(
        "Earliest start",
        lambda w: w.get("start_after") and local_time(datetime.fromisoformat(w["start_after"])),
    ),
    Column(
        "Start deadline", lambda w: w.get("deadline") and local_time(datetime.fromisoformat(w["deadline"]))
    ),
    Column("After the deadline", _after_deadline),
    Column("Grace period", lambda w: duration(w["grace_seconds"])),
    Column("On preemption", lambda w: w["on_preemption"].capitalize()),
    Column("Requeues allowed", lambda w: w["max_requeues"]),
    Column("Retries", lambda w: w["max_retries"]),
    Column("Notes in its output", lambda w: "Read" if w["read_notes"] else "Not read"),
    Column("If impossible", lambda w: "It fails" if w["fail_if_impossible"] else "It waits"),
]
"""All that was asked for; of the environment the names, for values may be secrets."""


def _percent(name: str) -> Callable[[Row], object]:
    return lambda use: None if use[name] is None else f"{use[name]} %"


USE = [
    Column("Busy", _percent("busy_percent"), number=True),
    Column("Tensor cores", _percent("tensor_percent"), number=True, wide=True),
    Column("Memory", lambda use: use["memory_mib"] and f"{use['memory_mib'] / 1024:,.1f} GiB", number=True),
    Column("Power", lambda use: use["power_watts"] and f"{use['power_watts']:,} W", number=True, wide=True),
    Column("Idle", lambda use: gpus(use["idle_gpus"] or None), number=True),
    Column("Idle for", lambda use: ago(use["idle_since"]).removesuffix(" ago")),
]
