"""Who stands in which queue, and who cannot start there whatever comes free (sections 3, 5 and 9)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from scheduling.engine import reasons
from scheduling.engine.ask import Ask, Asks
from scheduling.engine.books import Books
from scheduling.engine.candidate import Candidate
from scheduling.engine.obstacles import of_nodes, of_quota
from scheduling.engine.tree import Tree
from scheduling.engine.types import RESERVED_PRIORITY, Reason, ReasonCode, ReasonKind, Workload

Candidacies = dict[str, Candidate]
"""Where a workload could ever run, by pool, in its order of preference."""
Out = tuple[str | None, Reason]
"""The pool that the reason speaks of, and why a workload is in no queue."""
CODES = tuple(ReasonCode)
"""In the order in which they are looked for."""
what_it_asks = attrgetter(
    "request",
    "cpu_milli",
    "memory_mib",
    "pods",
    "min_pods",
    "topology",
    "pools",
    "gpu_types",
    "node_selector",
    "partition",
    "tolerations",
)
"""All of a workload that decides where it could lie."""
NOT_OUT: Out = (None, reasons.no_pool())
"""Of those who are in one: without meaning."""


@dataclass(frozen=True, slots=True)
class _Fit:
    """What all workloads that ask the same have in common in one pool."""

    books: Books
    pool_id: str
    ask: Ask
    pod_milli: int
    wanted_pods: int
    obstacle: Reason | None


class Intake:
    """Tells those who stand in a queue from those who cannot start."""

    def __init__(self, books: Mapping[str, Books], tree: Tree, asks: Asks) -> None:
        self._books = books
        self._tree = tree
        self._asks = asks
        self._fits: dict[tuple[Hashable, ...], tuple[_Fit, ...]] = {}
        self._of_quotas: dict[tuple[str, int, bool, int], Reason | None] = {}

    def candidacies(self, workload: Workload) -> tuple[Candidacies, Out]:
        """Where it could ever run, and what keeps it out elsewhere (without meaning, if it is kept out nowhere)."""
        leaf = self._tree.leaf_of[workload.team]
        found: Candidacies = {}
        obstacles: list[Out] = []
        for fit in self._fits.get(what_it_asks(workload)) or self._fits_of(workload):
            obstacle = fit.obstacle or self._of_quota(fit, leaf, workload)
            if obstacle is None:
                found[fit.pool_id] = Candidate(
                    workload,
                    leaf,
                    fit.ask,
                    fit.pod_milli,
                    pods=workload.min_pods,
                    wanted_pods=fit.wanted_pods,
                )
            else:
                obstacles.append((fit.pool_id, obstacle))
        if len(found) > 1:
            for candidate in found.values():
                candidate.several = True
        return found, NOT_OUT if found else _most_hopeful(obstacles)

    def _fits_of(self, workload: Workload) -> tuple[_Fit, ...]:
        """What the pools it names say to it, in its order of preference."""
        ask = self._asks.of(workload)
        named = self._books if workload.pools is None else dict.fromkeys(workload.pools)
        books = [self._books[pool_id] for pool_id in named if pool_id in self._books]
        fits = self._fits[what_it_asks(workload)] = tuple(self._fit(each, ask, workload) for each in books)
        return fits

    def _fit(self, books: Books, ask: Ask, workload: Workload) -> _Fit:
        """What pause and nodes of a pool say to it."""
        pool, fleet, pods = books.pool, books.fleet, workload.min_pods
        obstacle = reasons.pool_paused(pool) if pool.paused else of_nodes(fleet, books.whole_fleet, ask, pods)
        wanted = min(workload.pods, fleet.most_together(ask))
        return _Fit(books, pool.id, ask, fleet.pod_milli(ask), wanted, obstacle)

    def _of_quota(self, fit: _Fit, leaf: int, workload: Workload) -> Reason | None:
        """What guarantees and ceilings keep out; the same for all of one team, class and size."""
        milli = workload.min_pods * fit.pod_milli
        key = (fit.pool_id, leaf, workload.priority >= RESERVED_PRIORITY, milli)
        if key not in self._of_quotas:
            self._of_quotas[key] = of_quota(self._tree, fit.books.charges, leaf, workload, milli)
        return self._of_quotas[key]


def _most_hopeful(obstacles: list[Out]) -> Out:
    """Of several pools' reasons the first that is not for the user to mend, else the one of the pool where he is
    nearest to a place: the last by the order of the codes."""
    for pool_id, reason in obstacles:
        if reason.kind is not ReasonKind.CHANGE:
            return pool_id, reason
    return max(obstacles, key=lambda out: CODES.index(out[1].code), default=(None, reasons.no_pool()))
