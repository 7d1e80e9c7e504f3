"""The tables as the engine sees them."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agentlink import assignments
from agentlink.models import Node
from scheduling import engine
from scheduling.cycle.cycle import run_cycle
from scheduling.reading.picture import SnapshotPicture
from scheduling.reading.snapshot import take
from scheduling.reading.translate import stopping_id
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import run_pods
from workloads.models import Dependency, Workload
from workloads.tests.factories import finish, make_workload, preempt


def picture() -> SnapshotPicture:
    return take(timezone.now())


def seen(workload: Workload) -> engine.WorkloadInfo:
    return next(row for row in picture().snapshot.workloads if row.id == str(workload.pk))


def test_a_waiting_workload_is_what_its_row_says(acme: Acme) -> None:
    later = timezone.now() + timedelta(minutes=5)
    workload = make_workload(
        acme.research,
        acme.owner,
        gpu_milli=500,
        pods=4,
        min_pods=2,
        priority=120,
        cpu_milli=2000,
        gpu_types=["H100"],
        node_selector={"b": "2", "a": "1"},
        tolerations=["spot", "only=mig"],
        pool_choice=[str(acme.pool.pk)],
        time_limit_seconds=60,
        backoff_until=later,
        held=True,
        on_preemption="stop",
    )

    row = seen(workload)

    assert row.request == engine.GpuShare(500)
    assert (row.pods, row.min_pods, row.priority, row.reserved) == (4, 2, 120, True)
    assert row.node_selector == (("a", "1"), ("b", "2"))
    assert row.tolerations == (engine.Toleration("spot"), engine.Toleration("only", "mig"))
    assert (row.pools, row.partition, row.time_limit_ms) == ((str(acme.pool.pk),), None, 60_000)
    assert row.backing_off_until == round(later.timestamp() * 1000)
    assert (row.held, row.on_preemption) == (True, engine.AfterPreemption.STOP)
    assert row.name == row.id


def test_a_running_one_lies_on_its_devices(acme: Acme) -> None:
    workload = make_workload(acme.research, acme.owner, gpu_milli=2000, pods=2)
    run_cycle()
    run_pods([workload])

    row = seen(workload)

    assert (row.status, row.pool) == (engine.OpenStatus.RUNNING, str(acme.pool.pk))
    assert [pod.pod_index for pod in row.placements] == [0, 1]
    assert [pod.milli for pod in row.placements] == [2000, 2000]
    assert row.started_at is not None


def test_a_preempted_one_is_two_rows_while_its_pods_are_there(acme: Acme) -> None:
    workload = make_workload(acme.research, acme.owner)
    run_cycle()
    run_pods([workload])
    preempt(workload)

    rows = {row.id: row for row in picture().snapshot.workloads}

    waiting, stopping = rows[str(workload.pk)], rows[stopping_id(workload.pk, 1)]
    assert (waiting.status, waiting.placements) == (engine.OpenStatus.PENDING, ())
    assert waiting.preemptions_24h == 1
    assert (stopping.status, len(stopping.placements)) == (engine.OpenStatus.STOPPING, 1)


def test_pods_that_a_gang_gave_up_are_a_row_of_their_own_until_they_are_gone(acme: Acme) -> None:
    gang = make_workload(acme.research, acme.owner, pods=3, min_pods=1)
    run_cycle()
    run_pods([gang])
    assert gang.attempt is not None
    with transaction.atomic():
        assignments.remove_pods(gang.attempt.pk, [2])

    rows = {row.id: row for row in picture().snapshot.workloads}

    assert [pod.pod_index for pod in rows[str(gang.pk)].placements] == [0, 1]
    assert [pod.pod_index for pod in rows[stopping_id(gang.pk, 1)].placements] == [2]


def test_what_ended_and_let_its_devices_go_is_not_read(acme: Acme) -> None:
    workload = make_workload(acme.research, acme.owner)
    run_cycle()
    run_pods([workload])
    assert workload.attempt is not None
    attempt = workload.attempt
    finish(attempt)
    assert len(picture().snapshot.workloads) == 1
    with transaction.atomic():
        assignments.release([attempt.pk], at=timezone.now(), by=assignments.LINK)

    assert picture().snapshot.workloads == ()


@pytest.mark.parametrize(
    ("status", "means"),
    [
        ("pending", engine.DependencyState.WAITING),
        ("completed", engine.DependencyState.NONE),
        ("cancelled", engine.DependencyState.FAILED),
        ("failed", engine.DependencyState.FAILED),
    ],
)
def test_a_dependency_is_waited_for_met_or_failed(
    acme: Acme, status: str, means: engine.DependencyState
) -> None:
    ended: dict[str, Any] = {} if status == "pending" else {"finished_at": timezone.now()}
    needed = make_workload(acme.research, acme.owner, status=status, **ended)
    workload = make_workload(acme.research, acme.owner)
    Dependency.objects.create(workload=workload, needs=needed)

    assert seen(workload).dependency is means


def test_a_node_that_is_gone_or_in_no_pool_is_left_out_with_its_devices(acme: Acme) -> None:
    Node.objects.filter(name="n1").update(gone_at=timezone.now())
    Node.objects.filter(name="n2").update(pool=None)

    found = picture()

    assert [node.name for node in found.snapshot.nodes] == ["n3"]
    assert len(found.devices) == 4


def test_labels_that_cannot_be_read_leave_one_node_aside(acme: Acme) -> None:
    Node.objects.filter(name="n1").update(taints=[{"not": "a text"}])

    found = picture()

    assert [node.name for node in found.snapshot.nodes] == ["n2", "n3"]
    assert [row.kind for row in found.left_aside] == ["node"]


def test_the_tree_has_limits_and_shares(acme: Acme) -> None:
    teams = {team.id: team for team in picture().snapshot.teams}

    research = teams[str(acme.research.pk)]
    assert research.parent == str(acme.root.pk)
    assert research.shares == (engine.TeamShare(str(acme.pool.pk), 8000, None, 0),)


def test_a_picture_takes_as_many_queries_for_many_rows_as_for_few(acme: Acme) -> None:
    counts = []
    for count in (3, 8):
        for _ in range(count):
            make_workload(acme.research, acme.owner)
        run_cycle()
        with CaptureQueriesContext(connection) as queries:
            found = picture()
        counts.append(len(queries))

    assert len(found.snapshot.workloads) == 11
    assert counts[0] == counts[1]
