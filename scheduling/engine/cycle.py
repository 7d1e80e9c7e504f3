"""One pool while a cycle decides: who has what, who is next, who starts, who goes (sections 3 to 7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduling.engine.ask import Ask, Asks
from scheduling.engine.bounds import Bounds
from scheduling.engine.candidate import Blocked, Candidate, Cause, Taken
from scheduling.engine.capacity import Tally
from scheduling.engine.charges import Charges
from scheduling.engine.court import Court, Plea
from scheduling.engine.entitlement import Demand, Waiting, demand_of, entitlements
from scheduling.engine.fleet import Fleet
from scheduling.engine.ledger import Ledger
from scheduling.engine.order import FairShare, Queue
from scheduling.engine.passing import Gate, Head
from scheduling.engine.place import NOTHING_KEPT
from scheduling.engine.preempt import Victims, any_lawful, find_victims
from scheduling.engine.queueing import End, Kept, reserve_start
from scheduling.engine.rights import Rights
from scheduling.engine.roster import Roster
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

    def __init__(self, fleet: Fleet, tree: Tree, workloads: Iterable[Workload], asks: Asks, now: int) -> None:
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
        self._waiting_kinds: dict[WaitKind, int] = {}
        self._elastic: dict[str, Standing] = {}
        self._courts: dict[bool, Court] = {}
        self._tallies: dict[Ask, Tally] = {}
        self.asks = asks
        self._estimates: dict[tuple[Ask, int, bool], Kept] = {}
        self._lawless: set[tuple[int, int, int]] = set()
        self._in_vain: set[tuple[int, int, Ask, int, bool]] = set()
        rows = sorted(workloads, key=admission_order)
        self.ledger = Ledger(fleet, rows)
        self.gate = Gate(self.pool.policy, self.ledger, self.rights, now)
        for workload in rows:
            if workload.status in PLACED:
                self._stand(workload)
            else:
                self.stopping.append(workload)
        self.accounts.usage.roll_up()

    @property
    def head(self) -> Head | None:
        """The first blocked workload of the order."""
        return self.gate.head

    # --- Preparing ------------------------------------------------------------------------------------------

    def _stand(self, workload: Workload) -> None:
        """Count a workload that is placed already, in its own leaf."""
        leaf = self.tree.leaf_of[workload.team]
        standing = Standing(workload, leaf, list(workload.placements), lost_ms(workload, self.now))
        self.standings[workload.id] = standing
        usage, milli = self.accounts.usage, standing.milli
        usage.used[leaf] += milli
        if workload.reserved:
            usage.reserved[leaf] += milli
            self._charge(standing, milli)
        else:
            self._elastic[workload.id] = standing

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
        return entitlements(self.accounts, self.demand, self.fleet.capacity_milli)

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
            key=candidate.key,
        )

    def _not_grown(self, standing: Standing) -> Waiting | None:
        """What a placed workload still wants."""
        workload, pods = standing.workload, len(standing.pods)
        if pods >= workload.pods:
            return None
        ask = self.asks.of(workload)
        candidate = Candidate(workload, standing.leaf, ask, self.fleet.pod_milli(ask), 1)
        rest = min(workload.pods, self.fleet.most_together(ask)) - pods
        if rest <= 0 or not candidate.pod_milli:
            return None
        return Waiting(standing.leaf, workload.reserved, rest, 1, candidate.pod_milli, candidate.key)

    # --- Starting -------------------------------------------------------------------------------------------

    def try_start(self, candidate: Candidate) -> Blocked | None:
        """Start the candidate if it fits without victims; else say what stops it."""
        blocked = self.quota_stops(candidate)
        if blocked is not None:
            return blocked
        ahead = self.head.candidate.workload.name if self.head else ""
        if self.gate.shut:
            return Blocked(candidate, Cause.BEHIND, ahead=ahead)
        placed = self.gate.place(
            candidate, range(candidate.pods), in_time=self.gate.in_time(candidate.workload)
        )
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
        self._forget_waiting(candidate.id)
        self.count(standing, standing.milli)

    def count(self, standing: Standing, milli: int) -> None:
        """Count what a workload gets in this cycle. Who looked for victims in vain may find some now."""
        self._in_vain.clear()
        self._lawless.clear()
        self._estimates.clear()
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
        sort = (candidate.leaf, candidate.priority, candidate.next_milli)
        if sort in self._lawless:
            return None
        if not any_lawful(self._court(candidate), self._plea(candidate, frozenset())):
            self._lawless.add(sort)
            return None
        closed: Iterable[int] = ()
        if self.head is not None and not self.gate.in_time(candidate.workload):
            may_pass = self.gate.yields(candidate) and not self.head.held_back
            closed = () if may_pass else self.head.kept.spare
        alike = (candidate.leaf, candidate.priority, candidate.ask, candidate.pods, bool(closed))
        if alike in self._in_vain:
            return None
        plea = self._plea(candidate, frozenset(closed))
        found = find_victims(self._court(candidate), plea)
        if found is None:
            self._in_vain.add(alike)
        return found

    def _plea(self, candidate: Candidate, closed: frozenset[int]) -> Plea:
        ordered = self.pool.policy.elastic_preemption is ElasticPreemption.PRIORITY
        highest = candidate.priority if ordered and not candidate.reserved else None
        return Plea(candidate.party(), candidate.ask, candidate.pods, closed, highest)

    def _court(self, newcomer: Candidate) -> Court:
        """What a search for the newcomer looks at: elastic workloads that this plan did not start, of which some are
        protected from elastic ones."""
        court = self._courts.get(newcomer.reserved)
        if court is None:
            candidates = [
                standing
                for standing in self._elastic.values()
                if newcomer.reserved or not protected(standing.workload, self.pool.policy, self.now)
            ]
            roster = Roster(self.ledger, self.tree, candidates)
            bounds = Bounds(self.ledger, roster)
            court = Court(self.ledger, self.charges, self.rights, roster, self._tallies, bounds)
            self._courts[newcomer.reserved] = court
        return court

    def start_with(self, candidate: Candidate, victims: Victims) -> None:
        """Let the victims go and start the candidate on what they leave."""
        party = candidate.party()
        for unit, rule in zip(victims.units, victims.rules, strict=True):
            standing = unit.standing
            taken = Taken(candidate, rule, self.rights.level(party, unit.party), unit.pods, unit.lost_gpu_ms)
            self.taken.setdefault(standing.workload.id, []).append(taken)
            rosters = [court.roster for court in self._courts.values() if court.roster.drop(standing)]
            standing.lose(frozenset(pod.pod_index for pod in unit.pods))
            self.ledger.leave(standing.workload, unit.pods)
            self.accounts.usage.add(standing.leaf, -unit.milli, reserved=False)
            self.queue.touch(standing.leaf)
            if unit.whole:
                del self.standings[standing.workload.id]
                del self._elastic[standing.workload.id]
            else:
                for roster in rosters:
                    roster.add(standing)
        placed = self._place_freed(candidate, victims)
        self._start(candidate, placed, (unit.standing.workload.id for unit in victims.units))

    def _place_freed(self, candidate: Candidate, victims: Victims) -> tuple[PodPlacement, ...]:
        """Place a newcomer whose victims have left: outside what is kept for the head, if possible."""
        levels = self.fleet.domains(candidate.ask)
        domains = levels if victims.domains == levels[-1] else (victims.domains,)
        indexes = range(candidate.pods)
        kept = self.head.kept if self.head is not None else Kept(None, {})
        ask = candidate.ask
        placed = self.ledger.place(ask, indexes, domains=domains, kept=kept.spare)
        if placed is not None:
            kept.take(self.ledger, ask, placed)
            return placed
        return self.ledger.place(ask, indexes, domains=domains) or ()

    # --- Waiting --------------------------------------------------------------------------------------------

    def estimate(self, candidate: Candidate) -> Kept:
        """The start reservation the candidate would get. Whom it may preempt at any time is not in its way."""
        alike = (candidate.ask, candidate.pods, candidate.reserved)
        kept = self._estimates.get(alike)
        if kept is None:
            kept = self._estimates[alike] = self._estimate(candidate)
        return kept

    def _estimate(self, candidate: Candidate) -> Kept:
        default = self.pool.policy.default_time_limit_ms
        yielding: list[tuple[Workload, Sequence[PodPlacement]]] = []
        ends: list[End] = []
        for standing in self.standings.values():
            if candidate.reserved and not standing.workload.reserved:
                yielding.append((standing.workload, standing.pods))
            elif (at := standing.ends_at(self.now, default)) is not None:
                ends.append((at, standing.workload, standing.pods))
        return reserve_start(self.ledger, candidate.ask, candidate.pods, ends, yielding)

    def wait(self, blocked: Blocked, kept: Kept | None = None) -> None:
        """Let a candidate wait; the first one that lacks only a place gets the start reservation."""
        self.waiting[blocked.candidate.id] = blocked
        kind = _kind(blocked)
        self._waiting_kinds[kind] = self._waiting_kinds.get(kind, 0) + 1
        heads = self.pool.policy.queueing is not Queueing.BEST_EFFORT_FIFO
        if heads and blocked.cause is Cause.PLACE and self.head is None:
            self._in_vain.clear()
            self.gate.keep_for(blocked.candidate, kept or self.estimate(blocked.candidate))
            self._estimates.clear()  # What is kept for the head changes as others pass it.

    def withdraw(self, workload: str) -> None:
        """Forget a waiting workload that has started in another pool."""
        if self._forget_waiting(workload) and self.head and self.head.candidate.id == workload:
            self.offer_again()

    def _forget_waiting(self, workload: str) -> bool:
        """Take a workload off those who wait; whether it was one of them."""
        blocked = self.waiting.pop(workload, None)
        if blocked is None:
            return False
        kind = _kind(blocked)
        self._waiting_kinds[kind] -= 1
        if not self._waiting_kinds[kind]:
            del self._waiting_kinds[kind]
        return True

    def offer_again(self, elsewhere: Sequence[Candidate] = ()) -> list[str]:
        """Offer what victims left over to the queue again, from its head, without victims; returns who starts.

        ``elsewhere`` are those who wait in other pools and could use this one too: they come last.
        """
        if not elsewhere and not any(self._might_start(*kind) for kind in self._waiting_kinds):
            return []
        before, self.waiting = list(self.waiting.values()), {}
        self._waiting_kinds.clear()
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

    def _might_start(self, cause: Cause, ask: Ask, pods: int) -> bool:
        """Whether what stops those of a kind may be gone now that something was given back."""
        if cause in (Cause.RESERVATION, Cause.CEILING):
            return cause is Cause.CEILING
        masked = self.head is not None and cause is Cause.BEHIND
        if self.gate.fails_again(ask, pods, masked=masked):
            return False
        kept = self.head.kept.spare if self.head and masked else NOTHING_KEPT
        placed = self.ledger.place(ask, range(pods), kept=kept)
        self.ledger.undo(ask, placed or ())
        return placed is not None


WaitKind = tuple[Cause, Ask, int]
"""What those have in common whom the same thing stops: what it is, what their pods ask, how many must start."""


def _kind(blocked: Blocked) -> WaitKind:
    return (blocked.cause, blocked.candidate.ask, blocked.candidate.pods)


def admission_order(workload: Workload) -> tuple[bool, int, int, str]:
    """The order in which placed workloads were admitted, as far as a snapshot tells."""
    started = workload.started_at
    return (started is None, started or 0, workload.submitted_at, workload.id)
