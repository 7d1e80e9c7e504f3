"""One pool while a cycle decides, on what is kept: the rules' cycle, with what lets it skip turns and searches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from scheduling.acceleration.cost_bounds import CostBounds
from scheduling.acceleration.eligible_victims import EligibleVictims
from scheduling.acceleration.ends import KeptEnds
from scheduling.acceleration.find_victims import find_victims
from scheduling.acceleration.heap_queue import HeapQueue, LevelHeaps
from scheduling.acceleration.indexed_pods import IndexedPods
from scheduling.acceleration.infeasible_turns import InfeasibleTurns, Turn
from scheduling.acceleration.kept_backfill import KeptBackfill
from scheduling.acceleration.kept_blocked_queue import KeptBlockedQueue
from scheduling.acceleration.kept_ledger import KeptLedger
from scheduling.acceleration.kept_pool import KeptPool
from scheduling.acceleration.search_context import SearchContext
from scheduling.acceleration.skipped_leaves import SkippedLeaves
from scheduling.acceleration.victim_groups import VictimGroup
from scheduling.engine.backfill.start_reservation import EarliestStart, End
from scheduling.engine.model.plan import Allocation, Rule
from scheduling.engine.model.snapshot import PodPlacement
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.pool.pool_cycle import PoolCycle
from scheduling.engine.preemption.policy import claim_of
from scheduling.engine.preemption.search import PreemptionRequest, VictimSet
from scheduling.engine.preemption.victims import PlacedWorkload, Victim
from scheduling.engine.queue.candidate import Blocked, Candidate, Cause
from scheduling.engine.queue.order import C, Level, Line

FIRST_LOOK = 64
"""After so many turns that changed nothing it is worth to look whether anything is left that could act."""
NEXT_LOOK = 256
"""The same, where something could act at the last look."""


class KeptCycle(PoolCycle):
    """The decisions of one cycle in one pool, as they are made on what is kept of it.

    :meth:`begin` works out the entitlements and lines up the candidates; :meth:`take_back` leaves what is kept as it
    were.
    """

    backfill: KeptBackfill
    waiting: KeptBlockedQueue
    queue: HeapQueue[Candidate]
    ledger: KeptLedger

    def __init__(self, kept_pool: KeptPool, now: int) -> None:
        self.kept_pool = kept_pool
        kept_pool.move_clock(now)
        super().__init__(kept_pool, now)
        self.ledger = kept_pool.ledger
        self.is_over = False
        self.infeasible = InfeasibleTurns()
        self.skipped_leaves = SkippedLeaves(kept_pool)
        self._infeasible_since = 0
        self._look_after = 0
        self._grown: list[tuple[PlacedWorkload, PodPlacement]] = []
        self._recharged: dict[str, list[Allocation]] = {}
        self._estimates: dict[tuple[PodRequest, int, bool, bool], EarliestStart] = {}
        self._looked_at: set[bool] = set()
        self._kept_ends = KeptEnds(kept_pool, self.started)
        self.waiting = KeptBlockedQueue(self.backfill, self.ledger, kept_pool.limited)

    def _backfill(self) -> KeptBackfill:
        return KeptBackfill(
            self.pool.policy, self.kept_pool.ledger, self.preemption_policy, self.now, self.kept_pool.failed
        )

    # --- Beginning and ending --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Work out the entitlements and line up the candidates."""
        self.kept_pool.work_out()
        self.kept_pool.next_entitled[:] = self.entitled
        self.ledger.begin()
        self._before = self.kept_pool.figures()
        self.queue = HeapQueue(
            self.kept_pool.level_heaps, self.kept_pool.lines, self.skipped_leaves.with_turns
        )
        self.skipped_leaves.queue = self.queue

    def queue_of(self, levels: Mapping[Level, Line[C]]) -> HeapQueue[C]:
        """Candidates in the order of the queue."""
        return HeapQueue(LevelHeaps(self.tree, self.ratio), levels)

    # --- Stopping early --------------------------------------------------------------------------------------

    def is_look_due(self) -> bool:
        """Whether so many have had turns that changed nothing that it is worth to look whether the cycle may stop."""
        if self._infeasible_since < self._look_after:
            return False
        return not self._reserves or self.backfill.head is not None

    def note_look(self) -> None:
        """Note that it was looked whether the cycle may stop."""
        self._look_after = max(NEXT_LOOK, 2 * self._infeasible_since)

    def skip_turns(self) -> bool:
        """Give candidates at the head of the queue their turns that are known to change nothing, up to the next that
        might act or stands in other queues too; whether there was one."""
        some = False
        while True:
            passed: list[Candidate] = []
            for each in self.queue.run():
                if not self._passes(each):
                    self.queue.remove_run(passed)
                    return some or bool(passed)
                passed.append(each)
            if not passed:
                return some
            self.queue.remove_run(passed)
            some = True

    def _passes(self, candidate: Candidate) -> bool:
        """Give a candidate its turn, if it is known to change nothing and it is not time to look whether to stop."""
        if candidate.several or (self.is_look_due() and not self.is_over):
            return False
        blocked = self._known_to_stop(candidate)
        if blocked is None:
            return False
        self.wait(blocked)
        return True

    def _known_to_stop(self, candidate: Candidate) -> Blocked | None:
        """What stops a candidate, if it is known without a try that it finds neither place nor victims."""
        if candidate.reserved:
            return self.guarantee_stops(candidate)
        cause = self._infeasible_cause(candidate)
        return None if cause is None else Blocked(candidate, cause, ahead=self._ahead())

    def _infeasible_cause(self, candidate: Candidate) -> Cause | None:
        """What keeps an elastic candidate from a place, if it is known that it finds neither that nor victims."""
        turn = self._turn_of(candidate)
        cause = self.infeasible.is_infeasible(turn)
        if cause is None:
            cause = self._known_to_keep(candidate)
            if cause is not None:
                self.infeasible.had_turn(turn, cause)
        return cause

    def _turn_of(self, candidate: Candidate) -> Turn:
        """What decides whether the turn of an elastic candidate changes nothing, as things stand."""
        most, head = self.pool.policy.max_preemptions, self.backfill.head
        held_back = head is not None and bool(head.held_back)
        return (
            candidate.leaf,
            candidate.priority,
            candidate.pool_request,
            most is not None and not held_back and candidate.workload.preemptions_24h >= most,
            held_back,
        )

    def _known_to_keep(self, candidate: Candidate) -> Cause | None:
        """The same, worked out."""
        if candidate.leaf in self.kept_pool.limited:
            return None
        cause = self.infeasible.keeps_from_place(candidate)
        if cause is None:
            cause = self.backfill.keeps_out_again(candidate)
            if cause is None:
                return None
            self.infeasible.found_no_place(candidate, cause)
        without_victims = self.infeasible.is_without_victims(self.queue.level, candidate.leaf)
        return None if not without_victims and self.might_preempt(candidate) else cause

    def take_back(self) -> None:
        """Leave what is kept as it was before the cycle."""
        self.ledger.rollback()
        self.kept_pool.set_figures(self._before)
        for id_ in self.started:
            del self.placed_workloads[id_]
            self.allocations.pop(id_, None)
        self.allocations.update(self._recharged)
        for id_, placed in self.touched.items():
            for eligible in self.kept_pool.victim_indexes():
                eligible.drop(placed)
            placed.shrunk = False
            placed.have(placed.workload.placements)
            self.placed_workloads[id_] = placed
            self.kept_pool.enlist(placed)
        self.kept_pool.failed = self.backfill.failed

    # --- Starting -------------------------------------------------------------------------------------------

    def try_start(self, candidate: Candidate) -> Blocked | None:
        """Start the candidate if it fits without victims; else say what blocks it."""
        blocked = super().try_start(candidate)
        if blocked is not None and blocked.cause in (Cause.PLACE, Cause.BEHIND) and not self.backfill.shut:
            self.infeasible.found_no_place(candidate, blocked.cause)
        return blocked

    def start(self, candidate: Candidate, placements: Sequence[PodPlacement], victims: Iterable[str]) -> None:
        """Count a workload that has its place."""
        if self.is_over:
            raise RuntimeError(
                f"{candidate.id} could have started, but the cycle has stopped before its turn."
            )
        super().start(candidate, placements, victims)
        self.skipped_leaves.note_start(candidate, self.started[candidate.id].milli)

    def scale_up(self, placed: PlacedWorkload, pod: PodPlacement) -> None:
        """Count a pod that a workload has got above its minimum."""
        if not self._grown:
            self._before_growth = self.kept_pool.figures()
        self._grown.append((placed, pod))
        for eligible in self.kept_pool.victim_indexes():
            eligible.drop(placed)
        super().scale_up(placed, pod)

    @contextmanager
    def as_before_growth(self) -> Iterator[None]:
        """Have things stand for a while as they did before workloads scaled up."""
        after = self.kept_pool.figures()
        self.kept_pool.set_figures(self._before_growth if self._grown else after)
        for placed, pod in reversed(self._grown):
            placed.pods = tuple([each for each in placed.pods if each != pod])
            self.ledger.undo(self.requests.of(placed.workload), [pod])
            self.ledger.note_freed([pod])
            self.queue.touch(placed.leaf)
        yield
        for placed, pod in self._grown:
            placed.pods = (*placed.pods, pod)
            self.ledger.hold(self.requests.of(placed.workload), [pod])
        self.kept_pool.set_figures(after)

    def count(self, placed: PlacedWorkload, milli: int) -> None:
        """Count what a workload gets in this cycle. What was known of turns and searches is known no more."""
        self._infeasible_since, self._look_after = 0, FIRST_LOOK
        self.infeasible.forget()
        self._estimates.clear()
        self.kept_pool.note_moved(placed.leaf)
        super().count(placed, milli)

    def _charge(self, placed: PlacedWorkload, milli: int) -> None:
        """Charge (more of) a reserved workload to the guarantees, and remember what it was charged to before."""
        id_ = placed.workload.id
        if id_ in self.allocations and id_ not in self.started:
            self._recharged.setdefault(id_, self.allocations[id_])
        super()._charge(placed, milli)

    # --- Starting with victims ------------------------------------------------------------------------------

    def might_preempt(self, candidate: Candidate) -> bool:
        """Whether a candidate might find victims as things stand; false only if it certainly finds none."""
        leaf, priority = candidate.leaf, candidate.priority
        if self.is_over or not super().might_preempt(candidate):
            return False
        context = self.context(reserved=candidate.reserved)
        closed = partial(self.backfill.closed_to, candidate)
        infeasible = context.searches.known_infeasible(
            leaf, priority, candidate.next_milli, candidate.request, candidate.pods
        )
        if infeasible is not None and (not infeasible or infeasible <= closed()):
            return False
        claim = claim_of(candidate)
        if not context.searches.any_at_once(claim):
            return False
        return context.might_take(
            claim, candidate.request, candidate.pods, closed
        ) and not self.infeasible.has_failed(candidate, closed())

    def _search(self, candidate: Candidate, request: PreemptionRequest) -> VictimSet | None:
        """Search, where it might find victims as things stand."""
        context = self.context(reserved=candidate.reserved)
        found = find_victims(context, request) if context.might_take_as_of_now(request) else None
        if found is None:
            self.infeasible.failed_search(candidate, request.closed)
        return found

    def _preempt(self, candidate: Candidate, victim: Victim, rule: Rule) -> None:
        """Let one victim go."""
        placed = victim.placed
        self.kept_pool.note_moved(placed.leaf)
        victim_indexes = [eligible for eligible in self.kept_pool.victim_indexes() if eligible.drop(placed)]
        super()._preempt(candidate, victim, rule)
        self.skipped_leaves.note(placed.leaf, -victim.milli, reserved=False)
        for eligible in () if victim.whole else victim_indexes:
            eligible.add(placed)

    def group_might_do(self, group: VictimGroup, request: PodRequest, pods: int) -> bool:
        """Whether a group of elastic ones might make room, if all of it went; false only if it certainly does not."""
        return self.context(reserved=False).group_might_do(group, request, pods)

    def context(self, *, reserved: bool) -> SearchContext:
        """What a search for reserved, or elastic, candidates looks at, as of this cycle."""
        context = self.kept_pool.context(reserved=reserved)
        if reserved not in self._looked_at:
            self._looked_at.add(reserved)
            context.bounds = CostBounds(self.ledger, context.eligible)
            context.searches.renew()
        return context

    def eligible(self, *, reserved: bool) -> EligibleVictims:
        """What reserved, or elastic, preemptors might take."""
        return self.context(reserved=reserved).eligible

    # --- Waiting --------------------------------------------------------------------------------------------

    def estimate(self, candidate: Candidate) -> EarliestStart:
        """The start reservation that the candidate would get."""
        off_peak = candidate.pool_request.off_peak
        alike = (candidate.request, candidate.pods, candidate.reserved, off_peak)
        earliest = self._estimates.get(alike)
        if earliest is None:
            earliest = self._estimates[alike] = super().estimate(candidate)
        return earliest

    def _held_pods(self, candidate: Candidate) -> IndexedPods | None:
        return self.context(reserved=candidate.reserved).tally(candidate.request)

    def _ends(self, *, reserved_only: bool) -> Iterator[End]:
        return self._kept_ends.of(reserved_only=reserved_only)

    def wait(self, blocked: Blocked, earliest: EarliestStart | None = None) -> None:
        """Let a candidate wait; the first one that lacks only a place gets the start reservation."""
        self._infeasible_since += 1
        super().wait(blocked, earliest)

    def _reserve(self, candidate: Candidate, earliest: EarliestStart) -> None:
        self.infeasible.forget()
        super()._reserve(candidate, earliest)
        self._estimates.clear()  # What is kept for the head changes as others pass it.

    def offer_again(self, elsewhere: Sequence[Candidate] = (), *, head_left: bool = False) -> list[str]:
        """Offer what victims left over to the queue again, from its head."""
        if not elsewhere and not head_left and not self.waiting.any_might_start():
            return []
        self.infeasible.forget()
        self.skipped_leaves.note_offer()
        started = super().offer_again(elsewhere, head_left=True)
        self._infeasible_since = 0
        return started

    def _to_offer_again(self) -> Sequence[Blocked]:
        return self.waiting.to_be_offered(lambda candidate: self.quota_stops(candidate) is None)
