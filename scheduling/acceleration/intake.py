"""Eligibility in bulk: many workloads are lined up at once, without a candidate made of each (section 4)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from scheduling.acceleration.leaf_candidates import LeafCandidates
from scheduling.acceleration.waiting_index import Rows
from scheduling.engine.model.plan import Expiry
from scheduling.engine.model.snapshot import RESERVED_PRIORITY, DependencyState, WorkloadInfo
from scheduling.engine.placement.pod_request import PodRequests
from scheduling.engine.queue.candidate import PoolRequest
from scheduling.engine.quota.tree import Tree
from scheduling.engine.reasons.eligibility import (
    Eligibility,
    Entries,
    Out,
    PoolFit,
    PoolView,
    expiry,
    is_past_deadline,
    what_it_asks,
)
from scheduling.engine.reasons.sentences import array_limit

FREE = DependencyState.NONE
POOL_REQUESTS_KEPT = 100_000
"""So many pool requests are remembered."""


class _Rows(dict[tuple[int, int], LeafCandidates]):
    """Those that wait, by leaf and priority."""

    def __missing__(self, key: tuple[int, int]) -> LeafCandidates:
        leaf, priority = key
        row = self[key] = LeafCandidates(leaf, reserved=priority >= RESERVED_PRIORITY)
        return row


class Intake(Eligibility):
    """Eligibility whose candidates join rows. Workloads that request the same of a pool have one pool request; which
    pools could admit them is remembered."""

    def __init__(self, pools: Mapping[str, PoolView], tree: Tree, requests: PodRequests) -> None:
        super().__init__(pools, tree, requests)
        self._admitting: dict[tuple[tuple[PoolFit, ...], int, bool], list[PoolFit]] = {}
        self._pool_requests: dict[tuple[PoolFit, int | None, bool, bool], PoolRequest] = {}

    def join(
        self,
        workloads: Iterable[WorkloadInfo],
        now: int,
        entries: Entries,
        out: dict[str, Out],
        expired: dict[str, Expiry],
        *,
        beyond: Collection[str] = (),
    ) -> dict[str, Rows]:
        """Returns the workloads that join the queue of each pool. One that joins several is one of the ``entries``, one
        that joins none is ``out``, with the reason, or has ``expired``. Those ``beyond`` the limit of their array join
        none.
        """
        known, leaf_of, admitting = self._fits, self._tree.leaf_of, self._admitting
        peak = bool(self.in_peak(now))
        # Without hours nothing is off peak: no need to look.
        requests = {} if self._peaks else self._pool_requests
        queues: dict[str, Rows] = {pool_id: _Rows() for pool_id in self._pools}
        for workload in workloads:
            if workload.deadline is not None and is_past_deadline(workload, now):
                expired[workload.id] = expiry(workload)
                continue
            timed = workload.backing_off_until is not None or workload.start_after is not None
            if timed or peak or workload.dependency is not FREE or workload.held:
                barred = self.out_for_now(workload, now)
                if barred is not None:
                    out[workload.id] = barred
                    continue
            if workload.array is not None and workload.id in beyond:
                out[workload.id] = (None, array_limit(workload))
                continue
            fits = known.get(what_it_asks(workload)) or self._fits_of(workload)
            leaf, priority = leaf_of[workload.team], workload.priority
            alike = (fits, leaf, priority >= RESERVED_PRIORITY)
            found = admitting.get(alike)
            if found is None:
                found = admitting[alike] = self.admitting(fits, workload, leaf)
            if peak:
                found = self.in_hours(found, workload, now)
            if len(found) == 1:
                fit = found[0]
                takes = requests.get((fit, workload.time_limit_ms, True, False))
                if takes is None:
                    takes = self.pool_request(fit, workload, counts=True)
                queues[takes.pool][leaf, priority].join(workload, takes)
            elif found:
                entries[workload.id] = candidacies = self.candidacies_in(workload, leaf, found)
                for candidate in candidacies:
                    queues[candidate.pool_request.pool][leaf, priority].add(candidate)
            else:
                out[workload.id] = self._obstacle(workload, leaf, fits)
        return queues

    def pool_request(self, fit: PoolFit, workload: WorkloadInfo, *, counts: bool) -> PoolRequest:
        """What a workload requests of a pool: one object for all with the same time limit."""
        off_peak = bool(self._peaks) and self.is_off_peak(fit, workload)
        key = (fit, workload.time_limit_ms, counts, off_peak)
        found = self._pool_requests.get(key)
        if found is None:
            if len(self._pool_requests) >= POOL_REQUESTS_KEPT:
                self._pool_requests.clear()
            found = self._pool_requests[key] = super().pool_request(fit, workload, counts=counts)
        return found
