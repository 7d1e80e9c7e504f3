"""What the database itself refuses, whoever writes to it."""

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from chamber.ids import new_id
from chamber.models import User
from teams.models import Pool, Team
from workloads.models import Attempt, Dependency, Event, Status, SubmissionKey, Workload
from workloads.tests.factories import admit, make_workload, start
from workloads.transitions import TRANSITIONS


def sql(statement: str, *values: Any) -> None:
    """Run one statement past all of Chamber's code; ids are written as the database keeps them."""
    shown = [
        value.hex if connection.vendor == "sqlite" and hasattr(value, "hex") else value for value in values
    ]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement, shown)


@pytest.fixture
def workload(team: Team, owner: User) -> Workload:
    return make_workload(team, owner)


BAD_WORKLOADS = {
    "status outside the table": ("status = 'sleeping'", "cannot change its status"),
    "no pods": ("pods = 0", "pods"),
    "more pods at the start than at all": ("min_pods = 2", "min_pods"),
    "starts with none": ("min_pods = 0", "min_pods"),
    "a share above a device": ("gpu_milli = 1250", "share_is_legal"),
    "a share between the quarters": ("gpu_milli = 300", "share_is_legal"),
    "no GPU at all": ("gpu_milli = NULL", "share_or_memory"),
    "share and memory": ("gpu_memory_mib = 100", "share_or_memory"),
    "Running without an attempt": ("status = 'queued'", "admitted_has_attempt"),
    "ended without an end": ("status = 'cancelled'", "ended_has_end"),
    "a time limit of nothing": ("time_limit_seconds = 0", "time_limit"),
    "a priority beyond all": ("priority = 1000001", "priority_bounded"),
}


@pytest.mark.parametrize(("change", "constraint"), BAD_WORKLOADS.values(), ids=BAD_WORKLOADS.keys())
def test_a_workload_that_cannot_be_is_refused(workload: Workload, change: str, constraint: str) -> None:
    with pytest.raises(IntegrityError, match=constraint):
        sql(f"UPDATE workloads_workload SET {change} WHERE id = %s", workload.pk)


def test_every_change_of_status_outside_the_table_is_refused(team: Team, owner: User, pool: Pool) -> None:
    for old in Status:
        for new in set(Status) - TRANSITIONS[old] - {old}:
            workload = led_to(old, team, owner, pool)
            with pytest.raises(
                IntegrityError, match=r"cannot change its status|admitted_has_attempt|ended_has"
            ):
                set_status(workload, new)


def test_every_change_of_status_in_the_table_is_taken(team: Team, owner: User, pool: Pool) -> None:
    for old, allowed in TRANSITIONS.items():
        for new in allowed:
            workload = led_to(old, team, owner, pool)
            set_status(workload, new)
            workload.refresh_from_db()
            assert workload.status == new


def test_several_steps_at_once_are_taken_where_each_is_counted(team: Team, owner: User, pool: Pool) -> None:
    steps = "status = 'running', version = version + %s, last_event = last_event + %s WHERE id = %s"
    workload = led_to(Status.QUEUED, team, owner, pool)
    for version, events in ((1, 2), (2, 1), (3, 3)):
        with pytest.raises(IntegrityError, match="cannot change its status"):
            sql(f"UPDATE workloads_workload SET {steps}", version, events, workload.pk)
    sql(f"UPDATE workloads_workload SET {steps}", 2, 2, workload.pk)
    workload.refresh_from_db()
    assert workload.status == Status.RUNNING


def led_to(status: Status, team: Team, owner: User, pool: Pool) -> Workload:
    """Return a workload with this status, made so by statements that keep every other rule."""
    workload = make_workload(team, owner)
    for step in {
        Status.PENDING: [],
        Status.QUEUED: [Status.QUEUED],
        Status.STARTING: [Status.QUEUED, Status.STARTING],
        Status.RUNNING: [Status.QUEUED, Status.STARTING, Status.RUNNING],
        Status.COMPLETED: [Status.QUEUED, Status.STARTING, Status.RUNNING, Status.COMPLETED],
        Status.FAILED: [Status.FAILED],
        Status.PREEMPTED: [Status.QUEUED, Status.PREEMPTED],
        Status.CANCELLED: [Status.CANCELLED],
    }[status]:
        if step is Status.QUEUED:
            admit(workload, pool)
        else:
            set_status(workload, step)
    workload.refresh_from_db()
    return workload


