"""One pool while a cycle decides: who has what, who is next, who starts, who goes (sections 3 to 7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduling.engine.ask import Ask
from scheduling.engine.candidate import Blocked, Candidate, Cause, Taken
from scheduling.engine.charges import Charges
from scheduling.engine.court import Court, Plea
from scheduling.engine.entitlement import Demand, Waiting, demand_of, entitlements
from scheduling.engine.fleet import Fleet
from scheduling.engine.ledger import Ledger
from scheduling.engine.order import FairShare, Queue, own_key
from scheduling.engine.passing import Gate, Head
from scheduling.engine.place import NOTHING_KEPT
from scheduling.engine.preempt import Victims, find_victims
from scheduling.engine.queueing import End, Kept, reserve_start
from scheduling.engine.rights import Rights
from scheduling.engine.standing import Standing, lost_ms, protected
from scheduling.engine.tree import ROOT, Accounts, Tree
from scheduling.engine.types import (
    GPU_MILLI,
    PLACED,
    Allocation,
    ElasticPreemption,
    PodPlacement,
    Queueing,
    Workload,
)


class PoolCycle:
    """The decisions of one cycle in one pool, as they are made.

    First everybody who is placed is counted; :meth:`open` then works out the entitlements and lines up the
    candidates.
    """

    def __init__(self, fleet: Fleet, tree: Tree, workloads: Iterable[Workload], now: int) -> None:
        self.pool = fleet.pool
        self.fleet = fleet
        self.tree = tree
        self.now = now
        self.accounts = Accounts.of(tree, self.pool.id)
        self.charges = Charges(self.accounts)
        self.entitled = [0] * len(tree)
        self.given = [0] * len(tree)
        self._next_entitled = [0] * len(tree)
        self._reserved_started = False
        self.demand = Demand([], [], [])
        self.ratio = FairShare(self.pool.policy, self.accounts, self.entitled, self.given)
        self.rights = Rights(self.pool.policy, self.accounts, self.entitled, self._next_entitled)
        self.queue: Queue[Candidate] = Queue(tree, self.pool.policy, self.ratio, ())
        self.standings: dict[str, Standing] = {}
        self.stopping: list[Workload] = []
        self.allocations: dict[str, list[Allocation]] = {}
        self.taken: dict[str, list[Taken]] = {}
        self.waiting: dict[str, Blocked] = {}
        self._elastic: list[Standing] = []
        self._in_vain: set[tuple[int, int, Ask, int, bool]] = set()
        rows = sorted(workloads, key=admission_order)
        self.ledger = Ledger(fleet, rows)
        self.gate = Gate(self.pool.policy, self.ledger, self.rights, now)
        for workload in rows:
            if workload.status in PLACED:
                self._stand(workload)
            else:
                self.stopping.append(workload)

    @property
    def head(self) -> Head | None:
        """The first blocked workload of the order."""
        return self.gate.head

    # --- Preparing ------------------------------------------------------------------------------------------

    def _stand(self, workload: Workload) -> None:
        """Count a workload that is placed already."""
        leaf = self.tree.leaf_of[workload.team]
        standing = Standing(workload, leaf, list(workload.placements), lost_ms(workload, self.now))
        self.standings[workload.id] = standing
        self.accounts.usage.add(leaf, standing.milli, reserved=workload.reserved)
        if workload.reserved:
            self._charge(standing, standing.milli)
        else:
            self._elastic.append(standing)

    def _charge(self, standing: Standing, milli: int) -> None:
        """Charge (more of) a reserved workload to the guarantees."""
        parts = self.allocations.setdefault(standing.workload.id, [])
        for part in self.charges.charge(standing.leaf, milli):
            at = next((at for at, each in enumerate(parts) if each.team == part.team), None)
            if at is None:
                parts.append(part)
            else:
                parts[at] = Allocation(part.team, parts[at].milli + part.milli)

    def open(self, candidates: Sequence[Candidate], counted: Iterable[Candidate]) -> None:
        """Work out the entitlements and line up the candidates; the demand of those ``counted`` is for this pool."""
        waiting = [self._wanted_by(candidate) for candidate in counted]
        growing = (self._not_grown(standing) for standing in self.standings.values())
        waiting.extend(entry for entry in growing if entry is not None)
        shared = [
            standing.leaf
            for standing in self.standings.values()
            if any(pod.milli % GPU_MILLI for pod in standing.pods)
        ]
        self.demand = demand_of(self.accounts, self.charges.left, shared, waiting)
        self.entitled[:] = self._next_entitled[:] = self._entitlements()
        self.queue = Queue(self.tree, self.pool.policy, self.ratio, candidates)

    def _entitlements(self) -> list[int]:
        """E of every branch, with what is allocated at the moment."""
        return entitlements(self.accounts, self.demand, self.ledger.capacity_milli())

    def _wanted_by(self, candidate: Candidate) -> Waiting:
        """What a candidate wants: all pods that could start in an empty pool."""
        workload = candidate.workload
        pods = min(workload.pods, self.fleet.most_together(candidate.ask))
        return Waiting(
            leaf=candidate.leaf,
            reserved=workload.reserved,
            pods=pods,
            min_pods=workload.min_pods,
            pod_milli=candidate.pod_milli,
            key=own_key(candidate),
        )

    def _not_grown(self, standing: Standing) -> Waiting | None:
        """What a placed workload still wants."""
        workload, pods = standing.workload, len(standing.pods)
        if pods >= workload.pods:
            return None
        ask = Ask.of(workload)
        candidate = Candidate(workload, standing.leaf, ask, self.fleet.pod_milli(ask))
        rest = min(workload.pods, self.fleet.most_together(ask)) - pods
        if rest <= 0 or not candidate.pod_milli:
            return None
        key = own_key(candidate)
        return Waiting(standing.leaf, workload.reserved, rest, 1, candidate.pod_milli, key)

    # --- Starting -------------------------------------------------------------------------------------------

    def try_start(self, candidate: Candidate) -> Blocked | None:
        """Start the candidate if it fits without victims; else say what stops it."""
        blocked = self.quota_stops(candidate)
        if blocked is not None:
            return blocked
        ahead = self.head.candidate.workload.name if self.head else ""
        if self.gate.shut:
            return Blocked(candidate, Cause.BEHIND, ahead=ahead)
        indexes = range(candidate.workload.min_pods)
        placed = self.gate.place(candidate, indexes, in_time=self.gate.in_time(candidate.workload))
        if isinstance(placed, Cause):
            return Blocked(candidate, placed, ahead=ahead)
        self._start(candidate, placed, ())
        return None

    def quota_stops(self, candidate: Candidate) -> Blocked | None:
        """Whether guarantee or ceiling stops it as things stand."""
        asked = candidate.next_milli
        if candidate.reserved:
            available = self.charges.available(candidate.leaf)
            if available < asked:
                return Blocked(candidate, Cause.RESERVATION, available)
        passed = self.charges.ceiling_passed(candidate.leaf, asked, reserved=candidate.reserved)
        return None if passed is None else Blocked(candidate, Cause.CEILING, passed.available, passed)

    def _start(self, candidate: Candidate, placed: Sequence[PodPlacement], victims: Iterable[str]) -> None:
        """Count a newcomer that has its place."""
        standing = Standing(candidate.workload, candidate.leaf, list(placed), lost_ms=0, fresh=True)
        standing.victims = sorted(set(victims))
        self.standings[candidate.id] = standing
        self.waiting.pop(candidate.id, None)
        self.count(standing, standing.milli)

    def count(self, standing: Standing, milli: int) -> None:
        """Count what a workload gets in this cycle. Who looked for victims in vain may find some now."""
        self._in_vain.clear()
        self.accounts.usage.add(standing.leaf, milli, reserved=standing.workload.reserved)
        for branch in (ROOT, *self.tree.paths[standing.leaf]):
            self.given[branch] += milli
        if standing.workload.reserved:
            self._charge(standing, milli)
            self._reserved_started = True
        self.queue.touch(standing.leaf)

    # --- Starting with victims ------------------------------------------------------------------------------

    def find_victims(self, candidate: Candidate, blocked: Blocked) -> Victims | None:
        """The victims with which a candidate that was blocked could start here."""
        never = self.pool.policy.elastic_preemption is ElasticPreemption.NEVER
        if blocked.cause is Cause.RESERVATION or self.gate.shut or (never and not candidate.reserved):
            return None
        if self._reserved_started and not candidate.reserved:
            self._next_entitled[:] = self._entitlements()
            self._reserved_started = False
        closed: Iterable[int] = ()
        if self.head is not None and not self.gate.in_time(candidate.workload):
            may_pass = self.gate.yields(candidate) and not self.head.held_back
            closed = () if may_pass else self.head.kept.spare
        pods = candidate.workload.min_pods
        alike = (candidate.leaf, candidate.priority, candidate.ask, pods, bool(closed))
        if alike in self._in_vain:
            return None
        plea = Plea(candidate.party(), candidate.ask, pods, frozenset(closed))
        court = Court(self.ledger, self.charges, self.rights)
        found = find_victims(court, plea, self._preemptible(candidate))
        if found is None:
            self._in_vain.add(alike)
        return found

    def _preemptible(self, newcomer: Candidate) -> list[Standing]:
        """Those whom the newcomer might preempt: elastic, not started by this plan, not protected from its like."""
        if newcomer.reserved:
            return list(self._elastic)
        policy = self.pool.policy
        ordered = policy.elastic_preemption is ElasticPreemption.PRIORITY
        return [
            standing
            for standing in self._elastic
            if not (ordered and standing.workload.priority > newcomer.priority)
            and not protected(standing.workload, policy, self.now)
        ]

    def start_with(self, candidate: Candidate, victims: Victims) -> None:
        """Let the victims go and start the candidate on what they leave."""
        party = candidate.party()
        for unit, rule in zip(victims.units, victims.rules, strict=True):
            standing = unit.standing
            taken = Taken(candidate, rule, self.rights.level(party, unit.party), unit.pods, unit.lost_gpu_ms)
            self.taken.setdefault(standing.workload.id, []).append(taken)
            standing.lose(frozenset(pod.pod_index for pod in unit.pods))
            self.ledger.leave(standing.workload, unit.pods)
            self.accounts.usage.add(standing.leaf, -unit.milli, reserved=False)
            self.queue.touch(standing.leaf)
            if unit.whole:
                del self.standings[standing.workload.id]
                self._elastic.remove(standing)
        placed = self._place_freed(candidate, victims)
        self._start(candidate, placed, (unit.standing.workload.id for unit in victims.units))

    def _place_freed(self, candidate: Candidate, victims: Victims) -> tuple[PodPlacement, ...]:
        """Place a newcomer whose victims have left: outside what is kept for the head, if possible."""
        levels = self.fleet.domains(candidate.ask)
        domains = levels if victims.domains == levels[-1] else (victims.domains,)
        indexes = range(candidate.workload.min_pods)
        kept = self.head.kept if self.head is not None else Kept(None, {})
        workload, ask = candidate.workload, candidate.ask
        placed = self.ledger.place(workload, ask, indexes, domains=domains, kept=kept.spare)
        if placed is not None:
            kept.take(self.ledger, workload, placed)
            return placed
        return self.ledger.place(workload, ask, indexes, domains=domains) or ()

    # --- Waiting --------------------------------------------------------------------------------------------

    def estimate(self, candidate: Candidate) -> Kept:
        """The start reservation the candidate would get. Whom it may preempt at any time is not in its way."""
        default = self.pool.policy.default_time_limit_ms
        yielding: list[tuple[Workload, Sequence[PodPlacement]]] = []
        ends: list[End] = []
        for standing in self.standings.values():
            if candidate.reserved and not standing.workload.reserved:
                yielding.append((standing.workload, standing.pods))
            elif (at := standing.ends_at(self.now, default)) is not None:
                ends.append((at, standing.workload, standing.pods))
        return reserve_start(self.ledger, candidate.ask, candidate.workload.min_pods, ends, yielding)

    def wait(self, blocked: Blocked, kept: Kept | None = None) -> None:
        """Let a candidate wait; the first one that lacks only a place gets the start reservation."""
        self.waiting[blocked.candidate.id] = blocked
        heads = self.pool.policy.queueing is not Queueing.BEST_EFFORT_FIFO
        if heads and blocked.cause is Cause.PLACE and self.head is None:
            self._in_vain.clear()
            self.gate.keep_for(blocked.candidate, kept or self.estimate(blocked.candidate))

    def withdraw(self, workload: str) -> None:
        """Forget a waiting workload that has started in another pool."""
        if self.waiting.pop(workload, None) is not None and self.head and self.head.candidate.id == workload:
            self.offer_again()

    def offer_again(self, elsewhere: Sequence[Candidate] = ()) -> list[str]:
        """Offer what victims left over to the queue again, from its head, without victims; returns who starts.

        ``elsewhere`` are those who wait in other pools and could use this one too: they come last.
        """
        if not elsewhere and not any(self._might_start(blocked) for blocked in self._first_of_each()):
            return []
        before, self.waiting = list(self.waiting.values()), {}
        self.gate.open()
        started = []
        for blocked in before:
            again = self.try_start(blocked.candidate)
            if again is None:
                started.append(blocked.candidate.id)
            else:
                self.wait(again)
        started.extend(candidate.id for candidate in elsewhere if self.try_start(candidate) is None)
        return started

    def _first_of_each(self) -> Iterable[Blocked]:
        """Of those who wait, one for each way of being blocked: the others fare alike."""
        return {
            (each.cause, each.candidate.ask, each.candidate.workload.min_pods, each.ceiling): each
            for each in self.waiting.values()
        }.values()

    def _might_start(self, blocked: Blocked) -> bool:
        """Whether what stopped it may be gone now that something was given back."""
        if blocked.cause in (Cause.RESERVATION, Cause.CEILING):
            return blocked.cause is Cause.CEILING
        candidate = blocked.candidate
        kept = self.head.kept.spare if self.head and blocked.cause is Cause.BEHIND else NOTHING_KEPT
        pods = range(candidate.workload.min_pods)
        placed = self.ledger.place(candidate.workload, candidate.ask, pods, kept=kept)
        self.ledger.undo(candidate.workload, placed or ())
        return placed is not None


def admission_order(workload: Workload) -> tuple[bool, int, int, str]:
    """The order in which placed workloads were admitted, as far as a snapshot tells."""
    started = workload.started_at
    return (started is None, started or 0, workload.submitted_at, workload.id)
