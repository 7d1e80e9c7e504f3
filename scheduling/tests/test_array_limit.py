"""Members of an array with a limit on the tables: as many as it allows are admitted, the next as one ends."""

from datetime import timedelta

from django.utils import timezone

from scheduling import engine
from scheduling.cycle.cycle import run_cycle
from scheduling.reading import snapshot
from scheduling.tests.conftest import Acme
from workloads.models import Workload, WorkloadArray
from workloads.tests.factories import finish, make_array


def read(array: WorkloadArray) -> dict[int, engine.WorkloadInfo]:
    """Return the members as a snapshot has them, by index."""
    rows = {row.id: row for row in snapshot.take(timezone.now()).snapshot.workloads}
    members = Workload.objects.filter(array=array).values_list("array_index", "pk")
    return {index: rows[str(pk)] for index, pk in members if index is not None and str(pk) in rows}


def states(array: WorkloadArray) -> list[tuple[str, str]]:
    rows = Workload.objects.filter(array=array).order_by("array_index")
    return [(row.status, row.reason_code) for row in rows]


def test_only_members_of_an_array_with_a_limit_are_told_of_it(acme: Acme) -> None:
    array = make_array(acme.research, acme.owner, statuses=["pending", "held", "completed"])
    assert {(row.array, row.max_parallel) for row in read(array).values()} == {(None, None)}
    limited = make_array(acme.research, acme.owner, statuses=["pending"])
    WorkloadArray.objects.filter(pk=limited.pk).update(max_parallel=4)
    (row,) = read(limited).values()
    assert (row.array, row.max_parallel) == (str(limited.pk), 4)


def test_the_next_member_is_admitted_as_one_ends(acme: Acme) -> None:
    array = make_array(acme.research, acme.owner, statuses=["pending"] * 4)
    WorkloadArray.objects.update(max_parallel=2)
    run_cycle()
    run_cycle()
    waits = ("pending", "array-limit")
    assert states(array) == [("queued", ""), ("queued", ""), waits, waits]
    first = Workload.objects.get(array=array, array_index=0)
    assert first.attempt is not None
    finish(first.attempt, exit_code=1, at=timezone.now() + timedelta(seconds=1))
    run_cycle()
    run_cycle()
    assert [status for status, _ in states(array)] == ["failed", "queued", "queued", "pending"]
