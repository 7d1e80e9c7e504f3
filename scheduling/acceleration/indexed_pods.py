"""How many pods of a preemptor fit, while victims come and go (section 7)."""

from __future__ import annotations

import numpy as np

from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.engine.placement.domains import Level
from scheduling.engine.placement.free import pods_in
from scheduling.engine.placement.ledger import HeldPods
from scheduling.engine.placement.nodes import Where
from scheduling.engine.placement.pod_request import PodRequest

MANY_NODES = 64
"""From so many nodes, or changes of nodes, on it is worth while to count with arrays."""


class IndexedPods(HeldPods):
    """How many pods of a request the nodes of a level hold when all that stop are gone, and its domains as a whole.

    It lives as long as the ledger; :meth:`refresh` counts those nodes again that have changed meanwhile. ``risen`` is
    how many pods more its nodes have come to hold since it was made, by domain, never mind what they lost, and
    ``rises`` in all. ``pods`` has those nodes only that hold some, or did.
    """

    def __init__(self, ledger: KeptLedger, request: PodRequest, domains: Level) -> None:
        self.risen = [0] * len(domains)
        self.rises = 0
        self._later = ledger.later
        self._seen = len(ledger.later.changed)
        super().__init__(ledger, request, domains)

    def _where(self) -> Where:
        return self._later.arrays.where(self.domains)

    @property
    def _in_arrays(self) -> bool:
        """Whether there are so many nodes that it is worth while to count with arrays."""
        return len(self.where) >= MANY_NODES and not self._request.bare

    def _count_all(self) -> None:
        """Count on each node, or on all nodes at once."""
        if not self._in_arrays:
            for rank in self.where:
                self._count(rank)
            return
        numbers, pods = self._later.arrays.numbers_in(self.domains), self._later.scores(self._request).pods
        inside = np.flatnonzero((numbers >= 0) & (pods > 0))
        self.pods.update(dict(zip(inside.tolist(), pods[inside].tolist(), strict=True)))
        self.totals = np.bincount(numbers[inside], pods[inside], len(self.domains)).astype(np.int64).tolist()

    def refresh(self) -> IndexedPods:
        """Bring it up to date, and return it."""
        changed = self._later.changed
        if self._in_arrays and self._seen + MANY_NODES < len(changed):
            self._refresh_many()
        elif self._seen < len(changed):
            for rank in set(changed[self._seen :]):
                if rank in self.where:
                    self._count(rank)
        self._seen = len(changed)
        return self

    def _refresh_many(self) -> None:
        """Look at all nodes that may have changed at once, and count where one holds another number of pods."""
        pods = self._later.scores(self._request).pods
        ranks = np.flatnonzero(self._later.grid.stamp > self._seen)
        for rank, count in zip(ranks.tolist(), pods[ranks].tolist(), strict=True):
            if count != self.pods[rank] and rank in self.where:
                self._note(rank, count)

    def _count(self, rank: int) -> None:
        self._note(rank, pods_in(self._later.free[rank], self.where[rank][1], self._request))

    def _note(self, rank: int, pods: int) -> None:
        """Take note of how many pods a node holds."""
        more = pods - self.pods[rank]
        if not more:
            return
        number = self.where[rank][0]
        self.totals[number] += more
        self.pods[rank] = pods
        if more > 0:
            self.risen[number] += more
            self.rises += more
