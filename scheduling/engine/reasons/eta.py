"""When waiting workloads start, as far as time limits tell (sections 6 and 9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduling.engine.backfill.start_reservation import EarliestStart
from scheduling.engine.model.plan import Eta
from scheduling.engine.model.snapshot import Queueing
from scheduling.engine.pool.pool_cycle import PoolCycle
from scheduling.engine.queue.candidate import Blocked, Candidate, Cause
from scheduling.engine.reasons.allowance import Allowance
from scheduling.engine.reasons.timeline import PodEnd, Timeline

REACH = 500
"""How many workloads of a queue are given a time."""
FAR = Eta(None, None, f"At least {REACH} workloads are ahead of it.")
NO_ENDS = Eta(None, None, "Too little of what runs has a time limit.")
ANYBODY_PASSES = Eta(None, None, "In this pool smaller ones behind it may start before it.")


class Forecast:
    """The ETAs of one pool's waiting workloads.

    Each is the time by which it starts if nothing new comes before it, all run as long as their time limits allow,
    and those ahead of it have their places first, the start reservation before all.
    """

    def __init__(self, cycle: PoolCycle) -> None:
        self._cycle = cycle
        self._queueing = cycle.pool.policy.queueing
        self._ends = {
            id_: placed.ends_at(cycle.pool.policy) for id_, placed in cycle.placed_workloads.items()
        }
        self._allowance = Allowance(cycle, self._ends)
        self._pods = self._pods_by_node()
        self._for_all = self._timeline(without_elastic=False)
        self._for_reserved: Timeline | None = None
        self._not_before = cycle.now
        self._nobody_knows: Eta | None = None

    def etas(self) -> Iterator[Eta]:
        """The ETA of each in turn; beyond the first ``REACH`` none is told."""
        for number, blocked in enumerate(self._cycle.waiting.values()):
            yield self.next(blocked) if number < REACH else FAR

    def next(self, blocked: Blocked) -> Eta:
        """The ETA of the next one of the queue, which has its place from then on."""
        if self._nobody_knows is not None:
            return self._nobody_knows
        candidate, head = blocked.candidate, self._cycle.head
        if head is not None and head.candidate is candidate and self._queueing is Queueing.BACKFILL:
            return self._of_head(candidate, head.earliest)
        admitted = self._allowance.when(candidate)
        if admitted is None:
            return NO_ENDS
        timeline = self._timelines(candidate)[0]
        found = timeline.when(candidate.request, candidate.pods)
        if found is None:
            return self._unknown(blocked)
        at, ranks = self._opens_at(candidate, max(found[0], admitted, self._not_before)), found[1]
        if candidate.pods == 1 and (given := timeline.given(candidate.request, at)) is not None:
            ranks = [given]  # What was free before anyway stays free for those behind.
        self._seat(candidate, at, ranks)
        if self._queueing is Queueing.STRICT_FIFO and blocked.cause in (Cause.PLACE, Cause.BEHIND):
            self._not_before = at
        if self._queueing is Queueing.BEST_EFFORT_FIFO and candidate.pods * candidate.request.whole > 1:
            return ANYBODY_PASSES
        return Eta(at, at)

    def _opens_at(self, candidate: Candidate, at: int) -> int:
        """The first time from then on at which the pool's peak hours admit a candidate, which may start now."""
        peak = self._cycle.pool.policy.peak if candidate.pool_request.off_peak else None
        opens = at if peak is None else peak.opens_at(at)
        return at if opens is None else opens

    def _of_head(self, candidate: Candidate, earliest: EarliestStart) -> Eta:
        """The ETA of the head; without a time, nothing more of its nodes comes free for others."""
        timelines = self._timelines(candidate)
        if earliest.at is None:
            for rank, extra in earliest.extra.items():
                left = self._cycle.ledger.later.free[rank].within(extra)
                for timeline in timelines:
                    timeline.only(rank, left, self._cycle.now)
            return NO_ENDS
        found = timelines[0].when(candidate.request, candidate.pods, among=earliest.extra.keys())
        self._seat(candidate, earliest.at, found[1] if found else ())
        return Eta(earliest.at, earliest.at)

    def _unknown(self, blocked: Blocked) -> Eta:
        """No ETA; if others may not pass it, they have none either."""
        if self._queueing is not Queueing.BEST_EFFORT_FIFO and blocked.cause is not Cause.CEILING:
            name = blocked.candidate.workload.name
            self._nobody_knows = Eta(None, None, f"{name} is ahead of it, and when that starts is not known.")
        return NO_ENDS

    def _seat(self, candidate: Candidate, at: int, ranks: Iterable[int]) -> None:
        """Give a candidate its place on these nodes, and its part of what teams may have."""
        limit = self._cycle.pool.policy.limit_ms(candidate.workload.time_limit_ms)
        until = None if limit is None else at + limit
        for timeline in self._timelines(candidate):
            timeline.take(candidate.request, ranks, at, until)
        self._allowance.take(candidate, at, until)

    def _timelines(self, candidate: Candidate) -> tuple[Timeline, ...]:
        """The one that a candidate sees, and the others from which its place is taken.

        Reserved work sees the pool as if no elastic workload were there: it can have their places at any time.
        """
        if not candidate.reserved:
            return (self._for_all,)
        if self._for_reserved is None:
            self._for_reserved = self._timeline(without_elastic=True)
        return (self._for_reserved, self._for_all)

    def _timeline(self, *, without_elastic: bool) -> Timeline:
        cycle = self._cycle
        free = cycle.ledger.later.free
        return Timeline(cycle.nodes, free, cycle.now, self._pods, without_elastic=without_elastic)

    def _pods_by_node(self) -> dict[int, list[PodEnd]]:
        found: dict[int, list[PodEnd]] = {}
        for id_, placed in self._cycle.placed_workloads.items():
            workload, at = placed.workload, self._ends[id_]
            reserved, cpu, memory = workload.reserved, workload.cpu_milli, workload.memory_mib
            for pod in placed.pods:
                spot = self._cycle.ledger.spot(pod)
                if spot is not None:
                    found.setdefault(spot[0], []).append(PodEnd(at, reserved, spot[1], cpu, memory))
        return found
