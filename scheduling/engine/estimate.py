"""The start reservation that a candidate would get as things stand (section 6)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from scheduling.engine.queue.candidate import Candidate
from scheduling.engine.queueing import End, Kept, reserve_start
from scheduling.engine.standing import Standing

if TYPE_CHECKING:
    from scheduling.engine.cycle import PoolCycle


def estimate(cycle: PoolCycle, candidate: Candidate) -> Kept:
    """When it could start, and where. Whom it may preempt at any time is not in its way."""
    yielding = (
        (each.workload, each.pods)
        for each in (cycle.standings.values() if candidate.reserved else ())
        if not each.workload.reserved
    )
    tally = cycle.court(reserved=candidate.reserved).tally(candidate.request)
    if tally is None:
        return Kept(None, {})
    ends = _ends(cycle, reserved_only=candidate.reserved)
    return reserve_start(cycle.ledger, candidate.request, candidate.pods, ends, yielding, tally=tally)


def _ends(cycle: PoolCycle, *, reserved_only: bool) -> Iterator[End]:
    """When those who are placed end, in order. Whose time is over, ends now."""
    known = cycle.books.ends
    over = bisect_left(known, (cycle.now + 1, ""))
    if cycle.other_ends is None:
        late = [(cycle.now, id_) for _, id_ in known[:over]]
        cycle.other_ends = sorted(late + _ends_of(cycle, cycle.books.not_running.values()))
    started = sorted(_ends_of(cycle, cycle.started.values()))
    for at, id_ in merge(cycle.other_ends, started, islice(known, over, None)):
        standing = cycle.standings.get(id_)
        if standing is not None and (standing.workload.reserved or not reserved_only):
            yield at, standing.workload, standing.pods


def _ends_of(cycle: PoolCycle, standings: Iterable[Standing]) -> list[tuple[int, str]]:
    """When these end, as far as they have an end."""
    now, default = cycle.now, cycle.pool.policy.default_time_limit_ms
    return [(at, each.workload.id) for each in standings if (at := each.ends_at(now, default)) is not None]
