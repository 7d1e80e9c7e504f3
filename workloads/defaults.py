"""What a pod gets of CPU and memory with its GPUs where its workload names none: nobody runs without a request.

It is settled once, when a workload is submitted, and is then what the workload asks for: it is planned with it, its
pods have it as request and limit, and a pool's policy that changes later changes nothing of it.

A default never keeps a workload from a node that it would have fitted on by its GPUs: it is no more than the least that
any node of the pools it accepts has for each of its GPUs. Where no policy says how much, it is three quarters of that:
the rest is left to pods that every node has, and to who asks for more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

WHOLE_MILLI = 1000
PART = 0.75
STEP_CPU_MILLI, STEP_MEMORY_MIB = 100, 256
"""Derived defaults are multiples of these."""
SMALLEST_SHARE_MILLI = 250
"""What memory of a GPU is counted as, for how much of one that will be is not known yet."""
CPU, MEMORY = "cpu", "memory"


@dataclass(frozen=True, slots=True)
class PerGpu:
    """CPU and memory with each GPU; 0 = none."""

    cpu_milli: int = 0
    memory_mib: int = 0


NONE = PerGpu()


def per_gpu(
    *, cpu: float | None, memory_mib: int | None, least_cpu_milli: int | None, least_memory_mib: int | None
) -> PerGpu:
    """Return the default of a pool by its policy (`cpu` in cores; None = not said) and by the least that any node has
    for each of its GPUs (None = not known), of which a slice is its share.
    """
    return PerGpu(
        _amount(None if cpu is None else round(cpu * 1000), least_cpu_milli, STEP_CPU_MILLI),
        _amount(memory_mib, least_memory_mib, STEP_MEMORY_MIB),
    )


def _amount(said: int | None, least: int | None, step: int) -> int:
    if said is None:
        return int((least or 0) * PART) // step * step
    return said if least is None else min(said, least)


def of(pools: Iterable[str], known: Mapping[str, PerGpu], gpu_milli: int) -> PerGpu:
    """Return what a pod gets with so many GPUs in whichever of these pools."""
    found = [known.get(slug, NONE) for slug in pools]
    if not found:
        return NONE
    return PerGpu(
        min(each.cpu_milli for each in found) * gpu_milli // WHOLE_MILLI,
        min(each.memory_mib for each in found) * gpu_milli // WHOLE_MILLI,
    )
