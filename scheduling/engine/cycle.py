"""One pool while a cycle decides: who has what, who is next, who starts, who goes (sections 3 to 7)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from scheduling.engine.books import Books
from scheduling.engine.candidate_queue import Queue
from scheduling.engine.court import Court
from scheduling.engine.estimate import estimate
from scheduling.engine.model.plan import Allocation
from scheduling.engine.model.snapshot import PodPlacement, Queueing
from scheduling.engine.passed_over import Figures, PassedOver
from scheduling.engine.passing import Gate, Head
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.queue.candidate import Blocked, Candidate, Cause
from scheduling.engine.queueing import Kept
from scheduling.engine.quiet import is_quiet
from scheduling.engine.quota.tree import ROOT
from scheduling.engine.roster import Roster
from scheduling.engine.search import Victims
from scheduling.engine.standing import Standing
from scheduling.engine.stretch import stretch_of
from scheduling.engine.taking import PreemptedPods, Taking
from scheduling.engine.vain import Turn, Vain
from scheduling.engine.waiting import Waiting
from scheduling.engine.yields import Group

FIRST_LOOK = 64
"""After so many turns in vain it is worth to look whether anybody is left who could act; a stretch of them counts as
one, as it takes no longer."""
NEXT_LOOK = 256
"""The same, where it was looked before and somebody could."""
FEW_TURNS = 8
"""When so many of a leaf have had their turns in vain, one after the other, those after them are looked at by sort, if
there are so many of each."""


class PoolCycle:
    """The decisions of one cycle in one pool, as they are made on its books.

    :meth:`open` works out the entitlements and lines up the candidates; :meth:`take_back` leaves the books as they
    were.
    """

    def __init__(self, books: Books, now: int) -> None:
        self.books = books
        self.pool = books.pool
        self.nodes = books.nodes
        self.tree = books.tree
        self.requests = books.requests
        self.now = now
        books.move_clock(now)
        self.accounts = books.accounts
        self.charges = books.charges
        self.allocations = books.allocations
        self.standings = books.standings
        self.ledger = books.ledger
        self.demand = books.demand
        self.entitled = books.entitled
        self.preemption_policy = books.preemption_policy
        self.given = books.given
        self.ratio = books.ratio
        self.started: dict[str, Standing] = {}
        self.candidates: dict[str, Candidate] = {}
        self.touched: dict[str, Standing] = {}
        self.is_over = False
        self.vain = Vain()
        self.passed_over = PassedOver(self)
        self._in_vain_since = 0
        self._look_after = 0
        self._grown: list[tuple[Standing, PodPlacement]] = []
        self._recharged: dict[str, list[Allocation]] = {}
        self._estimates: dict[tuple[PodRequest, int, bool], Kept] = {}
        self.other_ends: list[tuple[int, str]] | None = None
        """When those end who do not run yet or whose time is over, once somebody asked; not whom the cycle starts."""
        self._heads = self.pool.policy.queueing is not Queueing.BEST_EFFORT_FIFO
        self.gate = Gate(self.pool.policy, self.ledger, self.preemption_policy, now, books.failed)
        self.waiting = Waiting(self.gate, self.ledger, books.limited)
        self._taking = Taking(self)

    @property
    def head(self) -> Head | None:
        """The first blocked workload of the order."""
        return self.gate.head

    @property
    def taken(self) -> dict[str, list[PreemptedPods]]:
        """By workload, which of its pods went for whom."""
        return self._taking.taken

    # --- Beginning and ending --------------------------------------------------------------------------------

    def open(self) -> None:
        """Work out the entitlements and line up the candidates."""
        self.books.work_out()
        self.books.next_entitled[:] = self.entitled
        self.ledger.begin()
        self._before = self.figures()
        self.queue: Queue[Candidate] = Queue(
            self.books.buckets, self.books.lines, self.passed_over.with_turns
        )

    # --- Stopping early --------------------------------------------------------------------------------------

    def stops(self) -> bool:
        """Whether the cycle may stop, because nobody left in the queue could act.

        It is looked at again after twice as many have had their turn in vain.
        """
        if not self._is_look_due():
            return False
        self._look_after = max(NEXT_LOOK, 2 * self._in_vain_since)
        return is_quiet(self)

    def _is_look_due(self) -> bool:
        """Whether so many have had their turn in vain that it is worth to look."""
        if self._in_vain_since < self._look_after:
            return False
        return not self._heads or self.gate.head is not None

    def pass_by(self) -> bool:
        """Give those at the head of the queue their turn who are known to have it in vain, up to the next who might
        act or stands in other queues too; whether there was one."""
        some = False
        while True:
            passed: list[Candidate] = []
            for each in self.queue.run():
                if not self._passes(each):
                    self.queue.remove_run(passed)
                    return some or bool(passed)
                passed.append(each)
                if len(passed) == FEW_TURNS:
                    break
            if not passed:
                return some
            self.queue.remove_run(passed)
            if len(passed) == FEW_TURNS:
                self._pass_stretch()
            some = True

    def _passes(self, candidate: Candidate) -> bool:
        """Give a candidate his turn, if it is not time to look whether to stop and his turn is known to be in vain."""
        if candidate.several or (self._is_look_due() and not self.is_over):
            return False
        blocked = self._known_to_stop(candidate)
        if blocked is None:
            return False
        self.wait(blocked)
        return True

    def _pass_stretch(self) -> None:
        """Give all of a leaf their turns who follow each other, as far as it is enough to look at one of each sort."""
        lead = self.queue.lead()
        if lead is None or self.queue.level is None or (self._is_look_due() and not self.is_over):
            return
        leaf, line = lead.head.leaf, self.books.lines.levels[self.queue.level]
        head, most = self.gate.head, self.pool.policy.max_preemptions
        all_alike = most is None or (head is not None and bool(head.held_back))
        if lead.head.reserved or line.several or not all_alike or (self._heads and head is None):
            return
        sorts = line.by_sort(leaf)
        if FEW_TURNS * len(sorts) > len(lead.row) - lead.at:
            return
        stretch = stretch_of(lead, sorts, self._in_vain, self._ahead())
        if stretch.candidates:
            self.waiting.add_all(stretch)
            self._in_vain_since += 1
            self.queue.skip(lead, lead.at + len(stretch.candidates))

    def _known_to_stop(self, candidate: Candidate) -> Blocked | None:
        """What stops a candidate, if it is known, without a try, that neither place nor victims are for him."""
        if candidate.reserved:
            available = self.charges.available(candidate.leaf)
            short = available < candidate.next_milli
            return Blocked(candidate, Cause.GUARANTEE, available) if short else None
        cause = self._in_vain(candidate)
        return None if cause is None else Blocked(candidate, cause, ahead=self._ahead())

    def _in_vain(self, candidate: Candidate) -> Cause | None:
        """What keeps an elastic candidate from a place, if it is known that neither that nor victims are for him."""
        turn = self._turn_of(candidate)
        cause = self.vain.is_in_vain(turn)
        if cause is None:
            cause = self._known_to_keep(candidate)
            if cause is not None:
                self.vain.had_turn(turn, cause)
        return cause

    def _turn_of(self, candidate: Candidate) -> Turn:
        """What decides whether the turn of an elastic candidate is in vain, as things stand."""
        most, head = self.pool.policy.max_preemptions, self.gate.head
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
        if candidate.leaf in self.books.limited:
            return None
        cause = self.vain.keeps_from_place(candidate)
        if cause is None:
            cause = self.gate.keeps_out_again(candidate)
            if cause is None:
                return None
            self.vain.found_no_place(candidate, cause)
        helpless = self.vain.is_helpless(self.queue.level, candidate.leaf)
        return None if not helpless and self.might_preempt(candidate) else cause

    # --- Figures ---------------------------------------------------------------------------------------------

    def figures(self) -> Figures:
        """What every branch uses and was given, and what is left of its guarantee."""
        usage = self.accounts.usage
        return (usage.used[:], usage.reserved[:], usage.above[:], self.charges.left[:], self.given[:])

    def set_figures(self, figures: Figures) -> None:
        """Have them be those of some moment."""
        usage = self.accounts.usage
        kept = (usage.used, usage.reserved, usage.above, self.charges.left, self.given)
        for mine, theirs in zip(kept, figures, strict=True):
            mine[:] = theirs

    def take_back(self) -> None:
        """Leave the books as they were before the cycle."""
        self.ledger.rollback()
        self.set_figures(self._before)
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
        ahead = self._ahead()
        if self.gate.shut:
            return Blocked(candidate, Cause.BEHIND, ahead=ahead)
        placed = self.gate.place(
            candidate, range(candidate.pods), in_time=self.gate.in_time(candidate.workload)
        )
        if isinstance(placed, Cause):
            self.vain.found_no_place(candidate, placed)
            return Blocked(candidate, placed, ahead=ahead)
        self.start(candidate, placed, ())
        return None

    def _ahead(self) -> str:
        """The name of the head, if there is one."""
        head = self.gate.head
        return head.candidate.workload.name if head else ""

    def quota_stops(self, candidate: Candidate) -> Blocked | None:
        """Whether guarantee or ceiling stops it as things stand."""
        asked = candidate.next_milli
        if candidate.reserved:
            available = self.charges.available(candidate.leaf)
            if available < asked:
                return Blocked(candidate, Cause.GUARANTEE, available)
        passed = self.charges.ceiling_passed(candidate.leaf, asked, reserved=candidate.reserved)
        return None if passed is None else Blocked(candidate, Cause.CEILING, passed.available, passed)

    def start(self, candidate: Candidate, placed: Sequence[PodPlacement], victims: Iterable[str]) -> None:
        """Count a newcomer that has its place."""
        if self.is_over:
            raise RuntimeError(
                f"{candidate.id} could have started, but the cycle has stopped before its turn."
            )
        standing = Standing(candidate.workload, candidate.leaf, tuple(placed), self.books.clock, fresh=True)
        standing.victims = sorted(set(victims))
        self.standings[candidate.id] = self.started[candidate.id] = standing
        self.candidates[candidate.id] = candidate
        self.passed_over.note_start(candidate, standing.milli)
        self.count(standing, standing.milli)

    def grow(self, standing: Standing, pod: PodPlacement) -> None:
        """Count a pod that a workload has got above its minimum."""
        if not self._grown:
            self._before_growth = self.figures()
        self._grown.append((standing, pod))
        self.touch(standing)
        for roster in self.books.rosters():
            roster.drop(standing)
        standing.grow(pod)
        self.count(standing, pod.milli)

    @contextmanager
    def as_before_growth(self) -> Iterator[None]:
        """Have things stand for a while as they did before anybody grew."""
        after = self.figures()
        self.set_figures(self._before_growth if self._grown else after)
        for standing, pod in reversed(self._grown):
            standing.pods = tuple([each for each in standing.pods if each != pod])
            self.ledger.undo(self.requests.of(standing.workload), [pod])
            self.ledger.note_freed([pod])
            self.queue.touch(standing.leaf)
        yield
        for standing, pod in self._grown:
            standing.pods = (*standing.pods, pod)
            self.ledger.hold(self.requests.of(standing.workload), [pod])
        self.set_figures(after)

    def count(self, standing: Standing, milli: int) -> None:
        """Count what a workload gets in this cycle. Who looked for victims in vain may find some now."""
        self._in_vain_since, self._look_after = 0, FIRST_LOOK
        self.vain.forget()
        self._estimates.clear()
        self._taking.note_start(standing)
        self.accounts.usage.add(standing.leaf, milli, reserved=standing.workload.reserved)
        for branch in (ROOT, *self.tree.paths[standing.leaf]):
            self.given[branch] += milli
        if standing.workload.reserved:
            self._charge(standing, milli)
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

    def touch(self, standing: Standing) -> None:
        """Remember a workload that was placed before and is going to be changed."""
        if standing.workload.id not in self.started:
            self.touched[standing.workload.id] = standing

    # --- Starting with victims ------------------------------------------------------------------------------

    def find_victims(self, candidate: Candidate, blocked: Blocked) -> Victims | None:
        """The victims with which a candidate that was blocked could start here."""
        return self._taking.find_victims(candidate, blocked)

    def might_preempt(self, candidate: Candidate) -> bool:
        """Whether a candidate might find victims as things stand; false only if he certainly finds none."""
        return self._taking.might_preempt(candidate)

    def group_might_do(self, group: Group, request: PodRequest, pods: int) -> bool:
        """Whether a group of elastic ones might make room, if all of it went; false only if it certainly does not."""
        return self.court(reserved=False).group_might_do(group, request, pods)

    def court(self, *, reserved: bool) -> Court:
        """What a search for reserved, or elastic, newcomers looks at, as of this cycle."""
        return self._taking.court(reserved=reserved)

    def roster(self, *, reserved: bool) -> Roster:
        """Whom reserved, or elastic, newcomers might take."""
        return self.court(reserved=reserved).roster

    def start_with(self, candidate: Candidate, victims: Victims) -> None:
        """Let the victims go and start the candidate on what they leave."""
        self._taking.start_with(candidate, victims)

    # --- Waiting --------------------------------------------------------------------------------------------

    def estimate(self, candidate: Candidate) -> Kept:
        """The start reservation the candidate would get. Whom it may preempt at any time is not in its way."""
        alike = (candidate.request, candidate.pods, candidate.reserved)
        kept = self._estimates.get(alike)
        if kept is None:
            kept = self._estimates[alike] = estimate(self, candidate)
        return kept

    def wait(self, blocked: Blocked, kept: Kept | None = None) -> None:
        """Let a candidate wait; the first one that lacks only a place gets the start reservation."""
        self.waiting.add(blocked)
        self._in_vain_since += 1
        if blocked.cause is Cause.PLACE and self._heads and self.gate.head is None:
            self.vain.forget()
            self.gate.keep_for(blocked.candidate, kept or self.estimate(blocked.candidate))
            self._estimates.clear()  # What is kept for the head changes as others pass it.

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
        self.vain.forget()
        self.passed_over.note_offer()
        self.gate.open()
        started = []
        offered = self._to_offer_again()
        while offered:
            blocked = offered.popleft()
            again = self.try_start(blocked.candidate)
            if again is None:
                started.append(blocked.candidate.id)
                self.waiting.forget(blocked.candidate.id)
                offered = self._to_offer_again(after=blocked.number)
            else:
                self.wait(again)
        started.extend(candidate.id for candidate in elsewhere if self.try_start(candidate) is None)
        self._in_vain_since = 0
        return started

    def _to_offer_again(self, after: int = 0) -> deque[Blocked]:
        """Those to whom something is offered again, whose turns came after so many others."""
        rows = self.waiting.to_offer_again(lambda candidate: self.quota_stops(candidate) is None)
        return deque([blocked for blocked in rows if blocked.number > after])
