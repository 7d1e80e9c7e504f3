"""What the pools are often asked for, from the last submissions: by that the engine measures fragmentation."""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from scheduling.engine import TypicalRequest
from workloads.models import Workload

logger = logging.getLogger(__name__)

COUNTED = 1_000
"""Submissions, whatever became of them."""
SHAPES = 64
"""Of so many different requests per pool, the most frequent ones."""
EVERY = timedelta(minutes=10)
SETTLED = timedelta(minutes=1)
"""Workloads submitted longer ago than this are in the tables, or never will be."""
ASKED = ("gpu_milli", "gpu_memory_mib", "cpu_milli", "memory_mib", "gpu_types", "pods", "pool_choice")

Shape = tuple[int, int, int, int, tuple[str, ...]]
"""Milli-GPUs, GPU memory, CPU, memory, GPU types of a pod."""


@dataclass(frozen=True, slots=True)
class TypicalRequests:
    """What was asked for before a moment, in pods: of pools by name (id), and of any pool.

    What it is depends on the moment alone, and that moves on every ten minutes: pools change seldom by it.
    """

    until: datetime | None = None
    named: Mapping[str, Counter[Shape]] = field(default_factory=dict)
    anywhere: Counter[Shape] = field(default_factory=Counter)
    _told: dict[str, tuple[TypicalRequest, ...]] = field(default_factory=dict, repr=False, compare=False)

    def of(self, pool: str) -> tuple[TypicalRequest, ...]:
        """Return a pool's typical requests, the most frequent first; the same object every time."""
        found = self._told.get(pool)
        if found is None:
            counted = self.anywhere + self.named.get(pool, Counter())
            often = sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:SHAPES]
            found = self._told[pool] = tuple(_request(shape, pods) for shape, pods in often)
        return found


def _request(shape: Shape, pods: int) -> TypicalRequest:
    milli, gpu_memory, cpu, memory, types = shape
    return TypicalRequest(milli, float(pods), cpu, memory, types, gpu_memory)


def read(before: TypicalRequests, now: datetime) -> TypicalRequests:
    """Return what is typical now; what was typical before where that is still so (no query), else 1 query."""
    until = datetime.fromtimestamp(
        (now - SETTLED).timestamp() // EVERY.total_seconds() * EVERY.total_seconds(), UTC
    )
    if until == before.until:
        return before
    last = Workload.objects.filter(submitted_at__lt=until).order_by("-submitted_at", "-pk")
    return _counted(until, last.values_list(*ASKED)[:COUNTED])


def _counted(until: datetime, rows: Iterable[tuple[Any, ...]]) -> TypicalRequests:
    named: dict[str, Counter[Shape]] = defaultdict(Counter)
    anywhere = Counter[Shape]()
    for milli, gpu_memory, cpu, memory, types, pods, pools in rows:
        if not (_texts(types) and _texts(pools)):
            logger.warning("A request whose types or pools cannot be read is not counted as typical.")
            continue
        shape = (milli or 0, gpu_memory or 0, cpu, memory, tuple(sorted(set(types))))
        if pools:
            for pool in set(pools):
                named[pool][shape] += pods
        else:
            anywhere[shape] += pods
    return TypicalRequests(until, dict(named), anywhere)


def _texts(value: object) -> bool:
    """Whether a column whose content no constraint vouches for is a list of texts."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
