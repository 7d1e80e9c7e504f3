"""What a plan is, and what it says to those who wait."""

from __future__ import annotations

from dataclasses import replace

from scheduling.checker import BrokenRule
from scheduling.engine import ReasonCode, ReasonKind
from scheduling.tests.engine.build import node, waiting
from scheduling.tests.proof.faults.worlds import (
    FULL,
    STOPPING,
    Fault,
    each,
    reason,
    without,
    world,
)
from scheduling.tests.proof.plants import wrong

REASONS = (
    Fault("a workload is forgotten", BrokenRule.NOT_ONCE, FULL, without("waits")),
    Fault("a running one is forgotten", BrokenRule.NOT_ONCE, FULL, without("keeps")),
    Fault(
        "a reason is for somebody else to mend",
        BrokenRule.REASON,
        FULL,
        each("waits", lambda row: replace(row, reason=replace(row.reason, kind=ReasonKind.ADMIN))),
    ),
    Fault(
        "a guarantee is blamed that is not used up",
        BrokenRule.REASON,
        FULL,
        each("waits", reason(ReasonCode.WAITING_FOR_RESERVATION)),
    ),
    Fault(
        "a ceiling is blamed that is not reached",
        BrokenRule.REASON,
        FULL,
        each("waits", reason(ReasonCode.WAITING_FOR_CEILING)),
    ),
    Fault(
        "a wrong obstacle is blamed",
        BrokenRule.REASON,
        world(node("n", 1), waiting("w", "a", 2)),
        each("waits", reason(ReasonCode.NO_MATCHING_NODES)),
    ),
    Fault(
        "a newcomer is not told that it waits",
        BrokenRule.REASON,
        STOPPING,
        each("starts", lambda row: replace(row, reason=None)),
    ),
    Fault(
        "everything is left to time",
        BrokenRule.REASON,
        world(node("n", 1), waiting("w", "a", 2)),
        wrong("reasons.sentences.kind_of", lambda _: ReasonKind.WAIT),
    ),
)
