"""Arrays in lists: one row stands for all members, and may be unfolded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from chamber.errors import Refusal
from chamber.words import span
from teams.actors import Actor
from workloads.arrays import acts, counts
from workloads.arrays.counts import ArrayCounts
from workloads.models import Workload, WorkloadArray

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from chamber.models import User

UNFOLDED = 20
"""So many members a list shows of an array that is unfolded; its page shows all."""
AS_ARRAY = {"requeue": acts.RETRY}
"""What an act of the list is for an array, where that is called otherwise."""


@dataclass(frozen=True, slots=True)
class ListedArray:
    """An array as a list shows it."""

    array: WorkloadArray
    counts: ArrayCounts
    left: str
    unfolded: bool

    @property
    def shown(self) -> int:
        """Return how many members are shown below it."""
        return min(UNFOLDED, self.counts.total) if self.unfolded else 0


@dataclass(frozen=True, slots=True)
class ListedRow:
    """A row of a list: a workload, or an array in place of the workload that is its first member."""

    workload: Workload
    array: ListedArray | None = None
    indented: bool = False


def rows_of(workloads: Sequence[Workload], *, unfold: str, flat: bool, now: datetime) -> list[ListedRow]:
    """Return the rows for a page of workloads; with `flat` each by itself, else arrays as one, with the first members
    below the one that is to `unfold` (1 query where there is an array, 1 more for members).
    """
    arrays = {} if flat else {row.array_id: row.array for row in workloads if row.array is not None}
    counted = counts.of_arrays([array.pk for array in arrays.values()])
    found: list[ListedRow] = []
    for workload in workloads:
        array = arrays.get(workload.array_id)
        if array is None:
            found.append(ListedRow(workload))
            continue
        left = counted[array.pk].left(now)
        listed = ListedArray(
            array, counted[array.pk], span(left.total_seconds()) if left else "", unfold == array.slug
        )
        found.append(ListedRow(workload, listed))
        if listed.unfolded:
            found += [ListedRow(member, indented=True) for member in _members(array, now)]
    return found


def _members(array: WorkloadArray, now: datetime) -> list[Workload]:
    rows = Workload.objects.filter(array=array).select_related("team", "owner", "pool", "attempt", "array")
    return list(rows.with_idleness(now).with_placed_pods().order_by("array_index")[:UNFOLDED])


def act_on_chosen(
    user: "User | AnonymousUser", by: Actor, act: str, slugs: Sequence[str]
) -> Iterator[tuple[str, bool]]:
    """Do something to arrays that were chosen in a list; yield what came of each, and whether anything was done.

    What is refused of one keeps no other from it.
    """
    named = AS_ARRAY.get(act, act)
    rows = WorkloadArray.objects.visible_to(user).select_related("team", "owner")
    for array in rows.filter(slug__in=slugs):
        try:
            yield acts.sentence(array, named, acts.act_on(by=by, array=array, act=named)), True
        except Refusal as refusal:
            yield refusal.message, False
