"""What one cycle looks at: the tables as one picture, read in a constant number of queries.

Only open workloads and attempts whose pods may still hold devices are read, both by partial indexes, so no
picture grows with history. Beside the engine's snapshot stand versions and ids that applying needs.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from django.db import connection, transaction

from scheduling import engine
from scheduling.models import Clock
from scheduling.reading import read
from scheduling.reading.open_workloads import dependency_on
from scheduling.reading.picture import SnapshotPicture
from workloads import needs
from workloads.models import Status, Workload, WorkloadArray
from workloads.needs import AskedNeed

_memory = read.ReadingCache()
"""What this process read last; replaced as a whole, so that threads may read at once."""


def take(now: datetime) -> SnapshotPicture:
    """Return the picture of this moment: at most 19 queries, 22 where data is mounted, however many rows there are.

    What has not changed since this process took one is the very object of then.
    """
    global _memory  # noqa: PLW0603 - one per process
    Clock.objects.get_or_create(pk=1)
    with _one_moment():
        looking = read.Reading(now, _memory)
        picture = looking.picture()
    _memory = looking.left
    return picture


def forget() -> None:
    """Have the next picture be made from the tables alone."""
    global _memory  # noqa: PLW0603 - one per process
    _memory = read.ReadingCache()


@contextmanager
def _one_moment() -> Iterator[None]:
    """Have all queries inside see one state of the tables, whoever commits meanwhile."""
    outermost = not connection.in_atomic_block
    with transaction.atomic():
        if outermost and connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def dependency_of(asked: Sequence[AskedNeed]) -> engine.DependencyState:
    """Return what those that one needs mean for it (3 queries at most, none for none); others of the same request are
    waited for.
    """
    if not asked:
        return engine.DependencyState.NONE
    names = {need.name for need in asked}
    statuses = dict(Workload.objects.filter(slug__in=names).values_list("slug", "status"))
    arrays = dict(WorkloadArray.objects.filter(slug__in=names - statuses.keys()).values_list("slug", "pk"))
    of_arrays = needs.statuses_of(arrays.values())
    found = []
    for need in asked:
        of: Collection[str] = (statuses.get(need.name, Status.PENDING),)
        found.append(needs.outcome(need.kind, of_arrays[arrays[need.name]] if need.name in arrays else of))
    return dependency_on(found)
