"""The truths that hold whatever fails, checked by reading the tables: no line of the product is used.

Two kinds of violation: what was done can never be undone by waiting (a device given out twice); what was not done
yet counts only when there was time enough to do it (a workload that nobody starts). `safety` looks for the first and
holds at any moment, also in the middle of a fault; `settled` looks for the second.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from chaos.truths import answers, classes, devices, fence, history, idle, indexes, pods, roles, waiting
from chaos.truths.records import Records
from chaos.truths.tables import StoredTables
from chaos.truths.violation import TruthViolation

__all__ = ["Look", "Records", "StoredTables", "TruthViolation", "safety", "settled"]

Look = Callable[[str, Path | None, tuple[Path, ...]], list[TruthViolation]]
Check = Callable[[StoredTables, Records], Iterator[TruthViolation]]

SAFETY: tuple[Check, ...] = (
    devices.check,
    pods.check,
    classes.check,
    answers.check,
    history.check,
    fence.check,
    indexes.check,
    roles.check,
)
SETTLED: tuple[Check, ...] = (waiting.check, idle.check)


def safety(url: str, answered: Path | None = None, journals: tuple[Path, ...] = ()) -> list[TruthViolation]:
    """Return what was done and must never be; it holds at any moment."""
    return _look(url, answered, journals, SAFETY)


def settled(url: str, answered: Path | None = None, journals: tuple[Path, ...] = ()) -> list[TruthViolation]:
    """Return what should have happened by now; it counts only after a time without load and faults."""
    return _look(url, answered, journals, SETTLED)


def _look(
    url: str, answered: Path | None, journals: tuple[Path, ...], checks: tuple[Check, ...]
) -> list[TruthViolation]:
    # Both records after the tables: what the tables call gone must be gone in the clusters.
    before = time.monotonic()
    tables = StoredTables.read(url)
    records = Records(Records.answers_of(answered, before=before), Records.pods_of(journals), before)
    return [violation for check in checks for violation in check(tables, records)]
