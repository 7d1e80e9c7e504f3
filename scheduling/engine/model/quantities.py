"""Milli-GPUs: shares of a device, and dividing what is scarce without losing a unit (sections 1 and 3)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

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


@dataclass(frozen=True, slots=True)
class Claim:
    """One party of a division: what part it should get, how much it can take, in which unit, and its rank in ties.

    ``tie`` orders parties with equal remainders by what they hold (see :func:`divide`); it must be total.
    """

    weight: int
    room: int
    unit: int
    surplus_over: int
    """What it holds beyond what it has got before this division (may be negative)."""
    tie: tuple[Hashable, ...]


def divide(amount: int, claims: Sequence[Claim]) -> list[int]:
    """Divide ``amount`` in proportion to the weights, nobody above his room.

    Who reaches his room drops out and what he leaves is divided again. The parts are rounded down to the unit of
    each, and what the rounding left is handed out by largest remainder, at most one unit more each; of equal
    remainders first to who holds most above its rounded-down part, then by ``tie``. What is too small for anyone's
    unit goes to nobody.
    """
    parts = [0] * len(claims)
    active = [i for i, claim in enumerate(claims) if claim.weight > 0 and claim.room > 0]
    left = amount
    while active:
        total = sum(claims[i].weight for i in active)
        full = [i for i in active if left * claims[i].weight >= claims[i].room * total]
        if not full:
            break
        for i in full:
            parts[i] = claims[i].room
        left -= sum(claims[i].room for i in full)
        active = [i for i in active if i not in set(full)]
    if active and left > 0:
        _round(left, claims, active, parts)
    return parts


def _round(left: int, claims: Sequence[Claim], active: list[int], parts: list[int]) -> None:
    """Write the rounded parts of ``left`` among the active claims, none of which reaches its room."""
    total = sum(claims[i].weight for i in active)
    remainders: dict[int, Fraction] = {}
    for i in active:
        exact = Fraction(left * claims[i].weight, total * claims[i].unit)
        units = exact.numerator // exact.denominator
        parts[i] = units * claims[i].unit
        remainders[i] = exact - units
    spare = left - sum(parts[i] for i in active)
    order = sorted(
        (i for i in active if remainders[i] > 0),
        key=lambda i: (-remainders[i], -max(0, claims[i].surplus_over - parts[i]), claims[i].tie),
    )
    for i in order:
        if claims[i].unit <= spare and parts[i] + claims[i].unit <= claims[i].room:
            parts[i] += claims[i].unit
            spare -= claims[i].unit
