"""Snapshots as compressed JSON, from which a cycle can be replayed.

What equals its default is left out, so a stored snapshot stays small and a field that the engine gets later does
not spoil those stored before.
"""

import zlib

from pydantic import TypeAdapter

from scheduling.engine import Snapshot

_SNAPSHOT = TypeAdapter(Snapshot)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return the snapshot as compressed JSON."""
    return zlib.compress(_SNAPSHOT.dump_json(snapshot, exclude_defaults=True), 1)


def decode_snapshot(stored: bytes | memoryview) -> Snapshot:
    """Return a stored snapshot, equal to the one that was encoded."""
    return _SNAPSHOT.validate_json(zlib.decompress(stored))
