"""The scheduling engine: a pure function from a snapshot to a plan.

It reads no clock, no database and no settings, never changes its input, and gives the same plan for the same snapshot
whatever the order of its rows. The rules it keeps are in ``docs/scheduling.md``; each module here is one part of
them.
"""

from __future__ import annotations

from scheduling.engine.decide import decide
from scheduling.engine.model.changes import Changes, Doubt
from scheduling.engine.state import State
from scheduling.engine.types import Plan, Snapshot

__all__ = ["Changes", "Doubt", "Plan", "Snapshot", "State", "decide", "schedule"]


def schedule(snapshot: Snapshot, now: int) -> Plan:
    """The plan for a snapshot at ``now`` (milliseconds since the epoch)."""
    return decide(State.of(snapshot), now)
