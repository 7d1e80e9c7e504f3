"""One pool while a cycle decides: who has what, who is next, who starts, who goes (sections 3 to 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter

from scheduling.engine.ask import Ask
from scheduling.engine.books import Books
from scheduling.engine.bounds import Bounds
from scheduling.engine.candidate import Blocked, Candidate, Cause, Taken
from scheduling.engine.court import Court, Plea
from scheduling.engine.entitlement import divide_again
from scheduling.engine.estimate import estimate
from scheduling.engine.order import FairShare, Level, Queue, in_order, level_of
from scheduling.engine.passing import Gate, Head
from scheduling.engine.place import NOTHING_KEPT
from scheduling.engine.preempt import Victims, find_victims
from scheduling.engine.queueing import Kept
from scheduling.engine.quiet import has_no_guarantee_left, is_quiet
from scheduling.engine.roster import Roster
from scheduling.engine.standing import Standing
from scheduling.engine.tree import ROOT
from scheduling.engine.types import Allocation, ElasticPreemption, PodPlacement, Queueing
from scheduling.engine.yields import Group

FIRST_LOOK = 64
"""After so many turns in vain it is worth to look whether anybody is left who could act."""


class PoolCycle:
    """The decisions of one cycle in one pool, as they are made on its books.

    :meth:`open` works out the entitlements and lines up the candidates; :meth:`take_back` leaves the books as they
    were.
    """

    def __init__(self, books: Books, now: int) -> None:
        self.books = books
        self.pool = books.pool
        self.fleet = books.fleet
        self.tree = books.tree
        self.asks = books.asks
        self.now = now
        books.move_clock(now)
        self.accounts = books.accounts
        self.charges = books.charges
        self.allocations = books.allocations
        self.standings = books.standings
        self.ledger = books.ledger
        self.demand = books.demand
        self.entitled = books.entitled
        self.rights = books.rights
        self.given = [0] * len(self.tree)
        self.ratio = FairShare(self.pool.policy, self.accounts, self.entitled, self.given)
        self.started: dict[str, Standing] = {}
        self.candidates: dict[str, Candidate] = {}
        self.taken: dict[str, list[Taken]] = {}
        self.waiting: dict[str, Blocked] = {}
        self.is_over = False
        self._passed_over: dict[Level, Figures] = {}
        self._in_vain_since = 0
        self._look_after = 0
        self._grown: list[tuple[Standing, PodPlacement]] = []
        self.touched: dict[str, Standing] = {}
        self._moved: set[int] = set()
        self._recharged: dict[str, list[Allocation]] = {}
        self._reserved_started = False
        self._alike: dict[WaitKind, dict[str, Blocked]] = {}
        self._turns_in_vain = 0
        self._looked_at: set[bool] = set()
        self._estimates: dict[tuple[Ask, int, bool], Kept] = {}
        self._in_vain: set[Sort] = set()
        self.gate = Gate(self.pool.policy, self.ledger, self.rights, now, books.failed)

    @property
    def head(self) -> Head | None:
        """The first blocked workload of the order."""
        return self.gate.head

    # --- Beginning and ending --------------------------------------------------------------------------------

    def open(self) -> None:
        """Work out the entitlements and line up the candidates."""
        self.books.work_out()
        self.books.next_entitled[:] = self.entitled
        self.ledger.begin()
        self._before = self._figures()
        lines = {level: line.leaves for level, line in self.books.lines.levels.items()}
        self.queue: Queue[Candidate] = Queue(self.tree, self.ratio, lines, self._is_idle)

    def _is_idle(self, level: Level) -> bool:
        """Whether a level need not be looked at one by one. Its order is that of now."""
        idle = has_no_guarantee_left(self, level)
        if idle:
            self._passed_over[level] = self._figures()
        return idle

    def stops(self) -> bool:
        """Whether the cycle may stop, because nobody left in the queue could act.

        It is looked at again after twice as many have had their turn in vain.
        """
        if (
            self.head is None
            and not self.gate.shut
            and self.pool.policy.queueing is not Queueing.BEST_EFFORT_FIFO
        ):
            return False
        if self._in_vain_since >= self._look_after:
            self._look_after = max(FIRST_LOOK, 2 * self._in_vain_since)
            return is_quiet(self)
        return False

    def _figures(self) -> Figures:
        """What every branch uses and was given, and what is left of its guarantee."""
        usage = self.accounts.usage
        return (usage.used[:], usage.reserved[:], usage.above[:], self.charges.left[:], self.given[:])

    def _set_figures(self, figures: Figures) -> None:
        usage = self.accounts.usage
        kept = (usage.used, usage.reserved, usage.above, self.charges.left, self.given)
        for mine, theirs in zip(kept, figures, strict=True):
            mine[:] = theirs

    def take_back(self) -> None:
        """Leave the books as they were before the cycle."""
        self.ledger.rollback()
        self._set_figures(self._before)
        for id_ in self.started:
            del self.standings[id_]
            self.allocations.pop(id_, None)
        self.allocations.update(self._recharged)
        for id_, standing in self.touched.items():
            for roster in self.books.rosters():
                roster.drop(standing)
            standing.restore()
            self.standings[id_] = standing
            self.books.enlist(standing)
        self.books.failed = self.gate.failed

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
        if self.is_over:
            raise RuntimeError(
                f"{candidate.id} could have started, but the cycle has stopped before its turn."
            )
        standing = Standing(candidate.workload, candidate.leaf, list(placed), self.books.clock, fresh=True)
        standing.victims = sorted(set(victims))
        self.standings[candidate.id] = self.started[candidate.id] = standing
        self.candidates[candidate.id] = candidate
        self._forget_waiting(candidate.id)
        self.count(standing, standing.milli)

    def grow(self, standing: Standing, pod: PodPlacement) -> None:
        """Count a pod that a workload has got above its minimum."""
        if not self._grown:
            self._before_growth = self._figures()
        self._grown.append((standing, pod))
        self._touch(standing)
        for roster in self.books.rosters():
            roster.drop(standing)
        standing.grow(pod)
        self.count(standing, pod.milli)

    @contextmanager
    def as_before_growth(self) -> Iterator[None]:
        """Have things stand for a while as they did before anybody grew."""
        after = self._figures()
        self._set_figures(self._before_growth if self._grown else after)
        for standing, pod in reversed(self._grown):
            standing.pods.remove(pod)
            self.ledger.undo(self.asks.of(standing.workload), [pod])
            self.ledger.note_freed([pod])
        yield
        for standing, pod in self._grown:
            standing.pods.append(pod)
            self.ledger.hold(self.asks.of(standing.workload), [pod])
        self._set_figures(after)

    def count(self, standing: Standing, milli: int) -> None:
        """Count what a workload gets in this cycle. Who looked for victims in vain may find some now."""
        self._in_vain_since, self._look_after = 0, FIRST_LOOK
        self._in_vain.clear()
        self._estimates.clear()
        self._moved.add(standing.leaf)
        self.accounts.usage.add(standing.leaf, milli, reserved=standing.workload.reserved)
        for branch in (ROOT, *self.tree.paths[standing.leaf]):
            self.given[branch] += milli
        if standing.workload.reserved:
            self._charge(standing, milli)
            self._reserved_started = True
        self.queue.touch(standing.leaf)

    def _charge(self, standing: Standing, milli: int) -> None:
        """Charge (more of) a reserved workload to the guarantees."""
        id_ = standing.workload.id
        if id_ in self.allocations and id_ not in self.started:
            self._recharged.setdefault(id_, self.allocations[id_])
        parts = list(self.allocations.get(id_, ()))
        for part in self.charges.charge(standing.leaf, milli):
            at = next((at for at, each in enumerate(parts) if each.team == part.team), None)
            if at is None:
                parts.append(part)
            else:
                parts[at] = Allocation(part.team, parts[at].milli + part.milli)
        self.allocations[id_] = parts

    def _touch(self, standing: Standing) -> None:
        """Remember a workload that was placed before and is going to be changed."""
        if standing.workload.id not in self.started:
            self.touched[standing.workload.id] = standing

    # --- Starting with victims ------------------------------------------------------------------------------

    def find_victims(self, candidate: Candidate, blocked: Blocked) -> Victims | None:
        """The victims with which a candidate that was blocked could start here."""
        if blocked.cause is Cause.RESERVATION or self.gate.shut or not self.might_preempt(candidate):
            return None
        if self._reserved_started and not candidate.reserved:
            self._entitle_next()
            self._reserved_started = False
        closed = self._closed_to(candidate)
        found = find_victims(
            self.court(reserved=candidate.reserved), self._plea(candidate, frozenset(closed))
        )
        if found is None:
            self._in_vain.add(_sort(candidate, closed))
        return found

    def might_preempt(self, candidate: Candidate) -> bool:
        """Whether a candidate might find victims as things stand; false only if he certainly finds none."""
        if self.is_over:
            return False
        if self.pool.policy.elastic_preemption is ElasticPreemption.NEVER and not candidate.reserved:
            return False
        if _sort(candidate, self._closed_to(candidate)) in self._in_vain:
            return False
        return self.court(reserved=candidate.reserved).might_take(
            candidate.party(), candidate.ask, candidate.pods
        )

    def group_might_do(self, group: Group, ask: Ask, pods: int) -> bool:
        """Whether a group of elastic ones might make room, if all of it went; false only if it certainly does not."""
        return self.court(reserved=False).group_might_do(group, ask, pods)

    def _closed_to(self, candidate: Candidate) -> Iterable[int]:
        """The nodes that are not for a candidate who looks for victims: those kept for the head."""
        if self.head is None or self.gate.in_time(candidate.workload):
            return ()
        may_pass = not self.head.held_back and self.gate.yields(candidate)
        return () if may_pass else self.head.kept.spare

    def _entitle_next(self) -> None:
        """Work out what the next cycle will entitle the branches to, as far as this one can tell."""
        moved = {branch for leaf in self._moved for branch in self.tree.paths[leaf]}
        entitled = self.books.next_entitled
        entitled[:] = self.entitled
        divide_again(self.accounts, self.demand, self.fleet.capacity_milli, entitled, moved)

    def _plea(self, candidate: Candidate, closed: frozenset[int]) -> Plea:
        ordered = self.pool.policy.elastic_preemption is ElasticPreemption.PRIORITY
        highest = candidate.priority if ordered and not candidate.reserved else None
        return Plea(candidate.party(), candidate.ask, candidate.pods, closed, highest)

    def court(self, *, reserved: bool) -> Court:
        """What a search for reserved, or elastic, newcomers looks at, as of this cycle."""
        court = self.books.court(reserved=reserved)
        if reserved not in self._looked_at:
            self._looked_at.add(reserved)
            court.bounds = Bounds(self.ledger, court.roster)
            court.prospects.renew()
        return court

    def roster(self, *, reserved: bool) -> Roster:
        """Whom reserved, or elastic, newcomers might take."""
        return self.court(reserved=reserved).roster

    def start_with(self, candidate: Candidate, victims: Victims) -> None:
        """Let the victims go and start the candidate on what they leave."""
        party = candidate.party()
        for unit, rule in zip(victims.units, victims.rules, strict=True):
            standing = unit.standing
            self._touch(standing)
            self._moved.add(standing.leaf)
            taken = Taken(candidate, rule, self.rights.level(party, unit.party), unit.pods, unit.lost_gpu_ms)
            self.taken.setdefault(standing.workload.id, []).append(taken)
            rosters = [roster for roster in self.books.rosters() if roster.drop(standing)]
            standing.lose(frozenset(pod.pod_index for pod in unit.pods))
            self.ledger.leave(standing.workload, unit.pods)
            self.accounts.usage.add(standing.leaf, -unit.milli, reserved=False)
            self.queue.touch(standing.leaf)
            if unit.whole:
                del self.standings[standing.workload.id]
            else:
                for roster in rosters:
                    roster.add(standing)
        placed = self._place_freed(candidate)
        self._start(candidate, placed, (unit.standing.workload.id for unit in victims.units))

    def _place_freed(self, candidate: Candidate) -> tuple[PodPlacement, ...]:
        """Place a newcomer whose victims have left: outside what is kept for the head, if possible."""
        domains = self.fleet.domains(candidate.ask)
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
            kept = self._estimates[alike] = estimate(self, candidate)
        return kept

    def wait(self, blocked: Blocked, kept: Kept | None = None) -> None:
        """Let a candidate wait; the first one that lacks only a place gets the start reservation.

        Who has waited already keeps his place among those who wait.
        """
        id_ = blocked.candidate.id
        before = self.waiting.get(id_)
        if before is None:
            self._turns_in_vain += 1
            blocked.number = self._turns_in_vain
        else:
            blocked.number = before.number
            self._forget_alike(before)
        self.waiting[id_] = blocked
        self._in_vain_since += 1
        self._alike.setdefault(self._kind(blocked), {})[id_] = blocked
        heads = self.pool.policy.queueing is not Queueing.BEST_EFFORT_FIFO
        if heads and blocked.cause is Cause.PLACE and self.head is None:
            self._in_vain.clear()
            self.gate.keep_for(blocked.candidate, kept or self.estimate(blocked.candidate))
            self._estimates.clear()  # What is kept for the head changes as others pass it.

    def line_up_waiting(self) -> None:
        """Put all who wait in the order of the queue, those too who were passed over."""
        now = self._figures()
        for level, then in self._passed_over.items():
            self._set_figures(then)
            for candidate in in_order(self.tree, self.ratio, self.books.lines.levels[level].leaves):
                blocked = self.try_start(candidate)
                if blocked is not None:
                    self.waiting[candidate.id] = blocked
        self._set_figures(now)
        if self._passed_over:
            policy = self.pool.policy
            rows = sorted(self.waiting.values(), key=lambda each: level_of(policy, each.candidate))
            self.waiting = {each.candidate.id: each for each in rows}

    def withdraw(self, workload: str) -> None:
        """Forget a waiting workload that has started in another pool."""
        if self._forget_waiting(workload) and self.head and self.head.candidate.id == workload:
            self.offer_again()

    def _forget_waiting(self, workload: str) -> bool:
        """Take a workload off those who wait; whether it was one of them."""
        blocked = self.waiting.pop(workload, None)
        if blocked is None:
            return False
        self._forget_alike(blocked)
        return True

    def _forget_alike(self, blocked: Blocked) -> None:
        kind = self._kind(blocked)
        del self._alike[kind][blocked.candidate.id]
        if not self._alike[kind]:
            del self._alike[kind]

    def offer_again(self, elsewhere: Sequence[Candidate] = ()) -> list[str]:
        """Offer what victims left over to the queue again, from its head, without victims; returns who starts.

        ``elsewhere`` are those who wait in other pools and could use this one too: they come last.
        """
        if not elsewhere and not any(self._might_start(kind) for kind in self._alike):
            return []
        self.gate.open()
        started = []
        for blocked in self._to_offer_again():
            again = self.try_start(blocked.candidate)
            if again is None:
                started.append(blocked.candidate.id)
            else:
                self.wait(again)
        started.extend(candidate.id for candidate in elsewhere if self.try_start(candidate) is None)
        return started

    def _to_offer_again(self) -> list[Blocked]:
        """Those who wait, in order, but for whom there is certainly no place: of those only the first, to be the
        head."""
        found: list[Blocked] = []
        stuck: list[Blocked] = []
        for (cause, ask, pods, by_quota), those in self._alike.items():
            is_stuck = cause is Cause.PLACE and not by_quota
            if is_stuck and self.gate.fails_again(ask, pods, masked=False):
                stuck.append(min(those.values(), key=by_number))
            else:
                found.extend(those.values())
        if stuck:
            found.append(min(stuck, key=by_number))
        return sorted(found, key=by_number)

    def _kind(self, blocked: Blocked) -> WaitKind:
        candidate = blocked.candidate
        by_quota = candidate.reserved or self.books.is_limited(candidate.leaf)
        return (blocked.cause, candidate.ask, candidate.pods, by_quota)

    def _might_start(self, kind: WaitKind) -> bool:
        """Whether what stops those of a kind may be gone now that something was given back."""
        cause, ask, pods, _ = kind
        if cause in (Cause.RESERVATION, Cause.CEILING):
            return cause is Cause.CEILING
        masked = self.head is not None and cause is Cause.BEHIND
        if self.gate.fails_again(ask, pods, masked=masked):
            return False
        kept = self.head.kept.spare if self.head and masked else NOTHING_KEPT
        placed = self.ledger.place(ask, range(pods), kept=kept)
        self.ledger.undo(ask, placed or ())
        return placed is not None


Figures = tuple[list[int], ...]
"""What every branch uses and was given, and what is left of its guarantee, at some moment."""
Sort = tuple[int, int, Ask, int, bool]
"""What those have in common who find the same victims, or none: leaf, priority, what their pods ask, how many must
start, whether some nodes are not for them."""


def _sort(candidate: Candidate, closed: Iterable[int]) -> Sort:
    return (candidate.leaf, candidate.priority, candidate.ask, candidate.pods, bool(closed))


WaitKind = tuple[Cause, Ask, int, bool]
"""What those have in common whom the same thing stops: what it is, what their pods ask, how many must start, whether
a guarantee or a ceiling might stop them too."""
by_number = attrgetter("number")
