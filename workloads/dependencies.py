"""Workloads that others start after, and that have not completed: which they are, how they stand, and what to do."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from uuid import UUID

from workloads.models import Dependency, DependencyKind, Status, Workload

FAILED = "dependency-failed"
"""The code of the reason."""
MOST_NAMED = 5
SHOWN = ("needs__team", "needs__owner", "needs__adopted_job")
"""What tells who may requeue them; the app that owns adopted Jobs lies above this one."""


def unmet(ids: Collection[UUID]) -> dict[UUID, list[Workload]]:
    """Return the workloads that these need and that have not completed, each with its team and owner (1 query, none
    for none).
    """
    found: dict[UUID, list[Workload]] = defaultdict(list)
    if ids:
        rows = Dependency.objects.filter(workload__in=ids, kind=DependencyKind.AFTER_OK).select_related(
            *SHOWN
        )
        rows = rows.filter(needs__isnull=False)  # `workloads.needs` tells of the others
        for row in rows.exclude(needs__status=Status.COMPLETED).order_by("created_at", "pk"):
            if row.needs is not None:
                found[row.workload_id].append(row.needs)
    return found


def failed(ids: Collection[UUID]) -> dict[UUID, list[Workload]]:
    """Return those that these need and that ended otherwise than Completed (1 query, none for none)."""
    over = {key: [row for row in needed if not row.is_open] for key, needed in unmet(ids).items()}
    return {key: needed for key, needed in over.items() if needed}


def sentence(needed: Sequence[Workload], names: Sequence[str], states: Sequence[str] = ()) -> str:
    """Return which of them have to complete first: `It starts only after a-1 (Failed) has completed.`

    `states` says how each stands, where that is more than its status.
    """
    stand = states or [row.get_status_display() for row in needed]
    told = [f"{name} ({state})" for name, state in zip(names, stand, strict=True)]
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


def release(slugs: Sequence[str], *, others: int) -> str:
    """Return how those on hold are released: those of `slugs` by the reader (`Release a-1 (chamber release a-1)`), so
    many others by their owners.
    """
    told = [f"Release {_listed(slugs)} (chamber release {' '.join(slugs[:MOST_NAMED])})"] if slugs else []
    if others == 1:
        told.append("ask the owner of the one on hold to release it")
    elif others:
        told.append(f"ask the owners of {others} that are on hold to release them")
    return _capital(", and ".join(told))


def look_after(slugs: Sequence[str], *, others: int) -> str:
    """Return where to look for what keeps those from starting that do not start by themselves; those of `slugs` the
    reader may see.
    """
    told = [f"see what keeps {_listed(slugs)} from starting (chamber why {slugs[0]})"] if slugs else []
    if others:
        whom = "the owner of the one" if others == 1 else f"the owners of the {others}"
        told.append(f"ask {whom} of another team what keeps it from starting")
    return _capital(", and ".join(told))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _listed(words: Sequence[str]) -> str:
    """Return the words as one enumeration, with at most `MOST_NAMED` of them: `a, b and 3 more`."""
    told = list(words[:MOST_NAMED])
    if len(words) > MOST_NAMED:
        told.append(f"{len(words) - MOST_NAMED} more")
    *before, last = told
    return f"{', '.join(before)} and {last}" if before else last
