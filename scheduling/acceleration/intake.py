"""Eligibility in bulk: many workloads are lined up at once, without a candidate made of each (section 4)."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.acceleration.leaf_candidates import LeafCandidates
from scheduling.acceleration.waiting_index import Rows
from scheduling.engine.model.snapshot import RESERVED_PRIORITY, DependencyState, WorkloadInfo
from scheduling.engine.reasons import sentences as reasons
from scheduling.engine.reasons.eligibility import Eligibility, Entries, Out, candidacies_in, what_it_asks

FREE = DependencyState.NONE


class _Rows(dict[tuple[int, int], LeafCandidates]):
    """Those who wait, by leaf and priority."""

    def __missing__(self, key: tuple[int, int]) -> LeafCandidates:
        leaf, priority = key
        row = self[key] = LeafCandidates(leaf, reserved=priority >= RESERVED_PRIORITY)
        return row


class Intake(Eligibility):
    """Eligibility whose candidates join rows."""

    def join(
        self, workloads: Iterable[WorkloadInfo], now: int, entries: Entries, out: dict[str, Out]
    ) -> dict[str, Rows]:
        """Returns those who join the queue of each pool; who joins several is one of the ``entries``, who joins none is
        ``out``, with the reason.
        """
        known, leaf_of = self._fits, self._tree.leaf_of
        queues: dict[str, Rows] = {pool_id: _Rows() for pool_id in self._pools}
        for workload in workloads:
            if workload.backing_off_until is not None or workload.dependency is not FREE or workload.held:
                reason = reasons.of_workload(workload, now)
                if reason is not None:
                    out[workload.id] = (None, reason)
                    continue
            fits = known.get(what_it_asks(workload)) or self._fits_of(workload)
            leaf, priority = leaf_of[workload.team], workload.priority
            reserved = priority >= RESERVED_PRIORITY
            found = [fit for fit in fits if fit.obstacle is None and fit.milli <= fit.most[reserved][leaf]]
            if len(found) == 1:
                fit = found[0]
                queues[fit.pool_id][leaf, priority].join(workload, fit.first[workload.time_limit_ms])
            elif found:
                entries[workload.id] = candidacies = candidacies_in(workload, leaf, found)
                for candidate in candidacies:
                    queues[candidate.pool_request.pool][leaf, priority].add(candidate)
            else:
                out[workload.id] = self._obstacle(workload, leaf, fits)
        return queues
