"""Backfill: finding a place where the start reservation of the first blocked workload allows it (section 6).

What comes after that workload, the head, may pass it only if it ends before the head starts, or takes nothing of its
nodes that it needs, or could be preempted by it anyway and nothing that was held back could use what it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from scheduling.engine.backfill.start_reservation import EarliestStart
from scheduling.engine.model.snapshot import PodPlacement, Policy, Queueing, WorkloadInfo
from scheduling.engine.placement.domains import Domain
from scheduling.engine.placement.free import NodeFree, pods_in
from scheduling.engine.placement.ledger import Ledger
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.preemption.policy import PreemptionPolicy, claim_of
from scheduling.engine.preemption.victims import PlacedWorkload, is_spared
from scheduling.engine.queue.candidate import Candidate, Cause
from scheduling.engine.quota.tree import ROOT


@dataclass(slots=True)
class BlockedHead:
    """The first blocked workload of the order, and its start reservation.

    ``nodes`` are those that are reserved; ``held_back`` the requests that found a place but were not let past.
    """

    candidate: Candidate
    earliest: EarliestStart
    nodes: frozenset[int] = field(init=False)
    held_back: dict[PodRequest, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = frozenset(self.earliest.extra)


class Backfill:
    """Places the pods of one pool's candidates, in their turn, without delaying the head.

    The ``_is_...`` and ``_note_...`` methods are hints: here nothing is known, and each place is looked for. Where one
    says that there is none, a look must find none.
    """

    def __init__(self, policy: Policy, ledger: Ledger, preemption_policy: PreemptionPolicy, now: int) -> None:
        self._policy = policy
        self._strict = policy.queueing is Queueing.STRICT_FIFO
        self._ledger = ledger
        self._preemption_policy = preemption_policy
        self._now = now
        self.head: BlockedHead | None = None

    def reserve(self, candidate: Candidate, earliest: EarliestStart) -> None:
        """Give the first blocked workload its start reservation."""
        self.head = BlockedHead(candidate, earliest)

    def open(self) -> None:
        """Forget the head: the queue is offered something from its beginning."""
        self.head = None

    @property
    def shut(self) -> bool:
        """Whether nothing may pass the head at all."""
        return self._strict and self.head is not None

    # --- Placing --------------------------------------------------------------------------------------------

    def place(
        self,
        candidate: Candidate,
        indexes: Iterable[int],
        *,
        in_time: bool,
        domains: Iterable[Iterable[Domain]] | None = None,
        emptying: bool = True,
    ) -> tuple[PodPlacement, ...] | Cause:
        """Place these pods and hold what they take, or say whether they find no place or none that is open to them.

        First outside the nodes of the head, then there too. ``in_time``: they end before the head starts. ``domains``
        instead of all that the request allows; ``emptying`` false: on idle devices only.
        """
        ledger, request, indexes = self._ledger, candidate.request, tuple(indexes)
        known = domains is None
        if known and self.is_without_place(request, len(indexes), outside_head=False):
            return Cause.PLACE
        head = None if in_time else self.head
        if head is not None and not (
            known and self.is_without_place(request, len(indexes), outside_head=True)
        ):
            placements = ledger.place(
                request, indexes, domains=domains, excluded=head.earliest.extra, emptying=emptying
            )
            if placements is not None:
                head.earliest.take(ledger, request, placements)
                self._note_placed()
                return placements
            if known:
                self._note_without_place(request, len(indexes), outside_head=True)
        if known and head is not None and self._is_held_back(request, len(indexes)):
            return Cause.BEHIND
        placements = ledger.place(request, indexes, domains=domains, emptying=emptying)
        if placements is None:
            if known:
                self._note_without_place(request, len(indexes), outside_head=False)
            return Cause.PLACE
        if head is None or (self.yields(candidate) and not self._wanted(request, placements, held=True)):
            self._note_placed()
            return placements
        ledger.undo(request, placements)
        if known:
            self._note_held_back(request, placements)
        head.held_back[request] = None
        return Cause.BEHIND

    # --- What may pass the head -------------------------------------------------------------------------------

    def in_time(self, workload: WorkloadInfo, placed: PlacedWorkload | None = None) -> bool:
        """Whether a workload (placed already: ``placed``) ends before the head starts."""
        if placed is None:
            return self._ends_in_time(workload.time_limit_ms)
        return self._is_in_time(placed.ends_at(self._policy))

    def _ends_in_time(self, time_limit_ms: int | None) -> bool:
        limit = self._policy.limit_ms(time_limit_ms)
        return self._is_in_time(None if limit is None else self._now + limit)

    def _is_in_time(self, ends: int | None) -> bool:
        at = None if self.head is None else self.head.earliest.at
        return at is not None and ends is not None and ends <= at

    def yields(self, candidate: Candidate) -> bool:
        """Whether the head could preempt the candidate when its time comes."""
        if self.head is None or candidate.reserved:
            return False
        head, at = self.head.candidate, self.head.earliest.at
        if head.reserved:
            return True
        if is_spared(candidate.workload, self._policy, 0 if at is None else at - self._now):
            return False
        path = (ROOT, *self._preemption_policy.accounts.tree.paths[candidate.leaf])
        counted = dict.fromkeys(path, -candidate.next_milli)
        return self._preemption_policy.rule(claim_of(head), claim_of(candidate), counted) is not None

    def _wanted(self, taker: PodRequest, placements: Iterable[PodPlacement], *, held: bool) -> bool:
        """Whether a request that was held back could use what these pods take (``held``: hold already)."""
        if self.head is None or not self.head.held_back:
            return False
        free: dict[int, NodeFree] = {}
        for pod in placements:
            spot = self._ledger.spot(pod)
            if spot is not None:
                node_free = free.setdefault(spot[0], self._ledger.later.free[spot[0]].copy())
                if held:
                    node_free.change(spot[1], taker.cpu_milli, taker.memory_mib, 1)
        class_of = self._ledger.nodes.class_of
        return any(
            class_of[rank] == usable.number and pods_in(node_free, usable.costs, request)
            for request in self.head.held_back
            for usable in self._ledger.nodes.usable(request)
            for rank, node_free in free.items()
        )

    def closed_to(self, candidate: Candidate) -> frozenset[int]:
        """The nodes on which a candidate may have no victims: those reserved for the head, unless it may pass that."""
        if self.head is None or self.in_time(candidate.workload):
            return frozenset()
        may_pass = not self.head.held_back and self.yields(candidate)
        return frozenset() if may_pass else self.head.nodes

    # --- Hints ------------------------------------------------------------------------------------------------

    def is_without_place(self, request: PodRequest, pods: int, *, outside_head: bool) -> bool:  # noqa: ARG002
        """Whether so many pods are known to find no place (outside what is reserved for the head)."""
        return False

    def _is_held_back(self, request: PodRequest, pods: int) -> bool:  # noqa: ARG002
        """Whether so many pods, which find a place on the nodes of the head only, are known not to be let past."""
        return False

    def _note_without_place(self, request: PodRequest, pods: int, *, outside_head: bool) -> None:
        """So many pods have found no place."""

    def _note_held_back(self, request: PodRequest, placements: Sequence[PodPlacement]) -> None:
        """So many pods have found a place there, and were not let past."""

    def _note_placed(self) -> None:
        """Pods have been placed."""
