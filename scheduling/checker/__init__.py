"""An independent reader of snapshot and plan: which rules does a plan break, and which rows prove it?

It is for ``--verify``, for tests and for whoever doubts a plan. It shares no code with the engine but the types of
what goes in and comes out, so that a mistake would have to be made twice, and it is written to be obvious, not fast.

It judges what a snapshot and a plan can prove. What depends on the course of a cycle (whose turn it was, what was
free then) is worked out by taking the turns again in the order of the page, and judged as long as that order can
be told.
"""

from __future__ import annotations

from scheduling.checker.board import Board
from scheduling.checker.eligible import Admission, broken_eligibility
from scheduling.checker.figures import broken_figures
from scheduling.checker.picture import Picture, malformed
from scheduling.checker.places import broken_places
from scheduling.checker.quota import Book, broken_quotas
from scheduling.checker.shares import Shares, broken_shares
from scheduling.checker.timing import broken_deadlines
from scheduling.checker.turns import Turns
from scheduling.checker.victims import broken_victims
from scheduling.checker.violation import BrokenRule, Violation
from scheduling.checker.waiting import broken_kinds, broken_waiting
from scheduling.engine.model.plan import Plan
from scheduling.engine.model.snapshot import Snapshot

__all__ = ["BrokenRule", "Violation", "check"]


def check(snapshot: Snapshot, plan: Plan, now: int) -> tuple[Violation, ...]:
    """Every rule that the plan breaks for this snapshot at this time (milliseconds since the epoch)."""
    unreadable = tuple(malformed(snapshot, plan))
    if unreadable:
        return unreadable
    picture = Picture(snapshot, plan, now)
    admission = Admission(picture)
    books = {pool: Book(picture, pool) for pool in picture.pools}
    shares = {pool: Shares(picture, admission, book) for pool, book in books.items()}

    def boards() -> dict[str, Board]:
        return {pool: Board(picture, admission, book, shares[pool]) for pool, book in books.items()}

    turns = Turns(picture, admission, boards())
    return (
        *broken_places(picture),
        *broken_eligibility(picture, admission),
        *broken_quotas(books.values()),
        *broken_shares(picture, shares),
        *broken_figures(picture, books),
        *broken_victims(picture),
        *turns.run(),
        *broken_waiting(picture, admission, boards(), turns),
        *broken_kinds(picture),
        *broken_deadlines(picture),
    )
