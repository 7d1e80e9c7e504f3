"""How the members of arrays stand: how many in each status, how far an array is, and how long the rest takes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Count, Min

from workloads.models import Status, Workload
from workloads.models.workload import OPEN

LEAST_ENDED = 2
"""Members that must have ended before a pace is known."""


@dataclass(frozen=True, slots=True)
class ArrayCounts:
    """How many members of an array are in which status, of those that are kept, and when the first one ended."""

    by_status: Mapping[str, int] = field(default_factory=dict)
    first_ended_at: datetime | None = None

    @property
    def total(self) -> int:
        """Return how many there are."""
        return sum(self.by_status.values())

    @property
    def open(self) -> int:
        """Return how many have not ended."""
        return sum(self.of(status) for status in OPEN)

    @property
    def ended(self) -> int:
        """Return how many have ended."""
        return self.total - self.open

    @property
    def percent(self) -> int:
        """Return how much of it has ended, rounded down."""
        return 100 * self.ended // self.total if self.total else 100

    @property
    def shown(self) -> list[tuple[Status, int]]:
        """Return the statuses that some member has, in the order of a life, with how many."""
        return [(status, n) for status in Status if (n := self.of(status))]

    def of(self, status: str) -> int:
        """Return how many have this status."""
        return self.by_status.get(status, 0)

    def left(self, now: datetime) -> timedelta | None:
        """Return how long the rest takes at the pace of those that ended since the first; None where none is known."""
        if not self.open or self.first_ended_at is None or self.ended < LEAST_ENDED:
            return None
        so_far = now - self.first_ended_at
        return so_far * self.open / (self.ended - 1) if so_far > timedelta(0) else None


def of_arrays(ids: Collection[UUID]) -> dict[UUID, ArrayCounts]:
    """Return the counts of each of these arrays (1 query, of an index alone; none for none)."""
    if not ids:
        return {}
    rows = Workload.objects.filter(array__in=ids).order_by().values("array", "status")
    statuses: dict[UUID, dict[str, int]] = {key: {} for key in ids}
    firsts: dict[UUID, datetime] = {}
    for array, status, n, first in rows.annotate(n=Count("pk"), first=Min("finished_at")).values_list(
        "array", "status", "n", "first"
    ):
        statuses[array][status] = n
        if first is not None:
            firsts[array] = min(first, firsts.get(array, first))
    return {key: ArrayCounts(found, firsts.get(key)) for key, found in statuses.items()}
