"""When what is placed ends, from lists that are kept in order (section 6)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import islice

from scheduling.acceleration.kept_pool import KeptPool
from scheduling.engine.backfill.start_reservation import End
from scheduling.engine.preemption.victims import PlacedWorkload


class KeptEnds:
    """The ends of one pool's workloads in a cycle, with those that it has ``started``."""

    def __init__(self, kept_pool: KeptPool, started: Mapping[str, PlacedWorkload]) -> None:
        self._kept_pool = kept_pool
        self._started = started
        self._others: list[tuple[int, str]] | None = None
        """Of those that do not run yet or whose time is over, once asked for."""

    def of(self, *, reserved_only: bool) -> Iterator[End]:
        """When the placed workloads end, in order. What is over its time ends now."""
        kept_pool, now = self._kept_pool, self._kept_pool.clock.now
        known = kept_pool.ends
        over = bisect_left(known, (now + 1, ""))
        if self._others is None:
            late = [(now, id_) for _, id_ in known[:over]]
            self._others = sorted(late + self._of_each(kept_pool.idle.values()))
        started = sorted(self._of_each(self._started.values()))
        for at, id_ in merge(self._others, started, islice(known, over, None)):
            placed = kept_pool.placed_workloads.get(id_)
            if placed is not None and (placed.reserved or not reserved_only):
                yield at, placed.workload, placed.pods

    def _of_each(self, placed_workloads: Iterable[PlacedWorkload]) -> list[tuple[int, str]]:
        """When these end, as far as they have an end."""
        policy = self._kept_pool.pool.policy
        return [
            (at, each.workload.id) for each in placed_workloads if (at := each.ends_at(policy)) is not None
        ]
