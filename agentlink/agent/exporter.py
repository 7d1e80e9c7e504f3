"""Reading what NVIDIA's DCGM exporter says of a node's GPUs: Prometheus' text format, in which anything may be missing.

A page has some twenty metrics for each GPU, and names the pod that has it where the exporter asks the kubelet. What is
not needed is not parsed, a line that cannot be read is left out, and so is the value that stands for "not supported".
A cluster has a thousand such pages to read every half minute: the labels of a GPU, the same in all its lines, are
parsed once a page.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

MOST_BYTES = 4 * 1024 * 1024
"""Of one page; the rest of a longer one is not read."""
MOST_DEVICES = 2048
"""GPUs times pods that one page may name; what comes after them is left out."""
LONGEST_LINE = 4096
LONGEST_LABEL = 256
LONGEST_DEVICE = 80

BUSY = ("DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL")
"""What tells how busy a GPU is, the best first: cycles with work on its multiprocessors, cycles with any of its engines
busy, time with any kernel running. The last is a percentage; not all GPUs have the others."""
TENSOR = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
MEMORY = "DCGM_FI_DEV_FB_USED"
POWER = "DCGM_FI_DEV_POWER_USAGE"

_MOST = {
    **dict.fromkeys((*BUSY, TENSOR), 1.0),
    "DCGM_FI_DEV_GPU_UTIL": 100.0,
    MEMORY: 16.0 * 1024 * 1024,
    POWER: 100_000.0,
}
"""The largest value that can be meant: fields that a GPU does not have come as numbers far above."""


@dataclass(frozen=True, slots=True)
class Owner:
    """What a line is about: a GPU, or a MIG instance of it (`device`), and the pod that has it, if one has."""

    gpu: str
    device: str
    namespace: str
    pod: str


@dataclass(slots=True)
class ExporterReading:
    """What a page says of one GPU and one pod; None where it does not say. `busy` and `tensor` are parts of 1."""

    owner: Owner
    busy: float | None = None
    tensor: float | None = None
    memory_mib: float | None = None
    power_watts: float | None = None


def read(text: str) -> list[ExporterReading]:
    """Return what a page says, in its own order: a reading for each GPU or MIG instance and each pod that has it."""
    values: dict[Owner, dict[str, float]] = {}
    owners: dict[str, Owner | None] = {}
    for name, labels, value in _samples(text):
        if labels not in owners:
            owners[labels] = _owner(labels) if len(owners) < MOST_DEVICES else None
        owner = owners[labels]
        if owner is not None:
            values.setdefault(owner, {})[name] = value
    return [_reading(owner, found) for owner, found in values.items()]


def _samples(text: str) -> Iterator[tuple[str, str, float]]:
    """Yield name, labels as they are written, and value of the lines that are of use."""
    for line in text[:MOST_BYTES].split("\n"):
        name, brace, rest = line.partition("{")
        most = _MOST.get(name.strip())
        if most is None or not brace or len(line) > LONGEST_LINE:
            continue
        labels, brace, tail = rest.rpartition("}")
        number = tail.split(maxsplit=1)  # a time may follow
        try:
            value = float(number[0]) if brace and number else math.nan
        except ValueError:
            continue
        if 0 <= value <= most:  # never true of what is not a number
            yield name.strip(), labels, value


def _owner(text: str) -> Owner | None:
    """Return of which GPU and pod these labels speak; None where they cannot be read or name no GPU."""
    try:
        sample = next(iter(text_string_to_metric_families(f"x{{{text}}} 0\n"))).samples[0]
    except (ValueError, StopIteration, LookupError):
        return None
    labels = sample.labels
    if any(len(value) > LONGEST_LABEL for value in labels.values()):
        return None
    gpu, instance = labels.get("UUID", ""), labels.get("GPU_I_ID", "")
    device = f"{gpu}/{instance}" if instance else gpu
    if not gpu or len(device) > LONGEST_DEVICE:
        return None
    return Owner(
        gpu=gpu,
        device=device,
        # Exporters that were told to use their old names say pod_namespace and pod_name.
        namespace=labels.get("namespace") or labels.get("pod_namespace", ""),
        pod=labels.get("pod") or labels.get("pod_name", ""),
    )


def _reading(owner: Owner, found: Mapping[str, float]) -> ExporterReading:
    busy = next((found[name] / _MOST[name] for name in BUSY if name in found), None)
    return ExporterReading(owner, busy, found.get(TENSOR), found.get(MEMORY), found.get(POWER))
