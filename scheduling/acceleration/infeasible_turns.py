"""Turns that certainly change nothing: others alike had theirs, and nothing has changed since (sections 5 to 7)."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.acceleration.leaf_candidates import Kind, kind_of
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.queue.candidate import Candidate, Cause, PoolRequest
from scheduling.engine.queue.order import Level

SearchKind = tuple[int, int, PodRequest, int, bool]
"""What preemptors have in common that find the same victims, or none: leaf, priority, what their pods ask, how many
must start, whether some nodes are not for them."""


Turn = tuple[int, int, PoolRequest, bool, bool]
"""What candidates have in common whose turns change nothing alike: leaf, priority, what they take and for how long,
whether they have been preempted too often to be so again, whether something was held back for the head."""


class InfeasibleTurns:
    """What turns that changed nothing tell of others, until something starts, leaves or is reserved for the head."""

    def __init__(self) -> None:
        self._causes: dict[Kind, Cause] = {}
        self._turns: dict[Turn, Cause] = {}
        self._searched: set[SearchKind] = set()
        self._without_victims: tuple[Level, frozenset[int]] | None = None

    def forget(self) -> None:
        """Something has changed: nothing is known any more."""
        self._causes.clear()
        self._turns.clear()
        self._searched.clear()
        self._without_victims = None

    def had_turn(self, turn: Turn, cause: Cause) -> None:
        """Note that a turn changes nothing, as there is neither place nor victim, and what keeps from a place."""
        self._turns[turn] = cause

    def is_infeasible(self, turn: Turn) -> Cause | None:
        """What keeps from a place in a turn that changes nothing; ``None`` where nothing is known."""
        return self._turns.get(turn)

    # --- Places ----------------------------------------------------------------------------------------------

    def found_no_place(self, candidate: Candidate, cause: Cause) -> None:
        """Note what keeps a candidate that guarantees and ceilings admit from a place.

        It keeps all of its kind from one, but for pods that take no device: whether they are in the head's way differs.
        """
        if not candidate.request.bare:
            self._causes[kind_of(candidate.pool_request)] = cause

    def keeps_from_place(self, candidate: Candidate) -> Cause | None:
        """What keeps the candidate from a place, if that is known."""
        return self._causes.get(kind_of(candidate.pool_request))

    # --- Victims ---------------------------------------------------------------------------------------------

    def failed_search(self, candidate: Candidate, closed: Iterable[int]) -> None:
        """Note that a search for victims, on nodes that are not ``closed``, found none."""
        self._searched.add(_search_kind(candidate, closed))

    def has_failed(self, candidate: Candidate, closed: Iterable[int]) -> bool:
        """Whether such a search found none already."""
        return _search_kind(candidate, closed) in self._searched

    def note_without_victims(self, level: Level, but: frozenset[int]) -> None:
        """Note that no candidate of a level finds victims, ceilings aside, but in some leaves."""
        self._without_victims = (level, but)

    def is_without_victims(self, level: Level | None, leaf: int) -> bool:
        """Whether that is so for a level and a leaf."""
        return (
            self._without_victims is not None
            and self._without_victims[0] == level
            and leaf not in self._without_victims[1]
        )


def _search_kind(candidate: Candidate, closed: Iterable[int]) -> SearchKind:
    return (candidate.leaf, candidate.priority, candidate.request, candidate.pods, bool(closed))
