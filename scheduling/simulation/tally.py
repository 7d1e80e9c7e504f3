"""What happened while the clock ran, counted by pool, team and class as it goes.

A workload is counted where it first started; what it holds, wherever it lies. Memory does not grow with time, but for
eight bytes for each wait.
"""

from array import array
from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CountedPlace:
    """Where something is counted; `pool` is None for who can run in none."""

    pool: str | None
    team: str
    reserved: bool


@dataclass(slots=True)
class Count:
    """What happened in one place. Times in milliseconds; `waits_ms` has one entry for each who ever queued."""

    submitted: int = 0
    started: int = 0
    finished: int = 0
    preemptions: int = 0
    lost_gpu_ms: int = 0
    held_milli: int = 0
    held_milli_ms: int = 0
    first_at: int | None = None
    last_end: int | None = None
    waits_ms: "array[int]" = field(default_factory=lambda: array("q"))
    _since: int = 0

    def hold(self, milli: int, at: int) -> None:
        """Count so much more (or, below zero, less) as held from now on."""
        self.held_milli_ms += self.held_milli * (at - self._since)
        self.held_milli += milli
        self._since = at

    def begin(self, at: int) -> None:
        """Count somebody as there from a time on."""
        self.first_at = at if self.first_at is None else min(self.first_at, at)

    def submit(self, at: int) -> None:
        """Count a submission."""
        self.submitted += 1
        self.begin(at)

    def finish(self, at: int) -> None:
        """Count the end of a run; times only grow."""
        self.finished += 1
        self.last_end = at

    def add(self, other: "Count") -> None:
        """Take in what happened elsewhere; both are counted up to the same time."""
        self.submitted += other.submitted
        self.started += other.started
        self.finished += other.finished
        self.preemptions += other.preemptions
        self.lost_gpu_ms += other.lost_gpu_ms
        self.held_milli += other.held_milli
        self.held_milli_ms += other.held_milli_ms
        self.first_at = min(_known(self.first_at, other.first_at), default=None)
        self.last_end = max(_known(self.last_end, other.last_end), default=None)
        self.waits_ms.extend(other.waits_ms)


def _known(*times: int | None) -> list[int]:
    return [at for at in times if at is not None]


class SimulationTally:
    """The counts of every place, from the beginning of the window on."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.counts: dict[CountedPlace, Count] = defaultdict(self._count)

    def _count(self) -> Count:
        return Count(_since=self.start)

    def close(self, at: int) -> None:
        """Count what is held up to the end of the window."""
        for count in self.counts.values():
            count.hold(0, at)
