"""The report of a pool, worked out once for workloads alike (section 9)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from scheduling.acceleration.kept_timeline import KeptTimeline
from scheduling.engine.model.plan import Reason
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.pool.pool_cycle import PoolCycle
from scheduling.engine.queue.candidate import Blocked, Cause
from scheduling.engine.reasons.eta import Forecast
from scheduling.engine.reasons.figures import Allocations, Parts
from scheduling.engine.reasons.report import PoolReport
from scheduling.engine.reasons.waiting import FreeFigures, WaitReasons


class KeptForecast(Forecast):
    """ETAs from timelines that look at few nodes."""

    def _timeline(self, *, without_elastic: bool) -> KeptTimeline:
        cycle, free = self._cycle, self._cycle.ledger.later.free
        return KeptTimeline(cycle.nodes, free, cycle.now, self._pods, without_elastic=without_elastic)


class KeptWaitReasons(WaitReasons):
    """Reasons of which workloads have one that are blocked by the same, and for which as much is free."""

    def __init__(self, cycle: PoolCycle) -> None:
        super().__init__(cycle)
        self._known: dict[tuple[Hashable, ...], Reason] = {}
        self._free: dict[PodRequest, FreeFigures] = {}
        self._closed: dict[tuple[PodRequest, int], Sequence[int]] = {}

    def of(self, blocked: Blocked) -> Reason:
        """The reason of one."""
        alike = self._alike(blocked)
        found = self._known.get(alike)
        if found is None:
            found = self._known[alike] = super().of(blocked)
        return found

    def _alike(self, blocked: Blocked) -> tuple[Hashable, ...]:
        """What the reason depends on."""
        candidate, cause = blocked.candidate, blocked.cause
        milli, request = candidate.next_milli, candidate.request
        if cause is Cause.PLACE:
            closed = self.closed(request, candidate.pods)
            return (cause, milli, request.topology.required, self.free(request), closed)
        if cause is Cause.BEHIND:
            return (cause, milli, blocked.ahead, self.free(request).usable)
        return (cause, milli, candidate.leaf, candidate.reserved, blocked.available, blocked.ceiling)

    def free(self, request: PodRequest) -> FreeFigures:
        """What is free for the pods of a request."""
        found = self._free.get(request)
        if found is None:
            found = self._free[request] = super().free(request)
        return found

    def closed(self, request: PodRequest, pods: int) -> Sequence[int]:
        """The nodes out of service that would take a pod now."""
        found = self._closed.get((request, pods))
        if found is None:
            found = self._closed[request, pods] = super().closed(request, pods)
        return found


class KeptAllocations(Allocations):
    """Allocations of which workloads have one object that are charged to the same."""

    def __init__(self, cycle: PoolCycle) -> None:
        super().__init__(cycle)
        self._alike: dict[tuple[str, int, int], Parts] = {}

    def _parts(self, team: str, inside: int, bursts: int) -> Parts:
        found = self._alike.get((team, inside, bursts))
        if found is None:
            found = self._alike[team, inside, bursts] = super()._parts(team, inside, bursts)
        return found


class KeptPoolReport(PoolReport):
    """The report of a kept pool."""

    def _allocations(self) -> KeptAllocations:
        return KeptAllocations(self.cycle)

    def _wait_reasons(self) -> KeptWaitReasons:
        return KeptWaitReasons(self.cycle)

    def _forecast(self) -> KeptForecast:
        return KeptForecast(self.cycle)
