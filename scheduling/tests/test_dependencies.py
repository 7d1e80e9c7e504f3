"""What starts after others on the tables: when it is released, and what becomes of it where an end spoils it."""

import pytest
from django.utils import timezone

from scheduling.cycle.cycle import run_cycle
from scheduling.explain.workload import explain
from scheduling.tests.conftest import Acme
from teams.actors import Actor, Via
from workloads import actions
from workloads.models import Dependency, Event, Workload, WorkloadArray
from workloads.tests.factories import make_array, make_workload


def end(of: Workload | WorkloadArray, status: str) -> None:
    """Let one, or all members of an array, have ended so."""
    rows = (
        Workload.objects.filter(array=of)
        if isinstance(of, WorkloadArray)
        else Workload.objects.filter(pk=of.pk)
    )
    for row in rows:
        if row.status != status:
            Workload.objects.filter(pk=row.pk).update(
                status="cancelled", finished_at=timezone.now(), reason_code="x"
            )
    if status != "cancelled":  # by the way that the database allows
        rows.update(status="pending", finished_at=None)
        rows.update(status="failed", finished_at=timezone.now())


def after(acme: Acme, needed: Workload | WorkloadArray, kind: str, **fields: object) -> Workload:
    late = make_workload(acme.research, acme.owner, name="late", **fields)
    of = {"needs_array": needed} if isinstance(needed, WorkloadArray) else {"needs": needed}
    Dependency.objects.create(workload=late, kind=kind, **of)
    return late


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("afterany", "failed", "queued"),
        ("afternotok", "cancelled", "queued"),
        ("afterok", "failed", "dependency-failed"),
    ],
)
@pytest.mark.parametrize("needs_array", [False, True])
def test_it_is_released_by_the_cycle_after_the_end(
    acme: Acme, kind: str, status: str, code: str, needs_array: bool
) -> None:
    needed: Workload | WorkloadArray = (
        make_array(acme.research, acme.owner, statuses=["held", "held"])
        if needs_array
        else make_workload(acme.research, acme.owner, held=True, reason_code="held")
    )
    late = after(acme, needed, kind)
    run_cycle()
    late.refresh_from_db()
    assert (late.status, late.reason_code) == ("pending", "waiting-for-dependency")
    end(needed, status)
    run_cycle()
    late.refresh_from_db()
    assert code in {late.status, late.reason_code}


@pytest.mark.parametrize("needs_array", [False, True])
def test_a_failed_need_ends_what_asked_for_that_with_the_reason(acme: Acme, needs_array: bool) -> None:
    needed: Workload | WorkloadArray = (
        make_array(acme.research, acme.owner, slug="sweep-1", statuses=["failed", "completed"])
        if needs_array
        else make_workload(acme.research, acme.owner, status="completed", finished_at=timezone.now())
    )
    late = after(acme, needed, "afterok" if needs_array else "afternotok", fail_if_impossible=True)
    waits = after(acme, late, "afterok", fail_if_impossible=True)
    run_cycle()
    run_cycle()
    late.refresh_from_db()
    assert (late.status, late.reason["code"]) == ("failed", "dependency-failed")
    told = Event.objects.filter(workload=late).order_by("-sequence")[0].message
    if needs_array:
        assert "1 member of the array sweep-1 ended otherwise than Completed" in told
        assert "chamber arrays retry sweep-1" in late.reason["next_step"]
    else:
        assert f"{needed.slug} has completed, and it starts only after another end." in told
    waits.refresh_from_db()
    assert waits.status == "failed", "what starts after it ends with it"


def test_a_retry_of_the_need_lets_it_wait_again(acme: Acme) -> None:
    needed = make_workload(
        acme.research, acme.owner, status="failed", finished_at=timezone.now(), pods=50, min_pods=50
    )
    late = after(acme, needed, "afterok")
    run_cycle()
    late.refresh_from_db()
    assert late.reason_code == "dependency-failed"
    actions.requeue(
        by=Actor.person(acme.owner, Via.PAGE),
        workload=Workload.objects.select_related("team").get(pk=needed.pk),
    )
    run_cycle()
    late.refresh_from_db()
    assert late.reason_code == "waiting-for-dependency"


def test_the_reason_names_the_array_and_what_to_do(acme: Acme) -> None:
    array = make_array(acme.research, acme.owner, slug="sweep-1", statuses=["held", "failed", "failed"])
    late = after(acme, array, "afterok")
    run_cycle()
    found = explain(Workload.objects.select_related("team", "owner").get(pk=late.pk), acme.owner)
    assert found is not None
    assert found.code == "dependency-failed"
    assert found.sentence.startswith("2 members of the array sweep-1 ended otherwise than Completed")
    assert "chamber arrays retry sweep-1" in found.next_step
