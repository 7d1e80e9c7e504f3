"""Reserved ones whose guarantees are in use: they are passed over, and told in their places when the plan is read
(sections 3, 4 and 9).

What guarantees have left only falls while a cycle lasts, as nothing reserved is ever a victim. So where a leaf has less
left than any of its candidates needs, their turns change nothing, whenever they come. Without them the others of their
level come in the same order, as long as no leaf is left out of a branch that is compared with one beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from scheduling.acceleration.branch_heaps import BranchHeaps
from scheduling.acceleration.heap_queue import HeapQueue
from scheduling.acceleration.kept_blocked_queue import KeptBlockedQueue
from scheduling.acceleration.kept_pool import Figures, KeptPool
from scheduling.engine.queue.candidate import Blocked, Candidate, Cause
from scheduling.engine.queue.order import Level, level_of
from scheduling.engine.quota.tree import ROOT

Leaves = dict[int, list[Candidate]]
Change = tuple[int, int, bool]
"""A leaf, what it came to use more (or, negative, less), and whether that is reserved."""


@dataclass(slots=True)
class _SkippedLevel:
    """A level of which only some leaves have their turns: how things stood when it began, and by whose turn what has
    changed since."""

    leaves: Leaves
    figures: Figures
    changes: dict[str, list[Change]] = field(default_factory=dict)


@dataclass(slots=True)
class _Offer:
    """What was left of the guarantees when something was offered to the queue again, in whose turn that was, and which
    reserved ones started, with how much."""

    left: list[int]
    turn: Candidate
    started: list[tuple[Candidate, int]] = field(default_factory=list)


class SkippedLeaves:
    """The leaves that are passed over in one pool's cycle."""

    queue: HeapQueue[Candidate]

    def __init__(self, kept_pool: KeptPool) -> None:
        self._kept_pool = kept_pool
        self._levels: dict[Level, _SkippedLevel] = {}
        self._offer: _Offer | None = None
        self._alone = not any(line.several for line in kept_pool.lines.levels.values())
        """Whether no candidate here stands in another pool's queue: then turns come here as if there were no other."""

    # --- While the cycle decides -----------------------------------------------------------------------------

    def with_turns(self, level: Level) -> Leaves | None:
        """The leaves of a level that have their turns, if it is not all of them. Its order is that of now."""
        line = self._kept_pool.lines.levels[level]
        if level[0] or line.several:
            return None
        available = self._kept_pool.charges.available
        hopeful = [leaf for leaf, least in line.least().items() if least <= available(leaf)]
        if hopeful and not self._alone:
            return None
        needed = self._needed_to_order(line.rows, hopeful)
        if 2 * len(needed) > len(line.rows):
            return None
        leaves = {leaf: line.candidates(leaf) for leaf in needed}
        self._levels[level] = _SkippedLevel(leaves, self._kept_pool.figures())
        return leaves

    def _needed_to_order(self, leaves: Collection[int], hopeful: list[int]) -> list[int]:
        """Of some leaves those without which the order of the hopeful ones among them is not known: all below
        the branches by which these part."""
        if not hopeful:
            return []
        tree, first = self._kept_pool.tree, hopeful[0]
        parting = (tree.parting(first, other) for other in hopeful[1:])
        depth = min(parting, default=len(tree.paths[first]) - 1)
        ways = {tree.paths[leaf][depth] for leaf in hopeful}
        return [leaf for leaf in leaves if not ways.isdisjoint(tree.paths[leaf])]

    def note_start(self, candidate: Candidate, milli: int) -> None:
        """Take note that a candidate starts, in its turn or because something is offered again."""
        if not self._levels:
            return
        self.note(candidate.leaf, milli, reserved=candidate.reserved)
        offer = self._offer
        if offer is not None and offer.turn is self.queue.last and candidate.reserved:
            offer.started.append((candidate, milli))

    def note(self, leaf: int, milli: int, *, reserved: bool) -> None:
        """Take note that a leaf comes to use more, or less."""
        level, turn = self.queue.level, self.queue.last
        if level in self._levels and turn is not None:
            self._levels[level].changes.setdefault(turn.id, []).append((leaf, milli, reserved))

    def note_offer(self) -> None:
        """Take note that something is offered to all whose turns changed nothing."""
        turn = self.queue.last
        if self._levels and self._alone and turn is not None:
            self._offer = _Offer(self._kept_pool.charges.left[:], turn)

    # --- When the plan is read ----------------------------------------------------------------------------------

    def line_up(self, waiting: KeptBlockedQueue) -> None:
        """Put those that were passed over among those that wait, in the order of the queue."""
        if not self._levels:
            return
        kept_pool, policy = self._kept_pool, self._kept_pool.pool.policy
        now = kept_pool.figures()
        places: dict[str, int] = {}
        late = [blocked for level in self._levels for blocked in self._turns(level, places)]

        def place(candidate: Candidate) -> tuple[Level, int]:
            return (level_of(policy, candidate), places.get(candidate.id, 0))

        if self._offer is not None:
            self._offer_to(late, self._offer, place)
        kept_pool.set_figures(now)
        waiting.line_up(late, place)

    def _turns(self, level: Level, places: dict[str, int]) -> Iterator[Blocked]:
        """Have all of a level have their turns, again or late; those that were passed over, with what was available to
        them. The number of each is noted in ``places``."""
        kept_pool, passed = self._kept_pool, self._levels[level]
        kept_pool.set_figures(passed.figures)
        heaps = BranchHeaps(kept_pool.tree, kept_pool.ratio, kept_pool.lines.levels[level].leaves, set())
        while (head := heaps.head()) is not None:
            heaps.remove(head)
            places[head.id] = len(places)
            if head.leaf not in passed.leaves:
                yield Blocked(head, Cause.GUARANTEE, kept_pool.charges.available(head.leaf))
            for leaf, milli, reserved in passed.changes.get(head.id, ()):
                self._count(leaf, milli, reserved=reserved)
                heaps.renew(leaf)

    def _count(self, leaf: int, milli: int, *, reserved: bool) -> None:
        """Count once more what a leaf came to use."""
        kept_pool = self._kept_pool
        kept_pool.accounts.usage.add(leaf, milli, reserved=reserved)
        if milli > 0:
            for branch in (ROOT, *kept_pool.tree.paths[leaf]):
                kept_pool.given[branch] += milli
        if reserved:
            kept_pool.charges.charge(leaf, milli)

    def _offer_to(
        self, late: Iterable[Blocked], offer: _Offer, place: Callable[[Candidate], tuple[Level, int]]
    ) -> None:
        """Have those whose turns had come by then told what was available to them in the last offer to all; each comes
        after those that started before it. Where a whole level was passed over, they are told what was when it
        began."""
        charges = self._kept_pool.charges
        charges.left[:] = offer.left
        started = sorted(offer.started, key=lambda row: place(row[0]), reverse=True)
        until = place(offer.turn)
        for blocked in late:
            mine = place(blocked.candidate)
            if mine > until:
                return
            if not self._levels[mine[0]].leaves:
                continue
            while started and place(started[-1][0]) < mine:
                candidate, milli = started.pop()
                charges.charge(candidate.leaf, milli)
            blocked.available = charges.available(blocked.candidate.leaf)
