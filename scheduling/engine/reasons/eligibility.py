"""Eligibility: in which queues a workload stands, or why in none whatever comes free (sections 3, 5 and 9)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from scheduling.engine.model.plan import Expiry, Reason, ReasonCode
from scheduling.engine.model.snapshot import (
    GPU_MILLI,
    GpuShare,
    PoolInfo,
    WorkloadInfo,
)
from scheduling.engine.placement.nodes import PoolNodes
from scheduling.engine.placement.pod_request import PodRequest, PodRequests
from scheduling.engine.queue.candidate import Candidate, PoolRequest
from scheduling.engine.quota.charging import Charges
from scheduling.engine.quota.tree import Tree
from scheduling.engine.reasons import sentences, time_sentences
from scheduling.engine.reasons.misfits import Obstacle, of_nodes, of_quota, with_example

Candidacies = tuple[Candidate, ...]
"""A workload in every pool where it could ever run, in its order of preference."""
Entries = dict[str, Candidacies]
"""The candidacies of workloads in the queues of several pools, by id."""
Out = tuple[str | None, Reason]
"""The pool that the reason speaks of, and why a workload is in no queue."""
CODES = tuple(ReasonCode)
"""In the order in which they are looked for."""
BEFORE_PEAK_HOURS = frozenset({ReasonCode.HELD, ReasonCode.NOT_BEFORE})
"""What keeps a workload out of every queue and is looked for before the peak hours of its pools."""


class PoolView(NamedTuple):
    """What eligibility looks at of one pool: its nodes, its guarantees and ceilings."""

    pool_nodes: PoolNodes
    charges: Charges

    @property
    def pool(self) -> PoolInfo:
        """The pool."""
        return self.pool_nodes.in_service.pool


@dataclass(slots=True)
class SortedWorkloads:
    """Where workloads stand: ``candidates`` by pool, ``entries`` of those in several queues, those ``out`` of all, and
    those that have ``expired``."""

    candidates: dict[str, list[Candidate]]
    entries: Entries = field(default_factory=dict)
    out: dict[str, Out] = field(default_factory=dict)
    expired: dict[str, Expiry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class PoolFit:
    """What all workloads that ask the same have in common in one pool: what they request of it, without a time limit,
    and what keeps them out.

    ``paused``: the pool if it is; ``resumed``: what would keep them out if it were not.
    """

    pool_request: PoolRequest
    obstacle: Obstacle | None
    charges: Charges
    paused: PoolInfo | None = None
    resumed: Obstacle | None = None


class Eligibility:
    """Tells workloads that stand in a queue from those that cannot start, in these pools, given in their order."""

    def __init__(self, pools: Mapping[str, PoolView], tree: Tree, requests: PodRequests) -> None:
        self._pools = pools
        self._tree = tree
        self._requests = requests
        self._fits: dict[tuple[Hashable, ...], tuple[PoolFit, ...]] = {}
        self._peaks = {
            pool_id: peak for pool_id, each in pools.items() if (peak := each.pool.policy.peak) is not None
        }
        self._looked_at: int | None = None
        self._in_peak = frozenset[str]()

    def sort(
        self, workloads: Iterable[WorkloadInfo], now: int, beyond: Collection[str] = ()
    ) -> SortedWorkloads:
        """Where each of these workloads stands. Those ``beyond`` the limit of their array stand in no queue."""
        found = SortedWorkloads({pool_id: [] for pool_id in self._pools})
        for workload in workloads:
            if is_past_deadline(workload, now):
                found.expired[workload.id] = expiry(workload)
                continue
            out = self.out_for_now(workload, now)
            if out is not None:
                found.out[workload.id] = out
                continue
            if workload.id in beyond:
                found.out[workload.id] = (None, sentences.array_limit(workload))
                continue
            leaf, fits = self._tree.leaf_of[workload.team], self._fits_of(workload)
            admitting = self.in_hours(self.admitting(fits, workload, leaf), workload, now)
            candidacies = self.candidacies_in(workload, leaf, admitting)
            for candidate in candidacies:
                found.candidates[candidate.pool_request.pool].append(candidate)
            if len(candidacies) > 1:
                found.entries[workload.id] = candidacies
            if not candidacies:
                found.out[workload.id] = self._obstacle(workload, leaf, fits)
        return found

    def out_for_now(self, workload: WorkloadInfo, now: int) -> Out | None:
        """What keeps a workload out of every queue for now: of itself, or the peak hours of all pools that could
        admit it."""
        reason = sentences.of_workload(workload, now)
        if reason is not None and reason.code in BEFORE_PEAK_HOURS:
            return None, reason
        peak = None if workload.reserved or not self.in_peak(now) else self._peak_hours(workload, now)
        return peak or (None if reason is None else (None, reason))

    def _peak_hours(self, workload: WorkloadInfo, now: int) -> Out | None:
        """The reason of the pool whose peak ends first, where those of all that could admit a workload keep it out."""
        leaf = self._tree.leaf_of[workload.team]
        fits = self.admitting(self._fits_of(workload), workload, leaf)
        if not fits or self.in_hours(fits, workload, now):
            return None
        opens = [(fit.pool_request.pool, self._peaks[fit.pool_request.pool].opens_at(now)) for fit in fits]
        pool_id, at = min(opens, key=lambda each: (each[1] is None, each[1] or 0))
        pool = self._pools[pool_id].pool
        return pool_id, time_sentences.peak_hours(pool, at, deadline=workload.deadline)

    def in_hours(self, fits: list[PoolFit], workload: WorkloadInfo, now: int) -> list[PoolFit]:
        """Those of some pools that do not keep a workload out at this hour."""
        closed = self.in_peak(now)
        if workload.reserved or not closed:
            return fits
        return [
            fit for fit in fits if fit.pool_request.pool not in closed or not self.is_off_peak(fit, workload)
        ]

    def in_peak(self, now: int) -> frozenset[str]:
        """The pools in which it is peak."""
        if self._looked_at != now:
            self._looked_at = now
            self._in_peak = frozenset(pool_id for pool_id, peak in self._peaks.items() if peak.is_at(now))
        return self._in_peak

    def is_off_peak(self, fit: PoolFit, workload: WorkloadInfo) -> bool:
        """Whether a pool's peak hours keep a workload out."""
        peak, milli = self._peaks.get(fit.pool_request.pool), workload.pods * fit.pool_request.pod_milli
        return peak is not None and peak.concerns(
            reserved=workload.reserved, milli=milli, job_class=workload.job_class
        )

    def _fits_of(self, workload: WorkloadInfo) -> tuple[PoolFit, ...]:
        """What each pool that it names has for it, in its order of preference."""
        key = what_it_asks(workload)
        found = self._fits.get(key)
        if found is None:
            request = self._requests.of(workload)
            named = self._pools if workload.pools is None else dict.fromkeys(workload.pools)
            pools = [self._pools[pool_id] for pool_id in named if pool_id in self._pools]
            found = self._fits[key] = tuple(self._fit(each, request, workload) for each in pools)
        return found

    def _fit(self, setting: PoolView, request: PodRequest, workload: WorkloadInfo) -> PoolFit:
        pool, nodes, pods = setting.pool, setting.pool_nodes.in_service, workload.min_pods
        paused = Obstacle(sentences.pool_paused(pool)) if pool.paused else None
        of_its_nodes = of_nodes(setting.pool_nodes, request, pods)
        pod = nodes.pod_milli(request)
        wanted = min(workload.pods, nodes.most_together(request))
        takes = PoolRequest(pool.id, request, pod, pods, wanted, None)
        keeps_out = paused or of_its_nodes
        if paused is None:
            return PoolFit(takes, keeps_out, setting.charges)
        return PoolFit(takes, keeps_out, setting.charges, pool, of_its_nodes)

    def admitting(self, fits: Iterable[PoolFit], workload: WorkloadInfo, leaf: int) -> list[PoolFit]:
        """Those of some pools whose nodes, guarantees and ceilings could ever admit a workload."""
        return [
            fit
            for fit in fits
            if fit.obstacle is None
            and fit.pool_request.next_milli <= fit.charges.most_ever(leaf, reserved=workload.reserved)
        ]

    def candidacies_in(self, workload: WorkloadInfo, leaf: int, fits: Sequence[PoolFit]) -> Candidacies:
        """A workload in each of the pools that could admit it; its demand counts in the first."""
        requests = [self.pool_request(fit, workload, counts=not at) for at, fit in enumerate(fits)]
        found = tuple([Candidate(workload, leaf, each) for each in requests])
        for candidate in found:
            candidate.several = len(found) > 1
        return found

    def pool_request(self, fit: PoolFit, workload: WorkloadInfo, *, counts: bool) -> PoolRequest:
        """What a workload requests of a pool, with its time limit."""
        off_peak = self.is_off_peak(fit, workload)
        return replace(
            fit.pool_request, time_limit_ms=workload.time_limit_ms, counts=counts, off_peak=off_peak
        )

    def _obstacle(self, workload: WorkloadInfo, leaf: int, fits: Sequence[PoolFit]) -> Out:
        """What keeps it out of all pools: nodes, or guarantees and ceilings.

        Of several pools' reasons the first that is not for the user to mend, else the one of the pool where it is
        nearest to a place: the last by the order of the codes. That it is so in the others too is said besides.
        """
        obstacles: list[Out] = []
        named = workload.pools is not None
        for fit in fits:
            obstacle = self._obstacle_in(fit, workload, leaf)
            if obstacle is not None:
                out = (fit.pool_request.pool, obstacle.reason)
                if obstacle.is_for_others:
                    reason = obstacle.reason
                    return out[0], reason if named or len(fits) < 2 else sentences.nowhere_else(reason)
                obstacles.append(out)
        pool, reason = max(
            obstacles,
            key=lambda out: CODES.index(out[1].code),
            default=(None, sentences.no_pool(named=named)),
        )
        return pool, sentences.in_no_pool(reason, named=named) if len(obstacles) > 1 else reason

    def _obstacle_in(self, fit: PoolFit, workload: WorkloadInfo, leaf: int) -> Obstacle | None:
        """What keeps it out of one pool: of a paused one the pause only where it could start if that were over."""
        if fit.paused is None:
            return self._obstacle_of(fit, fit.obstacle, workload, leaf)
        found = self._obstacle_of(fit, fit.resumed, workload, leaf)
        if found is None or found.back_milli is not None:
            return fit.obstacle
        return replace(found, reason=sentences.impossible_and_paused(found.reason, fit.paused))

    def _obstacle_of(
        self, fit: PoolFit, obstacle: Obstacle | None, workload: WorkloadInfo, leaf: int
    ) -> Obstacle | None:
        """The obstacle or a limit; nodes out of service only where no limit would keep it out with them."""
        milli = fit.pool_request.next_milli
        if obstacle is not None:
            if obstacle.back_milli is None:
                return self._with_example(obstacle, fit, workload, leaf)
            milli = obstacle.back_milli
        pool = self._pools[fit.pool_request.pool].pool
        limit = of_quota(self._tree, fit.charges, leaf, workload, milli, pool=pool)
        if limit is not None:
            return Obstacle(limit)
        return None if obstacle is None else self._with_example(obstacle, fit, workload, leaf)

    def _with_example(self, obstacle: Obstacle, fit: PoolFit, workload: WorkloadInfo, leaf: int) -> Obstacle:
        """The obstacle with the first of its examples that guarantees and ceilings admit."""
        if obstacle.examples is None:
            return obstacle
        most = fit.charges.most_ever(leaf, reserved=workload.reserved)
        admitted = (each for each in obstacle.examples if each.pods * each.gpus * GPU_MILLI <= most)
        return replace(obstacle, reason=with_example(obstacle.reason, next(admitted, None)))


