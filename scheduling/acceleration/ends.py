"""When what is placed ends, from lists that are kept in order (section 6)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from scheduling.engine.backfill.start_reservation import End
from scheduling.engine.preemption.victims import PlacedWorkload

if TYPE_CHECKING:
    from scheduling.acceleration.kept_cycle import KeptCycle


def ends_of(cycle: KeptCycle, *, reserved_only: bool) -> Iterator[End]:
    """When those who are placed end, in order. Whose time is over, ends now."""
    known = cycle.kept_pool.ends
    over = bisect_left(known, (cycle.now + 1, ""))
    if cycle.other_ends is None:
        late = [(cycle.now, id_) for _, id_ in known[:over]]
        cycle.other_ends = sorted(late + _of_each(cycle, cycle.kept_pool.idle.values()))
    started = sorted(_of_each(cycle, cycle.started.values()))
    for at, id_ in merge(cycle.other_ends, started, islice(known, over, None)):
        placed = cycle.placed_workloads.get(id_)
        if placed is not None and (placed.workload.reserved or not reserved_only):
            yield at, placed.workload, placed.pods


def _of_each(cycle: KeptCycle, placed_workloads: Iterable[PlacedWorkload]) -> list[tuple[int, str]]:
    """When these end, as far as they have an end."""
    policy = cycle.pool.policy
    return [(at, each.workload.id) for each in placed_workloads if (at := each.ends_at(policy)) is not None]
