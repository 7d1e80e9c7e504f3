"""Truths 1 and 2, behind them: each plan was made of a picture that had the plan before it."""

import json
import zlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from chaos.truths.records import Records
from chaos.truths.tables import StoredCycle, StoredEvent, StoredTables
from chaos.truths.violation import TruthViolation


def check(tables: StoredTables, records: Records) -> Iterator[TruthViolation]:  # noqa: ARG001 - all checks take both
    """Find plans that were made before the one before them was written: the fence was to refuse them."""
    newest = max((cycle.number for cycle in tables.cycles), default=0)
    if newest > tables.clock:
        yield TruthViolation(4, f"Cycle {newest} is stored, and the clock stands at {tables.clock}.")
    started: dict[int, dict[UUID, StoredEvent]] = defaultdict(dict)
    for event in tables.events:
        if event.data.get("status") == "queued" and "cycle" in event.data:
            started[event.data["cycle"]][event.workload_id] = event
    by_number = {cycle.number: cycle for cycle in tables.cycles}
    for number, starts in sorted(started.items()):
        cycle = by_number.get(number + 1)
        if cycle is None:
            continue
        pending = _pending(cycle)
        for workload_id, event in starts.items():
            if workload_id in pending and not _came_back(tables, event):
                who = tables.called(workload_id)
                sentence = f"Cycle {cycle.number} was planned as if cycle {number} had not started {who}."
                rows = (str(event), f"{cycle.TABLE}: number={cycle.number}, ran_by={cycle.ran_by}")
                yield TruthViolation(1, sentence, rows)


def _pending(cycle: StoredCycle) -> set[UUID]:
    """Return who waited in the picture that a cycle was planned on; nobody where it cannot be read."""
    try:
        picture: dict[str, Any] = json.loads(zlib.decompress(cycle.snapshot))
        rows = [row for row in picture["workloads"] if row.get("status", "pending").lower() == "pending"]
        return {UUID(row["id"]) for row in rows}
    except (ValueError, KeyError, AttributeError, zlib.error):
        return set()


def _came_back(tables: StoredTables, queued: StoredEvent) -> bool:
    """Return whether the workload was Pending again at some time after it was queued."""
    later = (event for event in tables.events_of[queued.workload_id] if event.sequence > queued.sequence)
    return any(event.data.get("status") == "pending" for event in later)
