"""What a search for victims is made for, and what it looks at (section 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduling.engine.placement.ledger import Ledger
from scheduling.engine.placement.pod_request import PodRequest
from scheduling.engine.preemption.policy import PreemptionPolicy, WorkloadClaim
from scheduling.engine.preemption.victims import PlacedWorkload
from scheduling.engine.quota.charging import NOTHING_LEAVES, Ceiling, Charges


@dataclass(slots=True)
class PreemptionContext:
    """What the searches of one pool look at. Nothing of it changes while one searches."""

    ledger: Ledger
    charges: Charges
    preemption_policy: PreemptionPolicy


@dataclass(frozen=True, slots=True)
class PreemptionRequest:
    """A preemptor: its claim, what its pods request, how many must start, and which nodes are not for it.

    ``highest_victim``: up to which priority it may have victims at all (``None``: any).
    """

    claim: WorkloadClaim
    request: PodRequest
    pods: int
    closed: frozenset[int]
    highest_victim: int | None

    def may_take(self, placed: PlacedWorkload) -> bool:
        """Whether the workload's priority is not too high."""
        return self.highest_victim is None or placed.workload.priority <= self.highest_victim

    def ceiling_passed(
        self, context: PreemptionContext, leaving: Mapping[int, int] = NOTHING_LEAVES
    ) -> Ceiling | None:
        """The ceiling it would pass if so much (by branch) left for it."""
        claim = self.claim
        return context.charges.ceiling_passed(
            claim.leaf, claim.milli, reserved=claim.reserved, leaving=leaving
        )