def is_past_deadline(workload: WorkloadInfo, now: int) -> bool:
    """Whether a pending workload ends now, because its deadline has passed."""
    return workload.deadline is not None and workload.deadline <= now


def expiry(workload: WorkloadInfo) -> Expiry:
    """The end of a workload whose deadline has passed."""
    return Expiry(workload.id, workload.on_deadline, time_sentences.deadline_passed(workload.deadline or 0))


def next_turn(workload: WorkloadInfo, now: int) -> int | None:
    """When time next changes where a pending workload stands, apart from peak hours; ``None`` if it never does."""
    times = (workload.backing_off_until, workload.start_after, workload.deadline)
    return min([at for at in times if at is not None and at > now], default=None)


def what_it_asks(workload: WorkloadInfo) -> tuple[Hashable, ...]:
    """All of a workload that decides where it could be placed; of what is asked most, numbers and words only."""
    request, topology = workload.request, workload.topology
    return (
        request.milli if isinstance(request, GpuShare) else request,
        workload.cpu_milli,
        workload.memory_mib,
        workload.pods,
        workload.min_pods,
        topology.required,
        topology.preferred,
        workload.pools,
        workload.gpu_types,
        workload.node_selector,
        workload.partition,
        workload.tolerations,
        workload.shares_with,
        workload.data,
    )
