"""Finding a place where the start reservation of the first blocked workload allows it (section 6).

Who comes after that workload may pass it only if he is over before it starts, or takes nothing of its nodes that it
needs, or could be preempted by it anyway and nobody who was held back could use what he takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scheduling.engine.ledger import Ledger
from scheduling.engine.model.snapshot import PodPlacement, Policy, Queueing, Workload
from scheduling.engine.place import NOTHING_KEPT, might_hold
from scheduling.engine.placement.domains import Domain
from scheduling.engine.placement.free import NodeFree, pods_in
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.preemption.policy import PreemptionPolicy, claim_of
from scheduling.engine.queue.candidate import Candidate, Cause
from scheduling.engine.queueing import Kept
from scheduling.engine.quota.tree import ROOT
from scheduling.engine.standing import Standing

Failed = tuple[int, int]
"""How many pods found no place, and how many nodes had been freed by then."""
NEVER: Mapping[PodRequest, Failed] = {}


@dataclass(slots=True)
class Head:
    """The first blocked workload of the order, and what is kept for it.

    ``nodes`` are those that are kept; ``held_back`` the requests of those who found a place but were not let past.
    """

    candidate: Candidate
    kept: Kept
    nodes: frozenset[int] = field(init=False)
    held_back: dict[PodRequest, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = frozenset(self.kept.spare)


class Gate:
    """Places the pods of one pool's candidates, in their turn, without keeping the head waiting."""

    def __init__(
        self,
        policy: Policy,
        ledger: Ledger,
        preemption_policy: PreemptionPolicy,
        now: int,
        failed: Mapping[PodRequest, Failed] = NEVER,
    ) -> None:
        self._policy = policy
        self._strict = policy.queueing is Queueing.STRICT_FIFO
        self._ledger = ledger
        self._preemption_policy = preemption_policy
        self._now = now
        self.head: Head | None = None
        self._no_place: dict[tuple[PodRequest, bool], Failed] = {
            (request, False): each for request, each in failed.items()
        }
        self._too_near: set[tuple[PodRequest, int]] = set()
        """Who found a place, and was not let past: nobody is who asks the same, as the one before could use it."""
        self._too_near_at = 0
        self._found_there: dict[PodRequest, int] = {}
        """The node where one pod found a place, and was not let past."""

    @property
    def failed(self) -> dict[PodRequest, Failed]:
        """What has found no place at all, for the next cycle on the same ledger."""
        return {request: failed for (request, masked), failed in self._no_place.items() if not masked}

    def keep_for(self, candidate: Candidate, kept: Kept) -> None:
        """Give the first blocked workload its start reservation."""
        self.head = Head(candidate, kept)
        self._forget_head()

    def open(self) -> None:
        """Forget the head: the queue is offered something from its beginning."""
        self.head = None
        self._forget_head()

    @property
    def shut(self) -> bool:
        """Whether nobody may pass at all."""
        return self._strict and self.head is not None

    def place(
        self,
        candidate: Candidate,
        indexes: Iterable[int],
        *,
        in_time: bool,
        domains: Iterable[Iterable[Domain]] | None = None,
        emptying: bool = True,
    ) -> tuple[PodPlacement, ...] | Cause:
        """Place these pods and hold what they take, or say whether they find no place or none that is for them.

        ``in_time``: they are over before the head starts. ``domains`` instead of all that the request allows;
        ``emptying`` false: on idle devices only.
        """
        ledger, request, indexes = self._ledger, candidate.request, tuple(indexes)
        remembered = domains is None
        if remembered and self.fails_again(request, len(indexes), masked=False):
            return Cause.PLACE
        head = None if in_time else self.head
        if head is not None and not (remembered and self.fails_again(request, len(indexes), masked=True)):
            placed = ledger.place(request, indexes, domains=domains, kept=head.kept.spare, emptying=emptying)
            if placed is not None:
                head.kept.take(ledger, request, placed)
                self._too_near.clear()
                return placed
            self._remember(request, len(indexes), masked=True, use=remembered)
        if remembered and head is not None and self._is_held_back_again(request, len(indexes)):
            return Cause.BEHIND
        placed = ledger.place(request, indexes, domains=domains, emptying=emptying)
        if placed is None:
            self._remember(request, len(indexes), masked=False, use=remembered)
            return Cause.PLACE
        if head is None or (self.yields(candidate) and not self._wanted(request, placed, held=True)):
            self._too_near.clear()
            return placed
        ledger.undo(request, placed)
        if remembered and not request.bare:
            self._too_near.add((request, len(indexes)))
            if len(placed) == 1:
                self._found_there[request] = self._ledger.nodes.rank[placed[0].node]
        head.held_back[request] = None
        return Cause.BEHIND

    def keeps_out_again(self, candidate: Candidate) -> Cause | None:
        """What certainly keeps a candidate from a place, as it has kept others who ask the same; ``None`` where it has
        to be tried."""
        request, pods = candidate.request, candidate.pods
        if self.shut:
            return None
        if self.fails_again(request, pods, masked=False):
            return Cause.PLACE
        if self.head is None or self.in_time(candidate.workload):
            return None
        behind = self.fails_again(request, pods, masked=True) and self._is_held_back_again(request, pods)
        return Cause.BEHIND if behind else None

    def might_fit(self, request: PodRequest, pods: int) -> bool:
        """Whether so many pods of the request might find a place, whoever it is for."""
        return self._is_too_near(request, pods) or not self._fails(request, pods, masked=False)

    def might_start(self, request: PodRequest, pods: int, limit_ms: int | None) -> bool:
        """Whether so many pods with this time limit might find a place that is open to them; false only if they
        certainly do not."""
        if self.fails_again(request, pods, masked=False):
            return False
        passes = self.head is None or self._ends_in_time(limit_ms)
        if not passes and self._is_too_near(request, pods):
            return False
        placed = self._ledger.place(request, range(pods))
        if placed is None:
            self._remember(request, pods, masked=False, use=True)
            return False
        self._ledger.undo(request, placed)
        return (
            passes
            or not self._fails(request, pods, masked=True)
            or not self._wanted(request, placed, held=False)
        )

    def _is_too_near(self, request: PodRequest, pods: int) -> bool:
        """Whether so many pods of the request found a place, were not let past, and nothing has changed since."""
        if self._too_near_at != len(self._ledger.freed):
            self._too_near_at = len(self._ledger.freed)
            self._too_near.clear()
        return (request, pods) in self._too_near

    def _is_held_back_again(self, request: PodRequest, pods: int) -> bool:
        """Whether such pods, who find no place but on the nodes of the head, certainly are not let past there."""
        return self._is_too_near(request, pods) or self._finds_place_again(request, pods)

    def _finds_place_again(self, request: PodRequest, pods: int) -> bool:
        """Whether one pod still has a place where the one before found his, and was not let past. Then it is not let
        past either, wherever it finds one: as long as the head is the same, who was held back could use it."""
        if pods > 1 or request not in self._found_there:
            return False
        rank = self._found_there[request]
        return self._ledger.nodes.holds(request, rank, self._ledger.later.free[rank])

    def _fails(self, request: PodRequest, pods: int, *, masked: bool) -> bool:
        """Whether so many pods of the request find no place as things stand."""
        if self.fails_again(request, pods, masked=masked):
            return True
        kept = self.head.kept.spare if masked and self.head is not None else NOTHING_KEPT
        placed = self._ledger.place(request, range(pods), kept=kept)
        if placed is None:
            self._remember(request, pods, masked=masked, use=True)
            return True
        self._ledger.undo(request, placed)
        return False

    def fails_again(self, request: PodRequest, pods: int, *, masked: bool) -> bool:
        """Whether so many pods found no place before, and no node that could hold one has been freed since.

        ``masked``: outside what is kept for the head.
        """
        failed = self._no_place.get((request, masked))
        if failed is None or pods < failed[0]:
            return False
        freed, later = self._ledger.freed, self._ledger.later
        if failed[1] == len(freed):
            return True
        for rank in freed[failed[1] :] if might_hold(later, request) else ():
            if self._ledger.nodes.holds(request, rank, later.free[rank]):
                del self._no_place[request, masked]
                return False
        self._no_place[request, masked] = (failed[0], len(freed))
        return True

    def _remember(self, request: PodRequest, pods: int, *, masked: bool, use: bool) -> None:
        if use:
            self._no_place[request, masked] = (pods, len(self._ledger.freed))

    def _forget_head(self) -> None:
        """Forget what depends on whose start is reserved, and where."""
        self._no_place = {key: failed for key, failed in self._no_place.items() if not key[1]}
        self._too_near.clear()
        self._found_there.clear()

    def in_time(self, workload: Workload, standing: Standing | None = None) -> bool:
        """Whether a workload (placed already: ``standing``) is over before the head starts."""
        if standing is None:
            return self._ends_in_time(workload.time_limit_ms)
        if self.head is None or self.head.kept.at is None:
            return False
        ends = standing.ends_at(self._now, self._policy.default_time_limit_ms)
        return ends is not None and ends <= self.head.kept.at

    def _ends_in_time(self, limit_ms: int | None) -> bool:
        """Whether a newcomer with this time limit is over before the head starts."""
        if self.head is None or self.head.kept.at is None:
            return False
        limit = self._policy.default_time_limit_ms if limit_ms is None else limit_ms
        return limit is not None and self._now + limit <= self.head.kept.at

    def yields(self, candidate: Candidate) -> bool:
        """Whether the head could preempt the candidate when its time comes."""
        if self.head is None or candidate.reserved:
            return False
        head, policy, at = self.head.candidate, self._policy, self.head.kept.at
        if head.reserved:
            return True
        most = policy.max_preemptions
        if most is not None and candidate.workload.preemptions_24h >= most:
            return False
        if policy.min_runtime_ms and (at is None or self._now + policy.min_runtime_ms > at):
            return False
        path = (ROOT, *self._preemption_policy.accounts.tree.paths[candidate.leaf])
        counted = dict.fromkeys(path, -candidate.next_milli)
        return self._preemption_policy.rule(claim_of(head), claim_of(candidate), counted) is not None

    def _wanted(self, taker: PodRequest, placed: Iterable[PodPlacement], *, held: bool) -> bool:
        """Whether somebody who was held back could use what such pods take there (``held``: hold already)."""
        if self.head is None or not self.head.held_back:
            return False
        free: dict[int, NodeFree] = {}
        for pod in placed:
            spot = self._ledger.spot(pod)
            if spot is not None:
                node_free = free.setdefault(spot[0], self._ledger.later.free[spot[0]].copy())
                if held:
                    node_free.change(spot[1], taker.cpu_milli, taker.memory_mib, 1)
        kind_of = self._ledger.nodes.class_of
        return any(
            kind_of[rank] == usable.number and pods_in(node_free, usable.costs, request)
            for request in self.head.held_back
            for usable in self._ledger.nodes.usable(request)
            for rank, node_free in free.items()
        )
