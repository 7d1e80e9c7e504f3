"""Applying a plan: one winner, what changed meanwhile left out, and no query per decision."""

from collections.abc import Iterable
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agentlink import assignments, releasing
from agentlink.models import Assignment, Device, Node, Placement
from agentlink.tests.factories import make_cluster
from scheduling.cycle import lease
from scheduling.cycle.apply import LostTurn, apply
from scheduling.cycle.cycle import run_cycle
from scheduling.cycle.decide import Decided, decide
from scheduling.models import Clock, Cycle
from scheduling.reading.picture import SnapshotPicture
from scheduling.reading.snapshot import take
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import AGENT, make_nodes, pods_gone, run_pods
from teams.actors import Actor, Via
from workloads import actions, lifecycle
from workloads.models import Attempt, EndReason, Status, Workload
from workloads.tests.factories import finish, make_workload


def decided() -> Decided:
    """Return a plan for the tables as they are, not applied yet."""
    return decide(take(timezone.now()))


def cancel(workload: Workload) -> None:
    actions.cancel(by=Actor.person(workload.owner, Via.PAGE), workload=workload)


def full_of_elastic(acme: Acme) -> list[Workload]:
    elastic = [make_workload(acme.research, acme.owner) for _ in range(12)]
    run_cycle()
    run_pods(elastic)
    return elastic


def test_of_two_plans_for_one_picture_exactly_one_is_applied(acme: Acme) -> None:
    workload = make_workload(acme.research, acme.owner)
    first, second = decided(), decided()

    apply(first)
    with pytest.raises(LostTurn):
        apply(second)

    assert Clock.objects.get().cycle == Cycle.objects.count() == 1
    assert Attempt.objects.filter(workload=workload).count() == 1
    assert Placement.objects.count() == 1


def test_who_was_cancelled_meanwhile_is_left_out_and_the_others_start(acme: Acme) -> None:
    gone, stays = make_workload(acme.research, acme.owner), make_workload(acme.research, acme.owner)
    plan = decided()
    cancel(gone)

    applied = apply(plan)

    gone.refresh_from_db()
    stays.refresh_from_db()
    assert (applied.decisions, applied.left_out) == (1, 1)
    assert (gone.status, stays.status) == (Status.CANCELLED, Status.QUEUED)
    assert not gone.attempts.exists()


def test_nobody_is_preempted_for_a_newcomer_who_was_cancelled_meanwhile(acme: Acme) -> None:
    full_of_elastic(acme)
    newcomer = make_workload(acme.production, acme.outsider, gpu_milli=4000, priority=100)
    plan = decided()
    cancel(newcomer)

    applied = apply(plan)

    assert (applied.decisions, applied.left_out) == (0, 5)
    assert not Attempt.objects.filter(end_reason=EndReason.PREEMPTED).exists()


def test_a_newcomer_whose_victim_ended_meanwhile_waits_for_the_next_cycle(acme: Acme) -> None:
    full_of_elastic(acme)
    newcomer = make_workload(acme.production, acme.outsider, gpu_milli=4000, priority=100)
    plan = decided()
    victim = Workload.objects.get(pk=plan.plan.preemptions[0].workload)
    assert victim.attempt is not None
    finish(victim.attempt)

    applied = apply(plan)

    newcomer.refresh_from_db()
    assert (applied.decisions, applied.left_out) == (0, 5)
    assert newcomer.status == Status.PENDING
    assert not Attempt.objects.filter(end_reason=EndReason.PREEMPTED).exists()

    run_cycle()
    newcomer.refresh_from_db()
    assert newcomer.status == Status.QUEUED
    assert Attempt.objects.filter(end_reason=EndReason.PREEMPTED).count() == 3


def test_a_cycle_takes_as_many_queries_for_many_starts_as_for_few(
    acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection.features, "max_query_params", 30_000)  # rows of a kind in one batch
    monkeypatch.setattr(lease, "looked", lambda: None)  # is written by time, not by cycle
    make_nodes(acme.cluster, acme.pool, 60)
    make_workload(acme.research, acme.owner)
    run_cycle()
    counts = []
    for starts in (5, 200):
        for _ in range(starts):
            make_workload(acme.research, acme.owner)
        with CaptureQueriesContext(connection) as queries:
            result = run_cycle()
        assert result is not None
        assert result.decisions == starts
        counts.append(len(queries))

    assert counts[0] == counts[1]


