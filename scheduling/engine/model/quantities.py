"""Milli-GPUs: shares of a device, and amounts as people read them (section 1)."""

from __future__ import annotations

from scheduling.engine.model.snapshot import GPU_MILLI

UNLIMITED = 1 << 60
"""Stands for "no limit" in sums and comparisons of milli-GPUs, milli-cores and MiB."""


MOST_IN_ARRAYS = 1 << 50
"""Of so much, eight thousand amounts can be added up in 64 bits."""


def in_arrays(amount: int) -> int:
    """The amount, or the nearest that sums of 64 bits can hold: beyond is as good as unlimited."""
    return max(-MOST_IN_ARRAYS, min(amount, MOST_IN_ARRAYS))


def memory_share(mib: int, device_mib: int) -> int:
    """The share of a device that ``mib`` of its memory is, in milli-GPUs, rounded up."""
    return -(-mib * GPU_MILLI // device_mib)


def in_gpus(milli: int) -> str:
    """The amount as people read it: ``8``, ``0.25``, ``0.293``."""
    whole, rest = divmod(abs(milli), GPU_MILLI)
    text = f"{whole}.{rest:03d}".rstrip("0").rstrip(".")
    return f"-{text}" if milli < 0 else text


def gpus(milli: int) -> str:
    """The amount with its noun: ``1 GPU``, ``8 GPUs``."""
    return f"{in_gpus(milli)} GPU" if milli == GPU_MILLI else f"{in_gpus(milli)} GPUs"


def are(milli: int) -> str:
    """The amount with its verb: ``1 is``, ``8 are``."""
    return f"{in_gpus(milli)} {'is' if milli == GPU_MILLI else 'are'}"


def counted(number: int, noun: str) -> str:
    """The number with its noun: ``1 pod``, ``8 pods``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def none_or_only(milli: int) -> str:
    """The too little that there is, with its verb: ``none is``, ``only 1 is``, ``only 8 are``."""
    return f"only {are(milli)}" if milli > 0 else "none is"
