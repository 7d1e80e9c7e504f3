"""One pool while a cycle decides: start, preempt, reserve, offer again (sections 3 to 7)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduling.engine.backfill.passing import Backfill, BlockedHead
from scheduling.engine.backfill.start_reservation import EarliestStart, End, reserve_start
from scheduling.engine.model.plan import Allocation, Rule
from scheduling.engine.model.snapshot import PodPlacement, Queueing, WorkloadInfo
from scheduling.engine.placement.ledger import HeldPods
from scheduling.engine.pool.blocked_queue import BlockedQueue
from scheduling.engine.pool.pool_state import PoolState
from scheduling.engine.preemption.candidate_domains import among, candidate_domains, find_victims
from scheduling.engine.preemption.policy import claim_of
from scheduling.engine.preemption.search import PreemptionContext, PreemptionRequest, VictimSet
from scheduling.engine.preemption.victims import PlacedWorkload, Victim
from scheduling.engine.queue.candidate import Blocked, Candidate, Cause
from scheduling.engine.queue.order import C, CandidateQueue, Level, Line
from scheduling.engine.quota.tree import ROOT


@dataclass(frozen=True, slots=True)
class PreemptedPods:
    """Pods of a workload that were preempted for a candidate, and by which rule."""

    by: Candidate
    rule: Rule
    level: str | None
    pods: tuple[PodPlacement, ...]
    lost_gpu_ms: int


class PoolCycle:
    """The decisions of one cycle in one pool, as they are made on its state.

    ``started`` are the workloads that the cycle starts, ``touched`` those that it takes pods from or gives pods to;
    ``taken`` says, by workload, which pods were preempted for what.
    """

    def __init__(self, state: PoolState, now: int) -> None:
        self.state = state
        self.pool = state.pool
        self.nodes = state.nodes
        self.pool_nodes = state.pool_nodes
        self.tree = state.tree
        self.requests = state.requests
        self.now = now
        self.accounts = state.accounts
        self.charges = state.charges
        self.allocations = state.allocations
        self.placed_workloads = state.placed_workloads
        self.ledger = state.ledger
        self.entitled = state.entitled
        self.preemption_policy = state.preemption_policy
        self.given = state.given
        self.ratio = state.ratio
        self.started: dict[str, PlacedWorkload] = {}
        self.candidates: dict[str, Candidate] = {}
        self.touched: dict[str, PlacedWorkload] = {}
        self.taken: dict[str, list[PreemptedPods]] = {}
        self._reserves = self.pool.policy.queueing is not Queueing.BEST_EFFORT_FIFO
        self.backfill = self._backfill()
        self.waiting = BlockedQueue(self.backfill, self.ledger)
        self.queue: CandidateQueue[Candidate]

    def _backfill(self) -> Backfill:
        return Backfill(self.pool.policy, self.ledger, self.preemption_policy, self.now)

    def open(self, levels: Mapping[Level, Line[Candidate]]) -> None:
        """Line up the candidates, by level and leaf."""
        self.state.next_entitled[:] = self.entitled
        self.queue = self.queue_of(levels)

    def queue_of(self, levels: Mapping[Level, Line[C]]) -> CandidateQueue[C]:
        """Candidates in the order of the queue."""
        return CandidateQueue(self.tree, self.ratio, levels)

    @property
    def head(self) -> BlockedHead | None:
        """The first blocked workload of the order."""
        return self.backfill.head

    @property
    def is_shut(self) -> bool:
        """Whether nothing may pass the head at all."""
        return self.backfill.shut

    # --- Hints ------------------------------------------------------------------------------------------------

    def may_stop(self) -> bool:
        """Whether certainly nothing left in the queue could start, preempt or become the head."""
        return False

    def skip_turns(self) -> bool:
        """Give the next candidates turns that would certainly change nothing; whether there was any."""
        return False

    def might_preempt(self, candidate: Candidate) -> bool:
        """Whether a candidate might find victims as things stand; false only if it certainly finds none."""
        return self.preemption_policy.may_preempt(candidate)

    # --- Starting ---------------------------------------------------------------------------------------------

    def try_start(self, candidate: Candidate) -> Blocked | None:
        """Start the candidate if it fits without victims; else say what blocks it."""
        blocked = self.quota_stops(candidate)
        if blocked is not None:
            return blocked
        ahead = self._ahead()
        if self.backfill.shut:
            return Blocked(candidate, Cause.BEHIND, ahead=ahead)
        placements = self.backfill.place(
            candidate, range(candidate.pods), in_time=self.backfill.in_time(candidate.workload)
        )
        if isinstance(placements, Cause):
            return Blocked(candidate, placements, ahead=ahead)
        self.start(candidate, placements, ())
        return None

    def _ahead(self) -> str:
        """The name of the head, if there is one."""
        return self.head.candidate.workload.name if self.head else ""

    def quota_stops(self, candidate: Candidate) -> Blocked | None:
        """Whether guarantee or ceiling blocks it as things stand."""
        blocked = self.guarantee_stops(candidate)
        if blocked is not None:
            return blocked
        passed = self.charges.ceiling_passed(
            candidate.leaf, candidate.next_milli, reserved=candidate.reserved
        )
        return None if passed is None else Blocked(candidate, Cause.CEILING, passed.available, passed)

    def guarantee_stops(self, candidate: Candidate) -> Blocked | None:
        """Whether a reserved one finds too little left of its guarantees."""
        if not candidate.reserved:
            return None
        available = self.charges.available(candidate.leaf)
        return Blocked(candidate, Cause.GUARANTEE, available) if available < candidate.next_milli else None

    def start(self, candidate: Candidate, placements: Sequence[PodPlacement], victims: Iterable[str]) -> None:
        """Count a workload that has its place."""
        placed = PlacedWorkload(
            candidate.workload, candidate.leaf, tuple(placements), self.state.clock, fresh=True
        )
        placed.victims = sorted(set(victims))
        self.placed_workloads[candidate.id] = self.started[candidate.id] = placed
        self.candidates[candidate.id] = candidate
        self.count(placed, placed.milli)

    def scale_up(self, placed: PlacedWorkload, pod: PodPlacement) -> None:
        """Count a pod that a workload has got above its minimum."""
        self.touch(placed)
        placed.grow(pod)
        self.count(placed, pod.milli)

    def count(self, placed: PlacedWorkload, milli: int) -> None:
        """Count what a workload gets in this cycle."""
        self.accounts.usage.add(placed.leaf, milli, reserved=placed.workload.reserved)
        for branch in (ROOT, *self.tree.paths[placed.leaf]):
            self.given[branch] += milli
        if placed.workload.reserved:
            self._charge(placed, milli)
        self.queue.touch(placed.leaf)

    def _charge(self, placed: PlacedWorkload, milli: int) -> None:
        """Charge (more of) a reserved workload to the guarantees."""
        parts = list(self.allocations.get(placed.workload.id, ()))
        for part in self.charges.charge(placed.leaf, milli):
            at = next((at for at, each in enumerate(parts) if each.team == part.team), None)
            if at is None:
                parts.append(part)
            else:
                parts[at] = Allocation(part.team, parts[at].milli + part.milli)
        self.allocations[placed.workload.id] = parts

    def touch(self, placed: PlacedWorkload) -> None:
        """Remember a workload that was placed before and is going to be changed."""
        if placed.workload.id not in self.started:
            self.touched[placed.workload.id] = placed

    # --- Starting with victims --------------------------------------------------------------------------------

    def find_victims(self, candidate: Candidate, blocked: Blocked) -> VictimSet | None:
        """The victims with which a candidate that was blocked could start here."""
        if blocked.cause is Cause.GUARANTEE or self.backfill.shut or not self.might_preempt(candidate):
            return None
        if not candidate.reserved:
            self.state.entitle_next()
        request = PreemptionRequest(
            claim_of(candidate),
            candidate.request,
            candidate.pods,
            self.backfill.closed_to(candidate),
            None if candidate.reserved else self.preemption_policy.highest_victim(candidate.priority),
        )
        return self._search(candidate, request)

    def _search(self, candidate: Candidate, request: PreemptionRequest) -> VictimSet | None:
        """Search all that could be victims."""
        widest = self._held_pods(candidate)
        if widest is None:
            return None
        context = PreemptionContext(self.ledger, self.charges, self.preemption_policy)
        eligible = self._eligible(for_reserved=candidate.reserved)
        places = candidate_domains(context, request, widest, eligible)
        return find_victims(context, request, widest, among(context, eligible), places)

    def _held_pods(self, candidate: Candidate) -> HeldPods | None:
        """How many of its pods the domains of its widest level hold; ``None`` if it has none."""
        levels = self.nodes.domains(candidate.request)
        return HeldPods(self.ledger, candidate.request, levels[-1]) if levels else None

    def _eligible(self, *, for_reserved: bool) -> list[PlacedWorkload]:
        """The workloads that may be victims at all: elastic ones that this cycle has not started."""
        elastic = self.state.preemptible().values()
        return [each for each in elastic if for_reserved or not self.state.is_protected(each)]

    def start_with(self, candidate: Candidate, victims: VictimSet) -> None:
        """Let the victims go and start the candidate on what they leave."""
        for victim, rule in zip(victims.victims, victims.rules, strict=True):
            self._preempt(candidate, victim, rule)
        placements = self._place_on_freed(candidate)
        self.start(candidate, placements, (victim.placed.workload.id for victim in victims.victims))

    def _preempt(self, candidate: Candidate, victim: Victim, rule: Rule) -> None:
        """Let one victim go."""
        placed = victim.placed
        self.touch(placed)
        level = self.preemption_policy.level(claim_of(candidate), victim.claim)
        taken = PreemptedPods(candidate, rule, level, victim.pods, victim.lost_gpu_ms)
        self.taken.setdefault(placed.workload.id, []).append(taken)
        placed.lose(frozenset(pod.pod_index for pod in victim.pods))
        self.ledger.leave(placed.workload, victim.pods)
        self.accounts.usage.add(placed.leaf, -victim.milli, reserved=False)
        self.queue.touch(placed.leaf)
        if victim.whole:
            del self.placed_workloads[placed.workload.id]

    def _place_on_freed(self, candidate: Candidate) -> tuple[PodPlacement, ...]:
        """Place a preemptor whose victims have left: outside what is reserved for the head, if possible."""
        request, indexes = candidate.request, range(candidate.pods)
        domains = self.nodes.domains(request)
        earliest = self.head.earliest if self.head is not None else EarliestStart(None, {})
        placements = self.ledger.place(request, indexes, domains=domains, excluded=earliest.extra)
        if placements is not None:
            earliest.take(self.ledger, request, placements)
            return placements
        return self.ledger.place(request, indexes, domains=domains) or ()

    # --- Waiting ----------------------------------------------------------------------------------------------

    def estimate(self, candidate: Candidate) -> EarliestStart:
        """The start reservation that the candidate would get."""
        held = self._held_pods(candidate)
        if held is None:
            return EarliestStart(None, {})
        yielding = self._yielding() if candidate.reserved else []
        ends = self._ends(reserved_only=candidate.reserved)
        peak = self.pool.policy.peak if candidate.pool_request.off_peak else None
        return reserve_start(
            self.ledger, candidate.request, candidate.pods, ends, yielding, tally=held, peak=peak
        )

    def _yielding(self) -> Sequence[tuple[WorkloadInfo, Sequence[PodPlacement]]]:
        """What reserved work may preempt at any time, so that it is not in its way."""
        return [(each.workload, each.pods) for each in self.placed_workloads.values() if not each.reserved]

    def _ends(self, *, reserved_only: bool) -> Iterable[End]:
        """When what is placed ends, as far as it has an end, in order. What is over its time ends now."""
        policy = self.pool.policy
        ends = [(each.ends_at(policy), id_, each) for id_, each in self.placed_workloads.items()]
        known = [
            (at, id_, each)
            for at, id_, each in ends
            if at is not None and (each.reserved or not reserved_only)
        ]
        return [(at, each.workload, each.pods) for at, _, each in sorted(known, key=lambda end: end[:2])]

    def wait(self, blocked: Blocked, earliest: EarliestStart | None = None) -> None:
        """Let a candidate wait; the first one that lacks only a place gets the start reservation."""
        self.waiting.add(blocked)
        if blocked.cause is Cause.PLACE and self._reserves and self.head is None:
            self._reserve(blocked.candidate, earliest or self.estimate(blocked.candidate))

    def _reserve(self, candidate: Candidate, earliest: EarliestStart) -> None:
        self.backfill.reserve(candidate, earliest)

    def withdraw(self, workload: str) -> None:
        """Forget a waiting workload that has started in another pool."""
        if self.waiting.forget(workload) and self.head and self.head.candidate.id == workload:
            self.offer_again(head_left=True)

    def offer_again(self, elsewhere: Sequence[Candidate] = (), *, head_left: bool = False) -> list[str]:
        """Offer what victims left over to the queue again, from its head, without victims; returns those that start.

        If no blocked workload could start on it, nothing is offered, and the start reservation stays. ``elsewhere`` are
        those that wait in other pools and could use this one too: they come last. Where the head has left the queue,
        another workload is the head now, even if none starts.
        """
        if not elsewhere and not head_left and not self.waiting.any_might_start():
            return []
        self.backfill.open()
        started = []
        offered = deque(self._to_offer_again())
        while offered:
            blocked = offered.popleft()
            again = self.try_start(blocked.candidate)
            if again is None:
                started.append(blocked.candidate.id)
                self.waiting.forget(blocked.candidate.id)
                offered = deque(each for each in self._to_offer_again() if each.number > blocked.number)
            else:
                self.wait(again)
        started.extend(candidate.id for candidate in elsewhere if self.try_start(candidate) is None)
        return started

    def _to_offer_again(self) -> Sequence[Blocked]:
        """The workloads that are offered something again, in order."""
        return self.waiting.to_offer_again()
