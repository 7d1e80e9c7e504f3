"""What a search for victims looks at, and for whom it is made (section 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduling.engine.ask import Ask
from scheduling.engine.charges import NOTHING_LEAVES, Ceiling, Charges
from scheduling.engine.ledger import Ledger
from scheduling.engine.rights import Party, Rights


@dataclass(frozen=True, slots=True)
class Court:
    """What a search for victims looks at. Nothing of it changes while it searches."""

    ledger: Ledger
    charges: Charges
    rights: Rights


@dataclass(frozen=True, slots=True)
class Plea:
    """A newcomer that asks for victims: who it is, what its pods ask, how many must start, which nodes are not for
    it."""

    party: Party
    ask: Ask
    pods: int
    closed: frozenset[int]

    def ceiling_passed(self, court: Court, leaving: Mapping[int, int] = NOTHING_LEAVES) -> Ceiling | None:
        """The ceiling it would pass if so much (by branch) left for it."""
        party = self.party
        return court.charges.ceiling_passed(party.leaf, party.milli, reserved=party.reserved, leaving=leaving)
