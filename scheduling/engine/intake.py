"""Who stands in which queue, and who cannot start there whatever comes free (sections 3, 5 and 9)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduling.engine import reasons
from scheduling.engine.books import Books
from scheduling.engine.lines import Rows
from scheduling.engine.model.plan import Reason, ReasonCode
from scheduling.engine.model.snapshot import GPU_MILLI, RESERVED_PRIORITY, Dependency, Pool, Share, Workload
from scheduling.engine.obstacles import Obstacle, of_nodes, of_quota
from scheduling.engine.placement.pod_request import PodRequest, PodRequests
from scheduling.engine.queue.candidate import Candidate, PoolRequest
from scheduling.engine.quota.charging import Charges
from scheduling.engine.quota.tree import Tree
from scheduling.engine.row import Row

Candidacies = tuple[Candidate, ...]
"""A workload in every pool where it could ever run, in its order of preference."""
Entries = dict[str, Candidacies]
"""The candidacies of those who stand in the queues of several pools, by id."""
Out = tuple[str | None, Reason]
"""The pool that the reason speaks of, and why a workload is in no queue."""
CODES = tuple(ReasonCode)
"""In the order in which they are looked for."""
LIMITS_KEPT = 1_000
"""For so many time limits the footprints of those who ask the same are remembered."""
FREE = Dependency.NONE


class _Most(dict[int, int]):
    """By leaf the largest workload of one class that guarantees and ceilings of a pool could ever admit."""

    def __init__(self, charges: Charges, *, reserved: bool) -> None:
        super().__init__()
        self._charges = charges
        self._reserved = reserved

    def __missing__(self, leaf: int) -> int:
        most = self[leaf] = self._charges.most_ever(leaf, reserved=self._reserved)
        return most


class _Rows(dict[tuple[int, int], Row]):
    """Those who wait, by leaf and priority."""

    def __missing__(self, key: tuple[int, int]) -> Row:
        leaf, priority = key
        row = self[key] = Row(leaf, reserved=priority >= RESERVED_PRIORITY)
        return row


class _PoolRequests(dict[int | None, PoolRequest]):
    """By time limit what those take of a pool who ask the same."""

    def __init__(self, like: PoolRequest) -> None:
        super().__init__()
        self._like = like

    def __missing__(self, limit_ms: int | None) -> PoolRequest:
        if len(self) >= LIMITS_KEPT:
            self.clear()
        pool_request = self[limit_ms] = replace(self._like, time_limit_ms=limit_ms)
        return pool_request


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """What all workloads that ask the same have in common in one pool: ``milli`` is what their minimum of pods takes.

    ``first`` are the footprints where it is the first of the pools they could run in, else they are ``later``;
    ``most``: of elastic ones, and of reserved ones. ``paused``: the pool if it is; ``resumed``: what would keep them
    out then if it were not.
    """

    pool_id: str
    milli: int
    first: _PoolRequests
    later: _PoolRequests
    obstacle: Obstacle | None
    charges: Charges
    most: tuple[_Most, _Most]
    paused: Pool | None = None
    resumed: Obstacle | None = None


class Intake:
    """Tells those who stand in a queue from those who cannot start."""

    def __init__(self, books: Mapping[str, Books], tree: Tree, requests: PodRequests) -> None:
        self._books = books
        self._tree = tree
        self._requests = requests
        self._fits: dict[tuple[Hashable, ...], tuple[_Fit, ...]] = {}
        self._most = {
            pool_id: (_Most(each.charges, reserved=False), _Most(each.charges, reserved=True))
            for pool_id, each in books.items()
        }

    def sort(
        self, workloads: Iterable[Workload], now: int, entries: Entries, out: dict[str, Out]
    ) -> dict[str, Rows]:
        """Returns those who join the queue of each pool; who joins several is one of the ``entries``, who joins none is
        ``out``, with the reason.
        """
        known, leaf_of = self._fits, self._tree.leaf_of
        queues: dict[str, Rows] = {pool_id: _Rows() for pool_id in self._books}
        for workload in workloads:
            if workload.backing_off_until is not None or workload.dependency is not FREE or workload.held:
                reason = reasons.of_workload(workload, now)
                if reason is not None:
                    out[workload.id] = (None, reason)
                    continue
            fits = known.get(_what_it_asks(workload)) or self._fits_of(workload)
            leaf, priority = leaf_of[workload.team], workload.priority
            reserved = priority >= RESERVED_PRIORITY
            found = [fit for fit in fits if fit.obstacle is None and fit.milli <= fit.most[reserved][leaf]]
            if len(found) == 1:
                fit = found[0]
                queues[fit.pool_id][leaf, priority].join(workload, fit.first[workload.time_limit_ms])
            elif found:
                entries[workload.id] = candidacies = _candidacies(workload, leaf, found)
                for candidate in candidacies:
                    queues[candidate.pool_request.pool][leaf, priority].add(candidate)
            else:
                out[workload.id] = self._obstacle(workload, leaf, fits)
        return queues

    def _fits_of(self, workload: Workload) -> tuple[_Fit, ...]:
        """What the pools it names say to it, in its order of preference."""
        request = self._requests.of(workload)
        named = self._books if workload.pools is None else dict.fromkeys(workload.pools)
        books = [self._books[pool_id] for pool_id in named if pool_id in self._books]
        fits = self._fits[_what_it_asks(workload)] = tuple(
            self._fit(each, request, workload) for each in books
        )
        return fits

    def _fit(self, books: Books, request: PodRequest, workload: Workload) -> _Fit:
        """What pause and nodes of a pool say to it."""
        pool, nodes, pods = books.pool, books.nodes, workload.min_pods
        paused = Obstacle(reasons.pool_paused(pool)) if pool.paused else None
        of_its_nodes = of_nodes(books.pool_nodes, request, pods)
        pod = nodes.pod_milli(request)
        wanted = min(workload.pods, nodes.most_together(request))
        first = PoolRequest(pool.id, request, pod, pods, wanted, None)
        later = replace(first, counts=False)
        return _Fit(
            pool.id,
            pods * pod,
            _PoolRequests(first),
            _PoolRequests(later),
            paused or of_its_nodes,
            books.charges,
            self._most[pool.id],
            pool if paused else None,
            of_its_nodes if paused else None,
        )

    def _obstacle(self, workload: Workload, leaf: int, fits: Sequence[_Fit]) -> Out:
        """What keeps it out of all pools: nodes, or guarantees and ceilings.

        Of several pools' reasons the first that is not for the user to mend, else the one of the pool where he is
        nearest to a place: the last by the order of the codes. That it is so in the others too is said besides.
        """
        obstacles: list[Out] = []
        named = workload.pools is not None
        for fit in fits:
            obstacle = self._obstacle_in(fit, workload, leaf)
            if obstacle is not None:
                out = (fit.pool_id, obstacle.reason)
                if obstacle.is_for_others:
                    reason = obstacle.reason
                    return fit.pool_id, reason if named or len(fits) < 2 else reasons.nowhere_else(reason)
                obstacles.append(out)
        pool, reason = max(
            obstacles,
            key=lambda out: CODES.index(out[1].code),
            default=(None, reasons.no_pool(named=named)),
        )
        return pool, reasons.in_no_pool(reason, named=named) if len(obstacles) > 1 else reason

    def _obstacle_in(self, fit: _Fit, workload: Workload, leaf: int) -> Obstacle | None:
        """What keeps it out of one pool: of a paused one the pause only where it could start if that were over."""
        if fit.paused is None:
            return self._obstacle_of(fit, fit.obstacle, workload, leaf)
        found = self._obstacle_of(fit, fit.resumed, workload, leaf)
        if found is None or found.back_milli is not None:
            return fit.obstacle
        return replace(found, reason=reasons.impossible_and_paused(found.reason, fit.paused))

    def _obstacle_of(
        self, fit: _Fit, obstacle: Obstacle | None, workload: Workload, leaf: int
    ) -> Obstacle | None:
        """An obstacle or a limit; nodes that are out of service only where no limit would keep it out if they were
        back."""
        milli = fit.milli
        if obstacle is not None:
            if obstacle.back_milli is None:
                return self._with_example(obstacle, fit, workload, leaf)
            milli = obstacle.back_milli
        pool = self._books[fit.pool_id].pool
        limit = of_quota(self._tree, fit.charges, leaf, workload, milli, pool=pool)
        if limit is not None:
            return Obstacle(limit)
        return None if obstacle is None else self._with_example(obstacle, fit, workload, leaf)

    def _with_example(self, obstacle: Obstacle, fit: _Fit, workload: Workload, leaf: int) -> Obstacle:
        """The obstacle with the first of its examples that guarantees and ceilings admit."""
        if obstacle.examples is None:
            return obstacle
        most = fit.most[workload.reserved][leaf]
        admitted = (each for each in obstacle.examples if each.pods * each.gpus * GPU_MILLI <= most)
        return replace(obstacle, reason=reasons.in_smaller_pods(obstacle.reason, next(admitted, None)))


def _candidacies(workload: Workload, leaf: int, fits: Iterable[_Fit]) -> Candidacies:
    """A workload in the several pools that could take it."""
    limit_ms = workload.time_limit_ms
    pool_requests = [(fit.later if at else fit.first)[limit_ms] for at, fit in enumerate(fits)]
    found = tuple([Candidate(workload, leaf, pool_request) for pool_request in pool_requests])
    for candidate in found:
        candidate.several = True
    return found


def _what_it_asks(workload: Workload) -> tuple[Hashable, ...]:
    """All of a workload that decides where it could lie; of what is asked most, numbers and words only."""
    request, topology = workload.request, workload.topology
    return (
        request.milli if isinstance(request, Share) else request,
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
    )
