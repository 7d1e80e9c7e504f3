"""What is remembered of places that were looked for, so that they are not looked for again (sections 5 and 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.acceleration.node_index import might_hold
from scheduling.engine.backfill.passing import Backfill
from scheduling.engine.backfill.start_reservation import EarliestStart
from scheduling.engine.model.snapshot import PodPlacement, Policy
from scheduling.engine.placement.node_index import NOTHING_EXCLUDED
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.preemption.policy import PreemptionPolicy
from scheduling.engine.queue.candidate import Candidate, Cause

Failed = tuple[int, int]
"""How many pods found no place, and how many nodes had been freed by then."""
NEVER: Mapping[PodRequest, Failed] = {}


class KeptBackfill(Backfill):
    """Backfill that remembers which requests found no place, and which were not let past."""

    _ledger: KeptLedger

    def __init__(
        self,
        policy: Policy,
        ledger: KeptLedger,
        preemption_policy: PreemptionPolicy,
        now: int,
        failed: Mapping[PodRequest, Failed] = NEVER,
    ) -> None:
        super().__init__(policy, ledger, preemption_policy, now)
        self._no_place: dict[tuple[PodRequest, bool], Failed] = {
            (request, False): each for request, each in failed.items()
        }
        self._too_near: set[tuple[PodRequest, int]] = set()
        """Requests that found a place and were not let past: no equal one is, as the one before could use it."""
        self._too_near_at = 0
        self._found_there: dict[PodRequest, int] = {}
        """The node where one pod found a place, and was not let past."""

    @property
    def failed(self) -> dict[PodRequest, Failed]:
        """What has found no place at all, for the next cycle on the same ledger."""
        return {
            request: failed for (request, outside_head), failed in self._no_place.items() if not outside_head
        }

    def reserve(self, candidate: Candidate, earliest: EarliestStart) -> None:
        """Give the first blocked workload its start reservation."""
        super().reserve(candidate, earliest)
        self._forget_head()

    def open(self) -> None:
        """Forget the head: the queue is offered something from its beginning."""
        super().open()
        self._forget_head()

    def keeps_out_again(self, candidate: Candidate) -> Cause | None:
        """What certainly keeps a candidate from a place, as it has kept others with the same request; ``None`` where it
        has to be tried."""
        request, pods = candidate.request, candidate.pods
        if self.shut:
            return None
        if self.is_without_place(request, pods, outside_head=False):
            return Cause.PLACE
        if self.head is None or self.in_time(candidate.workload):
            return None
        behind = self.is_without_place(request, pods, outside_head=True) and self._is_held_back(request, pods)
        return Cause.BEHIND if behind else None

    def might_fit(self, request: PodRequest, pods: int) -> bool:
        """Whether so many pods of the request might find a place, whatever it is for."""
        return self._is_too_near(request, pods) or not self._fails(request, pods, outside_head=False)

    def might_start(self, request: PodRequest, pods: int, limit_ms: int | None) -> bool:
        """Whether so many pods with this time limit might find a place that is open to them; false only if they
        certainly do not."""
        if self.is_without_place(request, pods, outside_head=False):
            return False
        passes = self.head is None or self._ends_in_time(limit_ms)
        if not passes and self._is_too_near(request, pods):
            return False
        placements = self._ledger.place(request, range(pods))
        if placements is None:
            self._note_without_place(request, pods, outside_head=False)
            return False
        self._ledger.undo(request, placements)
        return (
            passes
            or not self._fails(request, pods, outside_head=True)
            or not self._wanted(request, placements, held=False)
        )

    def _is_too_near(self, request: PodRequest, pods: int) -> bool:
        """Whether so many pods of the request found a place, were not let past, and nothing has changed since."""
        if self._too_near_at != len(self._ledger.freed):
            self._too_near_at = len(self._ledger.freed)
            self._too_near.clear()
        return (request, pods) in self._too_near

    def _is_held_back(self, request: PodRequest, pods: int) -> bool:
        """Whether such pods, which find no place but on the nodes of the head, certainly are not let past there."""
        return self._is_too_near(request, pods) or self._finds_place_again(request, pods)

    def _finds_place_again(self, request: PodRequest, pods: int) -> bool:
        """Whether one pod still has a place where the one before found one, and was not let past. Then it is not let
        past either, wherever it finds one: as long as the head is the same, what was held back could use it."""
        if pods > 1 or request not in self._found_there:
            return False
        rank = self._found_there[request]
        return self._ledger.later.arrays.holds(request, rank, self._ledger.later.free[rank])

    def _fails(self, request: PodRequest, pods: int, *, outside_head: bool) -> bool:
        """Whether so many pods of the request find no place as things stand."""
        if self.is_without_place(request, pods, outside_head=outside_head):
            return True
        earliest = self.head.earliest.extra if outside_head and self.head is not None else NOTHING_EXCLUDED
        placements = self._ledger.place(request, range(pods), excluded=earliest)
        if placements is None:
            self._note_without_place(request, pods, outside_head=outside_head)
            return True
        self._ledger.undo(request, placements)
        return False

    def is_without_place(self, request: PodRequest, pods: int, *, outside_head: bool) -> bool:
        """Whether so many pods found no place before, and no node that could hold one has been freed since.

        ``outside_head``: outside what is kept for the head.
        """
        failed = self._no_place.get((request, outside_head))
        if failed is None or pods < failed[0]:
            return False
        freed, later = self._ledger.freed, self._ledger.later
        if failed[1] == len(freed):
            return True
        for rank in freed[failed[1] :] if might_hold(later, request) else ():
            if later.arrays.holds(request, rank, later.free[rank]):
                del self._no_place[request, outside_head]
                return False
        self._no_place[request, outside_head] = (failed[0], len(freed))
        return True

    def _note_without_place(self, request: PodRequest, pods: int, *, outside_head: bool) -> None:
        """So many pods have found no place."""
        self._no_place[request, outside_head] = (pods, len(self._ledger.freed))

    def _note_held_back(self, request: PodRequest, placements: Sequence[PodPlacement]) -> None:
        """So many pods have found a place there, and were not let past."""
        if not request.bare:
            self._too_near.add((request, len(placements)))
            if len(placements) == 1:
                self._found_there[request] = self._ledger.nodes.rank[placements[0].node]

    def _note_placed(self) -> None:
        """Pods have been placed."""
        self._too_near.clear()

    def _forget_head(self) -> None:
        """Forget what depends on whose start is reserved, and where."""
        self._no_place = {key: failed for key, failed in self._no_place.items() if not key[1]}
        self._too_near.clear()
        self._found_there.clear()
