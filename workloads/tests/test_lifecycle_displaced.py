"""Attempts that end through no doing of their workload: its place is kept, and nothing is spent."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from django.utils import timezone

from chamber.models import User
from teams.models import Pool, Team
from workloads import lifecycle
from workloads.lifecycle import Displacement
from workloads.lifecycle.displaced import MOST_IN_A_ROW
from workloads.models import Attempt, EndReason, OnPreemption, Status, Workload
from workloads.tasks import enforce_time_limits
from workloads.tests.factories import SCHEDULER, finish, make_workload, preempt, start

pytestmark = pytest.mark.django_db


def displace(attempt: Attempt, code: str = "drained", *, gone: bool = True, **fields: Any) -> set[UUID]:
    message = fields.pop("message", "Pod 0 on n1 was evicted.")
    one = Displacement(attempt.pk, code, message, timezone.now(), gone=gone)
    with transaction.atomic():
        return lifecycle.displace_many([one], by=SCHEDULER, at=timezone.now())


def again(workload: Workload, pool: Pool, times: int, code: str = "drained") -> None:
    """Have it displaced so many times more."""
    for _ in range(times):
        displace(start(workload, pool), code)
        workload.refresh_from_db()


@pytest.mark.parametrize("priority", [50, 100], ids=["elastic", "reserved"])
def test_it_is_back_in_the_queue_with_its_place_and_nothing_is_spent(
    team: Team, owner: User, pool: Pool, stopped: list[UUID], priority: int
) -> None:
    fields = {"max_requeues": 0, "on_preemption": OnPreemption.STOP}
    row = make_workload(team, owner, priority=priority, max_retries=0, **fields)
    before, attempt = row.submitted_at, start(row, pool)
    assert displace(attempt) == {attempt.pk}
    row.refresh_from_db()
    attempt.refresh_from_db()
    assert (row.status, row.submitted_at, row.backoff_until) == (Status.PENDING, before, None)
    assert (row.failures, row.requeues, row.finished_at, row.reason_code) == (0, 0, None, "")
    assert (attempt.end_reason, attempt.end_detail["code"]) == (EndReason.DISPLACED, "drained")
    assert stopped == [attempt.pk]
    last = row.events.latest("sequence")
    assert last.message == (
        "Pod 0 on n1 was evicted. Back in the queue with its original place; no retry or requeue is spent."
    )
    assert displace(attempt) == set()  # the report comes twice


def test_while_pods_may_be_there_it_keeps_its_status_and_says_why(
    team: Team, owner: User, pool: Pool, stopped: list[UUID]
) -> None:
    row = make_workload(team, owner, time_limit_seconds=1)
    attempt = start(row, pool, at=timezone.now() - timedelta(minutes=1))
    for _ in range(2):
        assert displace(attempt, "node-lost", gone=False, message="Node n1 was lost.") == set()
    row.refresh_from_db()
    attempt.refresh_from_db()
    assert (row.status, attempt.ended_at, attempt.end_reason) == (Status.RUNNING, None, EndReason.DISPLACED)
    notes = row.events.filter(kind="note").values_list("message", flat=True)
    assert list(notes) == ["Node n1 was lost. It returns to the queue once its pods are known to be gone."]
    assert enforce_time_limits() == 0  # it does not run any more
    assert stopped == []
    displace(attempt, "pods-vanished", message="Its pods were deleted.")
    row.refresh_from_db()
    attempt.refresh_from_db()
    assert (row.status, attempt.end_detail["code"]) == (Status.PENDING, "node-lost")  # what came first


def test_whoever_was_displaced_and_is_chosen_as_a_victim_spends_no_requeue(
    team: Team, owner: User, pool: Pool, stopped: list[UUID]
) -> None:
    row = make_workload(team, owner, max_requeues=0)
    attempt = start(row, pool)
    displace(attempt, gone=False)
    assert preempt(row) == {row.pk}
    attempt.refresh_from_db()
    assert (row.status, row.requeues) == (Status.PENDING, 0)
    assert attempt.end_reason == EndReason.DISPLACED
    assert stopped == [attempt.pk]


def test_the_tenth_in_a_row_fails_it_with_the_causes_and_a_requeue_begins_anew(
    team: Team, owner: User, pool: Pool
) -> None:
    row = make_workload(team, owner)
    again(row, pool, MOST_IN_A_ROW - 2)
    displace(start(row, pool), "node-lost", message="Node n2 was lost.")
    row.refresh_from_db()
    assert row.status == Status.PENDING
    again(row, pool, 1)
    assert (row.status, row.reason_code, row.failures) == (Status.FAILED, "displaced-too-often", 0)
    assert row.reason["message"] == (
        "It was displaced 10 times in a row within a day: 9 times: Pod 0 on n1 was evicted. Node n2 was lost."
    )
    assert "ask the cluster's operator" in row.reason["next_step"]
    with transaction.atomic():
        lifecycle.requeue_many([row.pk], by=SCHEDULER, at=timezone.now())
    row.refresh_from_db()
    again(row, pool, 1)
    assert row.status == Status.PENDING


@pytest.mark.parametrize("other", ["failed", "a day ago"])
def test_only_what_comes_in_a_row_within_a_day_counts(
    team: Team, owner: User, pool: Pool, other: str
) -> None:
    row = make_workload(team, owner, max_retries=1)
    again(row, pool, MOST_IN_A_ROW - 1)
    if other == "failed":
        finish(start(row, pool), exit_code=1)
        row.refresh_from_db()
    else:
        earlier = timezone.now() - timedelta(hours=25)
        times = dict.fromkeys(("queued_at", "starting_at", "running_at", "ended_at"), earlier)
        Attempt.objects.filter(workload=row).update(**times)
    again(row, pool, 1)
    assert row.status == Status.PENDING


def test_the_pause_grows_with_the_row_and_begins_at_once_where_the_cause_lasts(
    team: Team, owner: User, pool: Pool
) -> None:
    drained, registry = make_workload(team, owner), make_workload(team, owner)
    pauses: dict[UUID, list[int]] = {drained.pk: [], registry.pk: []}
    for row, code in ((drained, "drained"), (registry, "registry-unreachable")):
        for _ in range(3):
            again(row, pool, 1, code)
            until = row.backoff_until
            pauses[row.pk].append(0 if until is None else (until - row.status_since).seconds)
    assert pauses == {drained.pk: [0, 10, 20], registry.pk: [10, 20, 40]}


def test_what_is_lost_with_its_cluster_counts_among_them(team: Team, owner: User, pool: Pool) -> None:
    row = make_workload(team, owner)
    again(row, pool, MOST_IN_A_ROW - 1)
    attempt = start(row, pool)
    with transaction.atomic():
        assert lifecycle.lost([attempt.pk], at=timezone.now(), by=SCHEDULER, message="East was lost.") == 1
    row.refresh_from_db()
    attempt.refresh_from_db()
    assert (row.status, attempt.end_reason) == (Status.FAILED, EndReason.LOST)
    assert row.reason["message"].endswith("9 times: Pod 0 on n1 was evicted. East was lost.")
