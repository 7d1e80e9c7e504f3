"""Workloads whose turn came and that could not start, in the order of their turns (sections 6 and 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from scheduling.engine.backfill.passing import Backfill
from scheduling.engine.placement.ledger import Ledger
from scheduling.engine.placement.node_index import NOTHING_EXCLUDED
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.queue.candidate import Blocked, Cause


class BlockedQueue:
    """Blocked workloads, by id."""

    def __init__(self, backfill: Backfill, ledger: Ledger) -> None:
        self._backfill = backfill
        self._ledger = ledger
        self._rows: dict[str, Blocked] = {}
        self._turns = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def values(self) -> Iterable[Blocked]:
        """The blocked workloads, in the order of their first turns."""
        return self._rows.values()

    def add(self, blocked: Blocked) -> None:
        """Let a candidate wait. One that waits already keeps its place."""
        before = self._rows.get(blocked.candidate.id)
        if before is None:
            self._turns += 1
        blocked.number = self._turns if before is None else before.number
        self._rows[blocked.candidate.id] = blocked

    def forget(self, workload: str) -> bool:
        """Take out a workload; whether it waited here."""
        return self._rows.pop(workload, None) is not None

    # --- What is offered again --------------------------------------------------------------------------------

    def any_might_start(self) -> bool:
        """Whether a workload that waits could start on what victims left over.

        A rule, no short cut: only then the queue is offered it again.
        """
        kinds = dict.fromkeys(
            (each.cause, each.candidate.request, each.candidate.pods) for each in self.values()
        )
        return any(self._might_start(*kind) for kind in kinds)

    def _might_start(self, cause: Cause, request: PodRequest, pods: int) -> bool:
        """Whether what blocks such workloads may be gone now that something was given back."""
        if cause in (Cause.GUARANTEE, Cause.CEILING):
            return cause is Cause.CEILING
        head = self._backfill.head
        outside_head = head is not None and cause is Cause.BEHIND
        if self._backfill.is_without_place(request, pods, outside_head=outside_head):
            return False
        earliest = head.earliest.extra if head and outside_head else NOTHING_EXCLUDED
        placements = self._ledger.place(request, range(pods), excluded=earliest)
        self._ledger.undo(request, placements or ())
        return placements is not None

    def to_offer_again(self) -> Sequence[Blocked]:
        """The workloads that are offered something again: all, in order."""
        return list(self._rows.values())
