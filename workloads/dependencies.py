"""Workloads that others start after, and that ended otherwise than Completed: which they are, and what to do."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from uuid import UUID

from workloads.models import Dependency, Status, Workload
from workloads.models.workload import OPEN

FAILED = "dependency-failed"
"""The code of the reason."""
MOST_NAMED = 5


def failed(ids: Collection[UUID]) -> dict[UUID, list[Workload]]:
    """Return the workloads that these need and that did not complete, each with its team (1 query, none for none)."""
    found: dict[UUID, list[Workload]] = defaultdict(list)
    if ids:
        rows = Dependency.objects.filter(workload__in=ids).select_related("needs__team")
        over = rows.exclude(needs__status__in=(*OPEN, Status.COMPLETED))
        for row in over.order_by("created_at", "pk"):
            found[row.workload_id].append(row.needs)
    return found


def sentence(needed: Sequence[Workload], names: Sequence[str]) -> str:
    """Return which of them did not complete: `It starts only after a-1 (Failed) has completed.`"""
    told = [f"{name} ({row.get_status_display()})" for row, name in zip(needed, names, strict=True)][
        :MOST_NAMED
    ]
    if len(needed) > MOST_NAMED:
        told.append(f"{len(needed) - MOST_NAMED} more")
    has = "has" if len(needed) == 1 else "have"
    return f"It starts only after {_listed(told)} {has} completed."


def requeue(needed: Sequence[Workload], slugs: Sequence[str]) -> str:
    """Return how they are run again, those by name that may be named: `Requeue a-1 (chamber requeue a-1)`."""
    foreign = len(needed) - len(slugs)
    if not slugs:
        return "Ask whose it is to requeue it" if foreign == 1 else "Ask whose they are to requeue them"
    named = slugs[:MOST_NAMED]
    told = f"Requeue {_listed(named)} (chamber requeue {' '.join(named)})"
    return f"{told}, and ask for the same where it is not yours" if foreign else told


def _listed(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last
