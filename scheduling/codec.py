"""Snapshots and plans as compressed JSON, so that any cycle can be replayed.

What equals its default is left out, so a stored cycle stays small and a field that the engine gets later does
not spoil the cycles stored before.
"""

import zlib

from pydantic import TypeAdapter

from scheduling.engine.types import Plan, Snapshot

_SNAPSHOT = TypeAdapter(Snapshot)
_PLAN = TypeAdapter(Plan)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return the snapshot as compressed JSON."""
    return zlib.compress(_SNAPSHOT.dump_json(snapshot, exclude_defaults=True))


def decode_snapshot(stored: bytes | memoryview) -> Snapshot:
    """Return a stored snapshot, equal to the one that was encoded."""
    return _SNAPSHOT.validate_json(zlib.decompress(stored))


def encode_plan(plan: Plan) -> bytes:
    """Return the plan as compressed JSON."""
    return zlib.compress(_PLAN.dump_json(plan, exclude_defaults=True))


def decode_plan(stored: bytes | memoryview) -> Plan:
    """Return a stored plan, equal to the one that was encoded."""
    return _PLAN.validate_json(zlib.decompress(stored))