def test_a_plan_that_is_written_in_parts_locks_the_clusters_of_all_of_them_first(
    acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    west = make_cluster("west")
    make_nodes(west, acme.pool, 1)
    for _ in range(16):
        make_workload(acme.research, acme.owner)
    plan = decided()
    locked: list[set[UUID]] = []
    lock = assignments.lock_clusters

    def lock_clusters(ids: Iterable[UUID]) -> dict[UUID, int]:
        locked.append(set(ids))
        return lock(locked[-1])

    monkeypatch.setattr(assignments, "lock_clusters", lock_clusters)
    assert apply(plan, piecemeal=True).decisions == 16
    assert locked[0] == {acme.cluster.pk, west.pk}


def test_a_plan_in_flight_places_nothing_in_a_cluster_that_was_let_go_of_meanwhile(
    acme: Acme, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    workload = make_workload(acme.research, acme.owner)

    def decide_late(picture: SnapshotPicture) -> Decided:
        plan = decide(picture)
        assert len(plan.plan.starts) == 1
        monkeypatch.undo()
        assert releasing.take(acme.cluster, connection=acme.cluster.connection)
        return plan

    monkeypatch.setattr("scheduling.cycle.cycle.decide", decide_late)
    result = run_cycle()

    assert result is not None
    assert (result.decisions, result.left_out) == (0, 1)
    workload.refresh_from_db()
    assert (workload.status, workload.attempt) == (Status.PENDING, None)
    assert not Assignment.objects.exists()
    assert not Device.objects.exclude(occupied_milli=0, allocated_milli=0).exists()
    assert "An operator let go of" in caplog.text
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_who_asked_to_fail_where_it_can_never_run_does(acme: Acme) -> None:
    fails = make_workload(acme.research, acme.owner, gpu_milli=8000, fail_if_impossible=True)
    waits = make_workload(acme.research, acme.owner, gpu_milli=8000)

    run_cycle()

    fails.refresh_from_db()
    waits.refresh_from_db()
    assert (fails.status, fails.reason_code) == (Status.FAILED, "larger-than-any-node")
    assert (waits.status, waits.reason_code) == (Status.PENDING, "larger-than-any-node")


@pytest.mark.parametrize("out_of_service", [{"ready": False}, {"cordoned": True}])
def test_nobody_is_given_up_because_nodes_are_out_of_service(
    acme: Acme, out_of_service: dict[str, bool]
) -> None:
    """No other node has 8 GPUs; one that asks for 16 fails all the same."""
    large = make_nodes(acme.cluster, acme.pool, 1, gpus=8, **out_of_service)
    waits = make_workload(acme.research, acme.owner, gpu_milli=8000, fail_if_impossible=True)
    fails = make_workload(acme.research, acme.owner, gpu_milli=16000, fail_if_impossible=True)

    run_cycle()

    told = Workload.objects.in_bulk([waits.pk, fails.pk])
    assert (told[waits.pk].status, told[waits.pk].reason_code) == (Status.PENDING, "larger-than-any-node")
    assert told[fails.pk].status == Status.FAILED

    Node.objects.filter(pk=large[0].pk).update(ready=True, cordoned=False)
    run_cycle()

    waits.refresh_from_db()
    assert waits.status == Status.QUEUED


def test_charges_are_stored_anew_when_a_guarantee_is_taken_by_somebody_more_important(acme: Acme) -> None:
    make_workload(acme.production, acme.outsider, gpu_milli=4000, priority=50)
    run_cycle()
    elastic = Attempt.objects.get()
    assert elastic.allocation == [{"team": str(acme.production.pk), "milli": 4000}]

    make_workload(acme.production, acme.outsider, gpu_milli=4000, priority=100)
    run_cycle()

    elastic.refresh_from_db()
    assert elastic.allocation == [{"team": None, "milli": 4000}]


def test_a_cycle_is_stored_with_what_it_decided(acme: Acme) -> None:
    make_workload(acme.research, acme.owner)
    run_cycle()

    cycle = Cycle.objects.get()
    assert (cycle.number, cycle.decisions, cycle.left_out) == (1, 1, 0)
    assert cycle.figures["starts"] == 1
    assert cycle.figures["pools"][0]["in_use_milli"] == 1000
    assert ":" in cycle.ran_by


def test_a_gang_does_not_grow_on_what_a_queued_victim_may_still_have_pods_on(acme: Acme) -> None:
    singles = [make_workload(acme.research, acme.owner) for _ in range(9)]
    run_cycle()
    run_pods(singles)
    victim = make_workload(acme.research, acme.owner, gpu_milli=2000)
    run_cycle()
    gang = make_workload(acme.research, acme.owner, pods=2, min_pods=1)
    run_cycle()
    run_pods([gang])
    newcomer = make_workload(acme.research, acme.owner, priority=60)
    plan = decided()
    assert [grow.workload for grow in plan.plan.grows] == [str(gang.pk)]

    applied = apply(plan)

    victim.refresh_from_db()
    newcomer.refresh_from_db()
    gang.refresh_from_db()
    assert gang.attempt is not None
    assert (applied.decisions, applied.left_out) == (2, 1)
    assert (victim.status, newcomer.status) == (Status.PENDING, Status.QUEUED)
    assert gang.attempt.placements.count() == 1


def test_a_gang_that_was_displaced_neither_grows_nor_shrinks(acme: Acme) -> None:
    singles = [make_workload(acme.research, acme.owner) for _ in range(10)]
    run_cycle()
    gang = make_workload(acme.research, acme.owner, pods=3, min_pods=1)
    run_cycle()
    run_pods([*singles, gang])
    assert gang.attempt is not None
    over = singles[0].attempt
    assert over is not None
    finish(over)
    pods_gone([over])
    plan = decided()
    assert [grow.workload for grow in plan.plan.grows] == [str(gang.pk)]
    lost = lifecycle.Displacement(gang.attempt.pk, "node-lost", "Lost.", timezone.now(), gone=False)
    with transaction.atomic():
        lifecycle.displace_many([lost], by=AGENT, at=timezone.now())

    assert apply(plan).left_out == 1
    now = decided()
    row = next(row for row in now.picture.snapshot.workloads if row.id == str(gang.pk))
    assert (row.pods, row.min_pods, now.plan.grows) == (2, 2, ())
    assert gang.attempt.placements.count() == 2
