"""MIG profiles: which part of a GPU a slice of one is, by the names that the device plugin and drivers give it."""

import re
from functools import lru_cache
from typing import Literal

Slicing = Literal["whole", "mig", "replicas"]
"""How a device was cut from a GPU, if it was."""

GPU_MILLI = 1000
COMPUTE_SLICES = 7
"""Compute slices of a GPU, where nothing better is known: of A100 and all data centre GPUs after it."""
REPLICA_SUFFIX = "-SHARED"

_PROFILE = re.compile(
    r"(?:^|-)mig-(?:(?P<compute>\d+)c\.)?(?P<slices>\d+)g\.(?P<memory_gb>\d+)gb(?![a-z0-9])", re.IGNORECASE
)
_MIG = re.compile(r"(?:^|-)mig-", re.IGNORECASE)
# The table of supported GPUs in NVIDIA's MIG user guide.
_FEWER = (
    (re.compile(r"\bA30X?\b"), 4),
    (re.compile(r"\bRTX[- ]PRO[- ]6000\b", re.IGNORECASE), 4),
    (re.compile(r"\bRTX[- ]PRO[- ](5000|4500)\b", re.IGNORECASE), 2),
)
_ONLY_OF_FOUR = frozenset({(1, 6), (2, 12), (4, 24), (4, 96)})
"""Profiles, as slices and gigabytes, that only GPUs of four compute slices have."""
_SMALL_GPU_MIB = 26 * 1024
"""The only GPU of at most so much memory that MIG divides is the A30."""


def is_mig(gpu_type: str) -> bool:
    """Return whether a device of this type is a MIG slice by its name: `mig-1g.10gb`, `A100-MIG-1g.10gb`."""
    return _MIG.search(gpu_type) is not None


def mig_share_milli(gpu_type: str, *, product: str = "", gpu_memory_mib: int | None = None) -> int | None:
    """Return the share of its GPU that a MIG slice of this type is, in milli-GPUs, rounded up.

    It is the compute slices of the profile over those of the GPU, of which `product` and `gpu_memory_mib` may say more
    than the type does. None where the type names no profile.
    """
    found = _PROFILE.search(gpu_type)
    if found is None:
        return None
    slices, memory_gb = int(found["slices"]), int(found["memory_gb"])
    every = next((count for pattern, count in _FEWER if pattern.search(f"{product} {gpu_type}")), None)
    if every is None:
        small = gpu_memory_mib is not None and 0 < gpu_memory_mib <= _SMALL_GPU_MIB
        every = 4 if small or (slices, memory_gb) in _ONLY_OF_FOUR else COMPUTE_SLICES
    return part_milli(int(found["compute"] or slices), every)


def part_milli(parts: int, of: int, *, whole_milli: int = GPU_MILLI) -> int:
    """Return so many parts of a whole in milli-GPUs: rounded up, at least 1, at most the whole."""
    return min(whole_milli, max(1, -(-whole_milli * parts // max(1, of))))


@lru_cache(maxsize=4096)
def sliced_by_name(
    gpu_type: str, *, replicas: int | None = None, gpu_memory_mib: int | None = None
) -> tuple[Slicing, int]:
    """Return how a device was cut and its share, by the name of its type alone.

    `replicas` says into how many a GPU is divided whose type is that of a replica; a part of it is never taken for
    more than a half.
    """
    slicing: Slicing = "whole"
    share_milli = GPU_MILLI
    if is_mig(gpu_type):
        slicing, share_milli = "mig", mig_share_milli(gpu_type, gpu_memory_mib=gpu_memory_mib) or GPU_MILLI
    if gpu_type.upper().endswith(REPLICA_SUFFIX):
        slicing = slicing if slicing == "mig" else "replicas"
        share_milli = part_milli(1, max(2, replicas or 2), whole_milli=share_milli)
    return slicing, share_milli
