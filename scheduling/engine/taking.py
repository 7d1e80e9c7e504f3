"""Starting newcomers of one pool with victims, as one cycle does it (section 7)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from scheduling.engine.bounds import Bounds
from scheduling.engine.court import Court, Plea
from scheduling.engine.kept_demand import divide_again
from scheduling.engine.model.plan import Rule
from scheduling.engine.model.snapshot import ElasticPreemption, PodPlacement
from scheduling.engine.preempt import find_victims
from scheduling.engine.preemption.policy import claim_of
from scheduling.engine.queue.candidate import Blocked, Candidate, Cause
from scheduling.engine.queueing import Kept
from scheduling.engine.search import Victims
from scheduling.engine.standing import Standing
from scheduling.engine.yields import NOWHERE

if TYPE_CHECKING:
    from scheduling.engine.cycle import PoolCycle


@dataclass(frozen=True, slots=True)
class PreemptedPods:
    """Pods of a workload that were preempted for a candidate, and by which rule."""

    by: Candidate
    rule: Rule
    level: str | None
    pods: tuple[PodPlacement, ...]
    lost_gpu_ms: int


class Taking:
    """Who could be taken for whom, and who is: ``taken`` says, by workload, which pods went for whom."""

    def __init__(self, cycle: PoolCycle) -> None:
        self._cycle = cycle
        mode = cycle.pool.policy.elastic_preemption
        self._never = mode is ElasticPreemption.NEVER
        self._by_priority = mode is ElasticPreemption.PRIORITY
        self.taken: dict[str, list[PreemptedPods]] = {}
        self._moved: set[int] = set()
        """Leaves of which something has started or gone since the next cycle's entitlements were worked out."""
        self._looked_at: set[bool] = set()

    def note_start(self, standing: Standing) -> None:
        """Take note that a workload starts, or gets more: the next cycle may entitle its branches to something else."""
        self._moved.add(standing.leaf)

    # --- Looking for victims ---------------------------------------------------------------------------------

    def find_victims(self, candidate: Candidate, blocked: Blocked) -> Victims | None:
        """The victims with which a candidate that was blocked could start here."""
        cycle = self._cycle
        if blocked.cause is Cause.GUARANTEE or cycle.gate.shut or not self.might_preempt(candidate):
            return None
        if not candidate.reserved:
            self._entitle_next()
        closed = self._closed_to(candidate)
        court, plea = self.court(reserved=candidate.reserved), self._plea(candidate, closed)
        found = find_victims(court, plea) if court.might_take_as_of_now(plea) else None
        if found is None:
            cycle.vain.failed_search(candidate, closed)
        return found

    def might_preempt(self, candidate: Candidate) -> bool:
        """Whether a candidate might find victims as things stand; false only if he certainly finds none."""
        cycle, leaf, priority = self._cycle, candidate.leaf, candidate.priority
        if cycle.is_over or (self._never and not candidate.reserved):
            return False
        court = self.court(reserved=candidate.reserved)
        closed = partial(self._closed_to, candidate)
        vain = court.prospects.in_vain(
            leaf, priority, candidate.next_milli, candidate.request, candidate.pods
        )
        if vain is not None and (not vain or vain <= closed()):
            return False
        claim = claim_of(candidate)
        if not court.prospects.any_at_once(claim):
            return False
        return court.might_take(
            claim, candidate.request, candidate.pods, closed
        ) and not cycle.vain.has_failed(candidate, self._closed_to(candidate))

    def _closed_to(self, candidate: Candidate) -> frozenset[int]:
        """The nodes that are not for a candidate who looks for victims: those kept for the head."""
        gate = self._cycle.gate
        if gate.head is None or gate.in_time(candidate.workload):
            return NOWHERE
        may_pass = not gate.head.held_back and gate.yields(candidate)
        return NOWHERE if may_pass else gate.head.nodes

    def _entitle_next(self) -> None:
        """Work out what the next cycle will entitle the branches to, as far as this one can tell."""
        cycle = self._cycle
        moved = {branch for leaf in self._moved for branch in cycle.tree.paths[leaf]}
        self._moved.clear()
        capacity = cycle.nodes.capacity_milli
        divide_again(cycle.accounts, cycle.demand, capacity, cycle.books.next_entitled, moved)

    def _plea(self, candidate: Candidate, closed: frozenset[int]) -> Plea:
        highest = candidate.priority if self._by_priority and not candidate.reserved else None
        return Plea(claim_of(candidate), candidate.request, candidate.pods, closed, highest)

    def court(self, *, reserved: bool) -> Court:
        """What a search for reserved, or elastic, newcomers looks at, as of this cycle."""
        court = self._cycle.books.court(reserved=reserved)
        if reserved not in self._looked_at:
            self._looked_at.add(reserved)
            court.bounds = Bounds(self._cycle.ledger, court.roster)
            court.prospects.renew()
        return court

    # --- Taking them -----------------------------------------------------------------------------------------

    def start_with(self, candidate: Candidate, victims: Victims) -> None:
        """Let the victims go and start the candidate on what they leave."""
        cycle, claim = self._cycle, claim_of(candidate)
        for unit, rule in zip(victims.units, victims.rules, strict=True):
            standing = unit.standing
            cycle.touch(standing)
            self._moved.add(standing.leaf)
            level = cycle.preemption_policy.level(claim, unit.claim)
            taken = PreemptedPods(candidate, rule, level, unit.pods, unit.lost_gpu_ms)
            self.taken.setdefault(standing.workload.id, []).append(taken)
            rosters = [roster for roster in cycle.books.rosters() if roster.drop(standing)]
            standing.lose(frozenset(pod.pod_index for pod in unit.pods))
            cycle.ledger.leave(standing.workload, unit.pods)
            cycle.accounts.usage.add(standing.leaf, -unit.milli, reserved=False)
            cycle.passed_over.note(standing.leaf, -unit.milli, reserved=False)
            cycle.queue.touch(standing.leaf)
            if unit.whole:
                del cycle.standings[standing.workload.id]
            else:
                for roster in rosters:
                    roster.add(standing)
        placed = self._place_freed(candidate)
        cycle.start(candidate, placed, (unit.standing.workload.id for unit in victims.units))

    def _place_freed(self, candidate: Candidate) -> tuple[PodPlacement, ...]:
        """Place a newcomer whose victims have left: outside what is kept for the head, if possible."""
        ledger, head = self._cycle.ledger, self._cycle.gate.head
        domains = self._cycle.nodes.domains(candidate.request)
        indexes = range(candidate.pods)
        kept = head.kept if head is not None else Kept(None, {})
        request = candidate.request
        placed = ledger.place(request, indexes, domains=domains, kept=kept.spare)
        if placed is not None:
            kept.take(ledger, request, placed)
            return placed
        return ledger.place(request, indexes, domains=domains) or ()
