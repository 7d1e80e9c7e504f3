"""What ended long ago goes as a whole, in all rooms; everything else stays."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from agentlink import assignments
from agentlink.assignments import NewAssignment
from agentlink.models import Assignment, Cluster, Device, GpuUse, GpuUseSample, Placement
from agentlink.tests.factories import make_cluster, make_node
from chamber.models import User
from teams.models import Pool, Role, Team
from teams.retention import move_horizon
from teams.tests.factories import actor, make_org, make_pool, make_team, member
from tests.truths import broken
from workloads import actions, retention
from workloads.models import (
    Attempt,
    AttemptNotes,
    Checkpoint,
    Dependency,
    Event,
    SubmissionKey,
    Workload,
    WorkloadArray,
)
from workloads.requests import SubmissionRequest
from workloads.submission import submit
from workloads.tasks import forget_old
from workloads.tests.factories import admit, finish, make_array, make_workload

DAY = timedelta(days=1)


@pytest.fixture
def team(db: None) -> Team:
    return make_team(make_org(), "NLP")


@pytest.fixture
def owner(team: Team) -> User:
    return member(team, Role.RESEARCHER, "ada")


@pytest.fixture
def cluster(db: None) -> Cluster:
    cluster = make_cluster()
    make_node(cluster, "n1", gpus=4, pool=make_pool("Main"))
    return cluster


def ended(team: Team, owner: User, cluster: Cluster, *, days_ago: int, gone: bool = True) -> Workload:
    """Return a workload that ran on a device and ended so long ago; its pods may be left."""
    workload = make_workload(team, owner)
    attempt = admit(workload, Pool.objects.get())
    device = Device.objects.filter(occupied_milli=0).order_by("pk")[0]
    with transaction.atomic():
        assignments.assign_many([NewAssignment(attempt.pk, cluster.pk, [(0, device.pk, 1000)])])
    finish(attempt, exit_code=1)
    if gone:
        with transaction.atomic():
            assignments.release([attempt.pk], at=timezone.now(), by=actor(owner))
    Workload.objects.filter(pk=workload.pk).update(finished_at=timezone.now() - days_ago * DAY)
    return workload


def measured(workload: Workload) -> None:
    """Store what its GPUs did."""
    known = {"attempt": workload.attempts.get(), "gpus": 1, "busy_percent": 50, "memory_mib": 1}
    GpuUse.objects.create(at=timezone.now(), **known)
    GpuUseSample.objects.create(minute=timezone.now(), **known)
    AttemptNotes.objects.create(attempt=workload.attempts.get(), step=1)
    Checkpoint.objects.create(attempt=workload.attempts.get(), at=timezone.now(), step=1)


def left() -> set[str]:
    return set(Workload.objects.values_list("slug", flat=True))


def test_an_old_workload_goes_with_everything_that_tells_of_it(
    team: Team, owner: User, cluster: Cluster
) -> None:
    old, young = (ended(team, owner, cluster, days_ago=days) for days in (366, 364))
    for workload in (old, young):
        measured(workload)
    waiting = make_workload(team, owner)
    assert forget_old() == 1
    assert left() == {young.slug, waiting.slug}
    assert not Event.objects.filter(workload_id=old.pk).exists()
    assert Attempt.objects.count() == Assignment.objects.count() == Placement.objects.count() == 1
    assert GpuUse.objects.count() == GpuUseSample.objects.count() == 1
    assert AttemptNotes.objects.count() == Checkpoint.objects.count() == 1
    assert broken() == []


def test_whose_pods_may_still_be_somewhere_is_kept(team: Team, owner: User, cluster: Cluster) -> None:
    leaving = ended(team, owner, cluster, days_ago=400, gone=False)
    assert forget_old() == 0
    assert left() == {leaving.slug}
    assert sum(Device.objects.values_list("occupied_milli", flat=True)) == 1000


def test_what_another_depends_on_goes_after_it(team: Team, owner: User, cluster: Cluster) -> None:
    first, second = (ended(team, owner, cluster, days_ago=days) for days in (400, 390))
    third = make_workload(team, owner)
    Dependency.objects.create(workload=second, needs=first)
    link = Dependency.objects.create(workload=third, needs=second)
    assert forget_old() == 0
    link.delete()
    assert forget_old() == 2
    assert left() == {third.slug}


def test_an_array_goes_as_a_whole(team: Team, owner: User) -> None:
    array = make_array(team, owner, statuses=["completed", "failed", "pending"])
    WorkloadArray.objects.update(submitted_at=timezone.now() - timedelta(days=410))
    members = Workload.objects.filter(array=array)
    old = timezone.now() - timedelta(days=400)
    members.exclude(status="pending").update(finished_at=old)
    assert forget_old() == 0
    members.filter(status="pending").update(status="cancelled", finished_at=timezone.now())
    assert forget_old() == 0
    members.filter(status="cancelled").update(finished_at=old)
    waiting = make_workload(team, owner)
    link = Dependency.objects.create(workload=waiting, needs_array=array)
    assert forget_old() == 0
    link.delete()
    assert forget_old() == 3
    assert left() == {waiting.slug}
    assert not WorkloadArray.objects.exists()


def test_who_was_requeued_is_no_history(team: Team, owner: User, cluster: Cluster) -> None:
    workload = ended(team, owner, cluster, days_ago=400)
    actions.requeue(by=actor(owner), workload=Workload.objects.select_related("team").get(pk=workload.pk))
    assert forget_old() == 0
    assert left() == {workload.slug}


def test_it_takes_batches_until_its_time_is_over(
    team: Team, owner: User, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        ended(team, owner, cluster, days_ago=400)
    monkeypatch.setattr(retention, "BATCH", 2)
    monkeypatch.setattr("workloads.tasks.FORGETS_FOR_SECONDS", 0.0)
    assert forget_old() == 0
    before = move_horizon(timezone.now())
    assert [retention.forget_workloads(before) for _ in range(3)] == [2, 1, 0]


def execute(sql: str, *values: str | UUID) -> None:
    """Do it, and what the database does at the end of a transaction."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(sql, values)
        connection.check_constraints()


def refused(sql: str, *values: str | UUID) -> str:
    with pytest.raises(IntegrityError) as error:
        execute(sql, *values)
    return str(error.value)


def test_the_database_lets_nothing_else_be_deleted(team: Team, owner: User, cluster: Cluster) -> None:
    ended(team, owner, cluster, days_ago=364)
    old = ended(team, owner, cluster, days_ago=366)
    old_id = old.pk.hex if connection.vendor == "sqlite" else old.pk
    assert "before the horizon" in refused("DELETE FROM workloads_workload WHERE id = %s", old_id)
    move_horizon(timezone.now())
    assert "before the horizon" in refused("DELETE FROM workloads_workload")
    assert "only with their workload" in refused("DELETE FROM workloads_event")
    assert "never changed" in refused("UPDATE workloads_event SET actor = 'nobody'")
    # Its events, its attempts and all the rest must go in the same transaction.
    assert "FOREIGN KEY" in refused("DELETE FROM workloads_workload WHERE id = %s", old_id).upper()


def test_keys_that_count_no_more_go(team: Team, owner: User) -> None:
    request = SubmissionRequest.parse({"name": "work", "team": team.slug, "image": "train:1"})
    for key in ("old", "new"):
        submit(by=actor(owner), requests=[request], key=key, body_sha256="x")
    long_ago: datetime = timezone.now() - 2 * DAY
    SubmissionKey.objects.filter(key="old").update(created_at=long_ago)
    forget_old()
    assert list(SubmissionKey.objects.values_list("key", flat=True)) == ["new"]
