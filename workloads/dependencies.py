"""Workloads that others start after, and that ended otherwise than Completed: which they are, and what to do."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from uuid import UUID

from workloads.models import Dependency, Status, Workload
from workloads.models.workload import OPEN

FAILED = "dependency-failed"
"""The code of the reason."""
MOST_NAMED = 5
SHOWN = ("needs__team", "needs__owner", "needs__adopted_job")
"""What tells who may requeue them; the app that owns adopted Jobs lies above this one."""


def failed(ids: Collection[UUID]) -> dict[UUID, list[Workload]]:
    """Return the workloads that these need and that did not complete, each with its team and owner (1 query, none for
    none).
    """
    found: dict[UUID, list[Workload]] = defaultdict(list)
    if ids:
        rows = Dependency.objects.filter(workload__in=ids).select_related(*SHOWN)
        over = rows.exclude(needs__status__in=(*OPEN, Status.COMPLETED))
        for row in over.order_by("created_at", "pk"):
            found[row.workload_id].append(row.needs)
    return found


def sentence(needed: Sequence[Workload], names: Sequence[str]) -> str:
    """Return which of them did not complete: `It starts only after a-1 (Failed) has completed.`"""
    told = [f"{name} ({row.get_status_display()})" for row, name in zip(needed, names, strict=True)]
    has = "has" if len(needed) == 1 else "have"
    return f"It starts only after {_listed(told)} {has} completed."


def requeue(slugs: Sequence[str], *, others: int) -> str:
    """Return how they are run again: those of `slugs` by the reader (`Requeue a-1 (chamber requeue a-1)`), so many
    others by their owners.
    """
    if not slugs:
        return "Ask its owner to requeue it" if others == 1 else "Ask their owners to requeue them"
    told = f"Requeue {_listed(slugs)} (chamber requeue {' '.join(slugs[:MOST_NAMED])})"
    if not others:
        return told
    asked = (
        "the owner of the other one to requeue it"
        if others == 1
        else f"the owners of the other {others} to requeue them"
    )
    return f"{told}, and ask {asked}"


def _listed(words: Sequence[str]) -> str:
    """Return the words as one enumeration, with at most `MOST_NAMED` of them: `a, b and 3 more`."""
    told = list(words[:MOST_NAMED])
    if len(words) > MOST_NAMED:
        told.append(f"{len(words) - MOST_NAMED} more")
    *before, last = told
    return f"{', '.join(before)} and {last}" if before else last
