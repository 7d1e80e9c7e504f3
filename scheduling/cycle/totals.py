"""What a cycle did, summed up: waits that ended, preemptions, work that was lost, promises kept or broken.

Each cycle stores its sums with its figures. Cycles are numbered without gaps by the fence, so whoever adds up their
tallies by number counts everything exactly once (`chamber.metrics.totals`), however long cycles are kept.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from scheduling import engine
from scheduling.reading.translate import milliseconds, moment

WAIT = "wait"
PREEMPTION = "preemption"
ETA = "eta"

WAIT_BOUNDS = (1, 5, 15, 60, 300, 900, 3600, 14_400, 43_200, 86_400, 259_200, 604_800)
"""Upper bounds in seconds, from a free cluster to a week."""

ETA_BOUNDS = (1, 60, 300, 900, 3600, 14_400, 43_200, 86_400)


@dataclass(slots=True)
class Sum:
    """How often something happened, and how much of it; `buckets` counts what was observed by its upper bound."""

    name: str
    labels: dict[str, str]
    count: int = 0
    amount: float = 0.0
    buckets: dict[str, int] = field(default_factory=dict)


class CycleTally:
    """The sums of one cycle, by name and labels."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, tuple[tuple[str, str], ...]], Sum] = {}

    def add(self, name: str, amount: float, **labels: str) -> Sum:
        """Count one more, and its amount; return the sum."""
        key = name, tuple(sorted(labels.items()))
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = Sum(name, labels)
        found.count += 1
        found.amount += amount
        return found

    def observe(self, name: str, value: float, bounds: Sequence[float], **labels: str) -> None:
        """Count a value in the first bucket whose bound it does not exceed."""
        found = self.add(name, value, **labels)
        at = bisect_left(bounds, value)
        bound = str(bounds[at]) if at < len(bounds) else "+Inf"
        found.buckets[bound] = found.buckets.get(bound, 0) + 1

    def include(self, other: "CycleTally") -> None:
        """Add all sums of another tally."""
        for key, each in other._sums.items():
            found = self._sums.setdefault(key, Sum(each.name, each.labels))
            found.count += each.count
            found.amount += each.amount
            for bound, count in each.buckets.items():
                found.buckets[bound] = found.buckets.get(bound, 0) + count

    def started(self, start: engine.Start, *, waited_seconds: float, reserved: bool, job_class: str) -> None:
        """Count the end of a wait, by what the start is charged to."""
        charge = "reserved" if reserved else "burst" if _bursts(start.allocation) else "elastic"
        self.observe(WAIT, max(0.0, waited_seconds), WAIT_BOUNDS, charge=charge, job_class=job_class)

    def promised(self, late_seconds: float) -> None:
        """Count how far a start was from the time that it was promised for, as late or as early."""
        direction = "late" if late_seconds > 0 else "early"
        self.observe(ETA, abs(late_seconds), ETA_BOUNDS, direction=direction)

    def preempted(self, preemption: engine.Preemption) -> None:
        """Count a preemption and the GPU-seconds that were lost by it; `level` is a team's id."""
        lost_gpu_seconds = preemption.lost_gpu_ms / 1000
        self.add(PREEMPTION, lost_gpu_seconds, rule=preemption.rule.value, level=preemption.level or "")

    def as_json(self) -> list[dict[str, Any]]:
        """Return what is stored with the cycle."""
        return [asdict(found) for found in self._sums.values()]


def _bursts(allocation: Iterable[engine.Allocation]) -> bool:
    return any(part.team is None for part in allocation)


class Promises:
    """The first time that each waiting workload was told as its latest start; kept by the process that runs cycles.

    Another process that takes over makes promises of its own; starts that were promised nothing are not counted.
    """

    def __init__(self) -> None:
        self._latest: dict[str, int] = {}

    def of(self, workload: str) -> datetime | None:
        """Return when a workload was promised to have started; None without a promise."""
        return moment(self._latest.get(workload))

    def late_seconds(self, workload: str, at: datetime) -> float | None:
        """Return how long after its promise a workload starts, negative before it; None without a promise."""
        promised = self._latest.get(workload)
        return None if promised is None else ((milliseconds(at) or 0) - promised) / 1000

    def told(self, waits: Iterable[engine.Wait]) -> None:
        """Remember what is told of the workloads that wait after this plan, and forget all others."""
        before = self._latest
        self._latest = {
            wait.workload: before.get(wait.workload, wait.eta.latest)
            for wait in waits
            if wait.eta.latest is not None
        }


promises = Promises()
"""Of this process."""
