"""Who stands in which queue, and who cannot start there whatever comes free (sections 3, 5 and 9)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from scheduling.engine import reasons
from scheduling.engine.ask import Ask, Asks
from scheduling.engine.books import Books
from scheduling.engine.candidate import Candidate
from scheduling.engine.obstacles import of_nodes, of_quota
from scheduling.engine.tree import Tree
from scheduling.engine.types import (
    RESERVED_PRIORITY,
    Dependency,
    Reason,
    ReasonCode,
    ReasonKind,
    Share,
    Workload,
)

Candidacies = dict[str, Candidate]
"""Where a workload could ever run, by pool, in its order of preference."""
Out = tuple[str | None, Reason]
"""The pool that the reason speaks of, and why a workload is in no queue."""
CODES = tuple(ReasonCode)
"""In the order in which they are looked for."""
FREE = Dependency.NONE


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
        self._most_ever: dict[tuple[str, int, bool], int] = {}

    def sort(
        self, workloads: Iterable[Workload], now: int, entries: dict[str, Candidacies], out: dict[str, Out]
    ) -> None:
        """Put each that waits among the ``entries`` of the queues or, with the reason, among those who are ``out``."""
        for workload in workloads:
            if workload.backing_off_until is not None or workload.dependency is not FREE or workload.held:
                reason = reasons.of_workload(workload, now)
                if reason is not None:
                    out[workload.id] = (None, reason)
                    continue
            found = self._candidacies(workload)
            if isinstance(found, dict):
                entries[workload.id] = found
            else:
                out[workload.id] = found

    def _candidacies(self, workload: Workload) -> Candidacies | Out:
        """Where it could ever run, or what keeps it out of all pools."""
        leaf = self._tree.leaf_of[workload.team]
        found: Candidacies = {}
        obstacles: list[Out] = []
        for fit in self._fits.get(_what_it_asks(workload)) or self._fits_of(workload):
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
        return found or _most_hopeful(obstacles)

    def _fits_of(self, workload: Workload) -> tuple[_Fit, ...]:
        """What the pools it names say to it, in its order of preference."""
        ask = self._asks.of(workload)
        named = self._books if workload.pools is None else dict.fromkeys(workload.pools)
        books = [self._books[pool_id] for pool_id in named if pool_id in self._books]
        fits = self._fits[_what_it_asks(workload)] = tuple(self._fit(each, ask, workload) for each in books)
        return fits

    def _fit(self, books: Books, ask: Ask, workload: Workload) -> _Fit:
        """What pause and nodes of a pool say to it."""
        pool, fleet, pods = books.pool, books.fleet, workload.min_pods
        obstacle = reasons.pool_paused(pool) if pool.paused else of_nodes(fleet, books.whole_fleet, ask, pods)
        wanted = min(workload.pods, fleet.most_together(ask))
        return _Fit(books, pool.id, ask, fleet.pod_milli(ask), wanted, obstacle)

    def _of_quota(self, fit: _Fit, leaf: int, workload: Workload) -> Reason | None:
        """What guarantees and ceilings keep out."""
        milli = workload.min_pods * fit.pod_milli
        key = (fit.pool_id, leaf, workload.priority >= RESERVED_PRIORITY)
        most = self._most_ever.get(key)
        if most is None:
            most = self._most_ever[key] = fit.books.charges.most_ever(leaf, reserved=key[-1])
        return None if milli <= most else of_quota(self._tree, fit.books.charges, leaf, workload, milli)


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
    )


def _most_hopeful(obstacles: list[Out]) -> Out:
    """Of several pools' reasons the first that is not for the user to mend, else the one of the pool where he is
    nearest to a place: the last by the order of the codes."""
    for pool_id, reason in obstacles:
        if reason.kind is not ReasonKind.CHANGE:
            return pool_id, reason
    return max(obstacles, key=lambda out: CODES.index(out[1].code), default=(None, reasons.no_pool()))