def set_status(workload: Workload, status: Status) -> None:
    """Set a status with the attempt and the end that go with it, so that only the table can refuse it."""
    admitted = status in (Status.QUEUED, Status.STARTING, Status.RUNNING)
    over = status in (Status.COMPLETED, Status.FAILED, Status.PREEMPTED, Status.CANCELLED)
    attempt = None
    if admitted:
        Attempt.objects.filter(workload=workload, ended_at=None).update(phase="over", ended_at=timezone.now())
        pool = Pool.objects.get()
        number = workload.attempts.count() + 1
        attempt = Attempt.objects.create(
            workload=workload, number=number, pool=pool, gpus_milli=1, queued_at=timezone.now()
        )
    with transaction.atomic():
        Workload.objects.filter(pk=workload.pk).update(
            status=status, attempt=attempt, finished_at=timezone.now() if over else None
        )


def test_a_second_open_attempt_is_refused(workload: Workload, pool: Pool) -> None:
    first = admit(workload, pool)
    with pytest.raises(IntegrityError), transaction.atomic():
        Attempt.objects.create(
            workload=workload, number=first.number + 1, pool=pool, gpus_milli=1, queued_at=timezone.now()
        )


BAD_ATTEMPTS = {
    "Running without a start": "phase = 'running'",
    "over without an end": "phase = 'over'",
    "an end that is not over": "ended_at = queued_at",
    "released before it is over": "released_at = queued_at",
    "a phase outside the table": "phase = 'dreaming'",
    "numbered from nothing": "number = 0",
}


@pytest.mark.parametrize("change", BAD_ATTEMPTS.values(), ids=BAD_ATTEMPTS.keys())
def test_an_attempt_that_cannot_be_is_refused(workload: Workload, pool: Pool, change: str) -> None:
    attempt = admit(workload, pool)
    with pytest.raises(IntegrityError):
        sql(f"UPDATE workloads_attempt SET {change} WHERE id = %s", attempt.pk)


def test_a_number_of_an_attempt_comes_once(workload: Workload, pool: Pool) -> None:
    start(workload, pool)
    with pytest.raises(IntegrityError), transaction.atomic():
        Attempt.objects.create(
            workload=workload,
            number=1,
            pool=pool,
            gpus_milli=1,
            queued_at=timezone.now(),
            ended_at=timezone.now(),
            phase="over",
        )


@pytest.mark.parametrize(
    "statement", ["UPDATE workloads_event SET message = 'x'", "DELETE FROM workloads_event"]
)
def test_events_are_never_changed_or_deleted(workload: Workload, statement: str) -> None:
    with pytest.raises(IntegrityError, match="never changed"):
        sql(statement)


def test_a_sequence_comes_once(workload: Workload) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Event.objects.create(workload=workload, sequence=1, at=timezone.now(), kind="note", message="again")


def test_a_key_comes_once_for_an_owner(owner: User) -> None:
    SubmissionKey.objects.create(owner=owner, key="k", body_sha256="a", workload_ids=[])
    with pytest.raises(IntegrityError), transaction.atomic():
        SubmissionKey.objects.create(owner=owner, key="k", body_sha256="b", workload_ids=[])


def test_nothing_depends_on_itself(workload: Workload) -> None:
    with pytest.raises(IntegrityError):
        sql(
            "INSERT INTO workloads_dependency (id, workload_id, needs_id, created_at) VALUES (%s, %s, %s, %s)",
            new_id(),
            workload.pk,
            workload.pk,
            timezone.now().isoformat(),
        )
    assert not Dependency.objects.exists()
