"""Failures and refusals, many at once: each with its own end, and no query more for each."""

from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chamber.models import User
from teams.models import Pool, Team
from workloads import known, lifecycle
from workloads.lifecycle import Ended
from workloads.lifecycle.refusals import MOST_LASTING
from workloads.models import Attempt, EndReason, EventKind, Status, Workload
from workloads.reasons import of_failure, of_refusal
from workloads.tests.factories import SCHEDULER, admit, make_workload, start

pytestmark = pytest.mark.django_db


def test_each_ends_with_its_own_code_and_comes_back_after_its_own_pause(
    team: Team, owner: User, pool: Pool, stopped: list[UUID]
) -> None:
    first, second = make_workload(team, owner), make_workload(team, owner, max_retries=3, failures=1)
    attempts = [start(first, pool), start(second, pool)]
    now = timezone.now()
    told = [Ended(attempts[0].pk, 3, now, message="It broke."), Ended(attempts[1].pk, None, now, "node-lost")]
    assert lifecycle.finish_many(told, by=SCHEDULER, at=now) == {attempt.pk for attempt in attempts}
    assert set(stopped) == {attempt.pk for attempt in attempts}
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.status, first.reason_code, first.reason["message"]) == (
        Status.FAILED,
        "exit-code",
        "It broke.",
    )
    assert (second.status, second.reason_code, second.failures) == (Status.PENDING, "", 2)
    assert second.backoff_until == second.status_since + timedelta(seconds=20)
    ends = Attempt.objects.order_by("pk").values_list("exit_code", "end_detail__code")
    assert set(ends) == {(3, "exit-code"), (None, "node-lost")}
    assert lifecycle.finish_many(told, by=SCHEDULER, at=now) == set()


def test_who_runs_is_not_refused(team: Team, owner: User, pool: Pool) -> None:
    running, queued = make_workload(team, owner), make_workload(team, owner)
    told = {
        start(running, pool).pk: of_refusal("", "No."),
        admit(queued, pool).pk: of_refusal("", "No room."),
    }
    [refused] = lifecycle.refuse_many(told, by=SCHEDULER, at=timezone.now())
    assert refused == Attempt.objects.get(end_reason=EndReason.REFUSED).pk
    queued.refresh_from_db()
    assert (queued.status, queued.failures) == (Status.PENDING, 0)
    assert queued.events.latest("sequence").message == "No room."


@pytest.mark.parametrize("refused", [False, True])
def test_many_take_as_many_queries_as_two(team: Team, owner: User, pool: Pool, refused: bool) -> None:
    known.slugs()
    counts = []
    for size in (2, 20):
        rows = [make_workload(team, owner, max_retries=n % 2) for n in range(size)]
        attempts = [admit(row, pool).pk for row in rows]
        now = timezone.now()
        with CaptureQueriesContext(connection) as queries:
            if refused:
                done = lifecycle.refuse_many(
                    dict.fromkeys(attempts, of_refusal("", "No.")), by=SCHEDULER, at=now
                )
            else:
                done = lifecycle.finish_many([Ended(pk, 1, now) for pk in attempts], by=SCHEDULER, at=now)
        assert done == set(attempts)
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 10
    assert set(Workload.objects.values_list("attempt", flat=True)) == {None}


WORDS = 'pods "x" is forbidden: violates PodSecurity "restricted:latest".'


def refuse(workload: Workload, pool: Pool, code: str, *, times: int = 1) -> None:
    """Have a cluster refuse a workload so many times, each time as soon as it is tried again."""
    for _ in range(times):
        attempt = admit(workload, pool)
        lifecycle.refused(attempt.pk, at=timezone.now(), code=code, message=WORDS)
        workload.refresh_from_db()


def test_a_refused_workload_keeps_the_clusters_words_until_it_is_admitted_again(
    team: Team, owner: User, pool: Pool
) -> None:
    workload = make_workload(team, owner)
    refuse(workload, pool, "pod-security")
    assert workload.reason["message"] == WORDS
    assert (workload.reason["kind"], workload.reason["code"]) == ("refused", "pod-security")
    assert "enforce=baseline" in workload.reason["next_step"]
    assert Attempt.objects.get().end_detail == workload.reason
    attempt = admit(workload, pool)
    assert workload.reason == {}
    lifecycle.pods_created(attempt.pk, timezone.now())
    lifecycle.refused(attempt.pk, at=timezone.now(), code="pod-security", message=WORDS)
    told = workload.events.filter(attempt_number=attempt.number, message=WORDS)
    assert [event.data["status"] for event in told] == [Status.PENDING]


def test_lasting_refusals_put_it_on_hold_after_a_bound_and_passing_ones_never_do(
    team: Team, owner: User, pool: Pool
) -> None:
    lasting, passing = make_workload(team, owner), make_workload(team, owner)
    refuse(lasting, pool, "pod-security", times=MOST_LASTING - 1)
    assert not lasting.held
    refuse(lasting, pool, "pod-security")
    assert lasting.held
    assert f"on hold after {MOST_LASTING} refusals in a row" in lasting.events.latest("sequence").message
    refuse(passing, pool, "quota-exceeded", times=MOST_LASTING + 1)
    assert not passing.held
    assert passing.backoff_until is not None


def test_refusals_before_an_attempt_that_ran_do_not_count(team: Team, owner: User, pool: Pool) -> None:
    workload = make_workload(team, owner, max_retries=3)
    refuse(workload, pool, "pod-security", times=MOST_LASTING - 1)
    now = timezone.now()
    lifecycle.finish_many([Ended(start(workload, pool).pk, 1, now)], by=SCHEDULER, at=now)
    workload.refresh_from_db()
    refuse(workload, pool, "pod-security", times=2)
    assert not workload.held
    assert workload.backoff_until is not None
    ended_at = Attempt.objects.latest("number").ended_at
    assert ended_at is not None
    assert workload.backoff_until - ended_at == timedelta(seconds=20)


def test_what_was_mended_is_tried_again_at_once(team: Team, owner: User, pool: Pool) -> None:
    refused, other, paused = (make_workload(team, owner) for _ in range(3))
    refuse(refused, pool, "pod-security", times=MOST_LASTING)
    refuse(paused, pool, "quota-exceeded")
    ids = [refused.pk, other.pk, paused.pk]
    done = lifecycle.try_again_many(ids, by=SCHEDULER, at=timezone.now(), why="It was labelled.")
    assert done == {refused.pk, paused.pk}
    refused.refresh_from_db()
    assert (refused.held, refused.backoff_until, refused.reason) == (False, None, {})
    last = refused.events.latest("sequence")
    assert (last.kind, last.message) == (EventKind.RELEASED, "Tried again: It was labelled.")
    assert not lifecycle.try_again_many(ids, by=SCHEDULER, at=timezone.now(), why="It was labelled.")
    refuse(refused, pool, "pod-security")
    assert refused.held


@pytest.mark.parametrize(
    ("code", "logs"),
    [("exit-code", True), ("image-not-pulled", False), ("not-created", False), ("anything-new", False)],
)
def test_logs_are_advised_only_where_a_container_ran(code: str, logs: bool) -> None:
    assert ("logs" in of_failure(None, code, "").as_json()["next_step"]) is logs
    assert "logs" not in of_refusal(code, "No.").next_step
