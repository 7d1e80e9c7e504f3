"""Snapshot, decide, apply on the tables."""

from agentlink.models import Device, Hold, Node, Placement
from scheduling.cycle.cycle import run_cycle
from scheduling.models import Clock, Cycle
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import make_nodes, pods_gone, run_pods
from teams.models import Pool
from teams.tests.factories import make_pool
from workloads.models import Attempt, EndReason, Event, EventKind, Status, Workload
from workloads.tests.factories import finish, make_workload


def fill(acme: Acme, count: int = 12, **fields: object) -> list[Workload]:
    """Return elastic workloads of Research that run on one GPU each."""
    elastic = [make_workload(acme.research, acme.owner, **fields) for _ in range(count)]
    run_cycle()
    run_pods(elastic)
    return elastic


def test_a_workload_that_fits_is_queued_on_devices_and_sent_to_its_cluster(acme: Acme) -> None:
    workload = make_workload(acme.research, acme.owner, gpu_milli=4000)

    result = run_cycle()

    workload.refresh_from_db()
    assert result is not None
    assert (result.decisions, result.left_out) == (1, 0)
    assert workload.status == Status.QUEUED
    assert workload.attempt is not None
    assert workload.attempt.assignment.let_go
    assert workload.attempt.allocation == [{"team": str(acme.research.pk), "milli": 4000}]
    placed = Placement.objects.filter(attempt=workload.attempt, hold=Hold.HELD)
    assert sum(placed.values_list("share_milli", flat=True)) == 4000
    assert placed.values("device__node").distinct().count() == 1


def test_a_reserved_newcomer_preempts_exactly_enough_elastic_and_waits_until_their_pods_are_gone(
    acme: Acme,
) -> None:
    fill(acme)
    newcomer = make_workload(acme.production, acme.outsider, gpu_milli=4000, priority=100)

    run_cycle()

    newcomer.refresh_from_db()
    preempted = Attempt.objects.filter(end_reason=EndReason.PREEMPTED)
    assert (newcomer.status, newcomer.reason_code) == (Status.QUEUED, "waiting-for-victims")
    assert preempted.count() == 4
    assert {attempt.workload.status for attempt in preempted} == {Status.PENDING}
    assert {attempt.end_detail["rule"] for attempt in preempted} == {"reserved"}
    assert {attempt.end_detail["by"] for attempt in preempted} == {str(newcomer.pk)}
    assert newcomer.attempt is not None
    assert not newcomer.attempt.assignment.let_go
    assert Event.objects.filter(workload=newcomer, kind=EventKind.PREEMPTED_OTHERS).count() == 1

    pods_gone(preempted)

    newcomer.attempt.assignment.refresh_from_db()
    assert newcomer.attempt.assignment.let_go
    run_cycle()
    newcomer.refresh_from_db()
    assert newcomer.reason_code == ""


def test_the_preempted_wait_with_a_reason_in_the_next_cycle_and_nobody_else_is_preempted(acme: Acme) -> None:
    fill(acme)
    make_workload(acme.production, acme.outsider, gpu_milli=4000, priority=100)
    run_cycle()

    run_cycle()

    waiting = Workload.objects.filter(status=Status.PENDING)
    assert set(waiting.values_list("reason_code", flat=True)) == {"waiting-for-gpus"}
    assert Attempt.objects.filter(end_reason=EndReason.PREEMPTED).count() == 4
    assert not Device.objects.filter(allocated_milli__gt=1000).exists()


def test_a_cycle_after_which_nothing_changed_is_neither_decided_nor_stored(acme: Acme) -> None:
    make_workload(acme.research, acme.owner)
    run_cycle()
    run_cycle()
    stored, number = Cycle.objects.count(), Clock.objects.get().cycle

    assert run_cycle() is None

    assert (Cycle.objects.count(), Clock.objects.get().cycle) == (stored, number)


def test_a_gang_above_its_minimum_is_shrunk_for_a_newcomer_and_grows_again_when_gpus_are_idle(
    acme: Acme,
) -> None:
    gang = make_workload(acme.research, acme.owner, gpu_milli=4000, pods=3, min_pods=1)
    run_cycle()
    run_pods([gang])
    run_cycle()
    assert sizes(gang) == (12_000, 3)

    newcomer = make_workload(acme.production, acme.outsider, gpu_milli=4000, priority=100)
    run_cycle()
    gang.refresh_from_db()
    assert gang.status == Status.RUNNING
    assert sizes(gang) == (8_000, 2)
    assert Event.objects.filter(workload=gang, kind=EventKind.SHRANK).count() == 1
    newcomer.refresh_from_db()
    assert (newcomer.status, newcomer.reason_code) == (Status.QUEUED, "waiting-for-victims")

    Placement.objects.filter(attempt=gang.attempt, hold=Hold.LEAVING).update(hold=Hold.RELEASED)
    assert newcomer.attempt is not None
    finish(newcomer.attempt)
    pods_gone([newcomer.attempt])
    run_cycle()
    assert sizes(gang) == (12_000, 3)


def sizes(workload: Workload) -> tuple[int, int]:
    """Return the milli-GPUs and the pods that the open attempt has."""
    attempt = Attempt.objects.get(workload=workload, ended_at=None)
    pods = attempt.placements.filter(hold=Hold.HELD).values("pod_index").distinct().count()
    return attempt.gpus_milli, pods


def test_who_runs_on_a_node_that_moves_to_another_pool_keeps_his_devices_there(acme: Acme) -> None:
    """Another pool picks the first node now, where four run; who asks for that pool starts on the one that is idle."""
    running = fill(acme, 4)
    nodes = Node.objects.filter(devices__occupied_milli__gt=0).distinct()
    assert nodes.count() == 1
    (idle,) = make_nodes(nodes[0].cluster, acme.pool, 1, labels={"for": "lab"})
    nodes.update(labels={"for": "lab"})
    Pool.objects.update(order=1)
    lab = make_pool("Lab", order=0, node_selector={"for": "lab"})
    newcomers = [
        make_workload(acme.research, acme.owner, pool_choice=[str(lab.pk)], gpu_milli=2000) for _ in range(3)
    ]

    result = run_cycle()

    assert result is not None
    assert (result.decisions, result.left_out) == (2, 0)
    assert {placed.device.node_id for placed in Placement.objects.filter(attempt__pool=lab)} == {idle.pk}
    waiting = Workload.objects.get(pk__in=[each.pk for each in newcomers], status=Status.PENDING)
    assert waiting.reason_code == "waiting-for-gpus"
    assert Attempt.objects.filter(workload__in=running, ended_at=None).count() == 4
