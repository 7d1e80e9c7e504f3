"""What clusters report, in order, twice, late and never."""

from datetime import timedelta
from uuid import UUID

import pytest
from django.utils import timezone

from chamber.models import User
from teams.models import Pool, Team
from workloads import lifecycle
from workloads.models import Status, Workload
from workloads.tests.factories import admit, finish, make_workload, preempt, start


@pytest.fixture
def workload(team: Team, owner: User) -> Workload:
    return make_workload(team, owner)


def state(workload: Workload) -> tuple[str, int]:
    workload.refresh_from_db()
    return workload.status, workload.last_event


def test_pods_make_it_starting_then_running(workload: Workload, pool: Pool) -> None:
    attempt = admit(workload, pool)
    assert lifecycle.pods_created(attempt.pk, timezone.now())
    assert state(workload)[0] == Status.STARTING
    assert lifecycle.pods_running(attempt.pk, timezone.now())
    attempt.refresh_from_db()
    assert state(workload)[0] == attempt.phase == "running"
    assert attempt.queued_at <= attempt.starting_at <= attempt.running_at  # type: ignore[operator]


def test_a_report_that_comes_twice_or_late_changes_nothing(workload: Workload, pool: Pool) -> None:
    attempt = start(workload, pool)
    before = state(workload)
    assert not lifecycle.pods_created(attempt.pk, timezone.now())
    assert not lifecycle.pods_running(attempt.pk, timezone.now())
    assert not lifecycle.refused(attempt.pk, at=timezone.now(), message="No room.")
    assert state(workload) == before
    assert finish(attempt)
    before = state(workload)
    assert not finish(attempt)
    assert not finish(attempt, exit_code=1)
    assert not lifecycle.pods_running(attempt.pk, timezone.now())
    assert state(workload) == before


def test_a_report_of_an_attempt_that_was_preempted_changes_nothing(workload: Workload, pool: Pool) -> None:
    attempt = start(workload, pool)
    preempt(workload)
    before = state(workload)
    assert not finish(attempt)
    assert state(workload) == before == (Status.PENDING, before[1])


def test_a_clock_behind_ours_does_not_turn_time_back(workload: Workload, pool: Pool) -> None:
    attempt = admit(workload, pool)
    lifecycle.pods_running(attempt.pk, timezone.now() - timedelta(hours=1))
    attempt.refresh_from_db()
    assert attempt.running_at is not None
    assert attempt.running_at >= attempt.queued_at


def test_a_failure_told_late_is_recorded_after_what_was_recorded_meanwhile(
    workload: Workload, pool: Pool
) -> None:
    began = timezone.now()
    attempt = start(workload, pool, at=began)
    failed = began + timedelta(seconds=60)
    assert finish(attempt, exit_code=1, at=failed + timedelta(seconds=240), ended_at=failed)
    attempt.refresh_from_db()
    assert attempt.ended_at == failed
    assert workload.events.order_by("sequence").last().at == failed + timedelta(seconds=240)  # type: ignore[union-attr]


def test_completed_at_once_it_passes_through_every_status(workload: Workload, pool: Pool) -> None:
    finish(admit(workload, pool))
    statuses = [event.data.get("status") for event in workload.events.order_by("sequence")]
    assert statuses[1:] == ["queued", "starting", "running", "completed"]
    assert state(workload)[0] == Status.COMPLETED


def test_a_failure_ends_with_what_to_do_next(workload: Workload, pool: Pool, stopped: list[UUID]) -> None:
    attempt = start(workload, pool)
    finish(attempt, exit_code=137, reason_code="out-of-memory", message="Killed: it used more than 64 GiB.")
    workload.refresh_from_db()
    assert (workload.status, workload.reason_code, workload.failures) == ("failed", "out-of-memory", 1)
    assert workload.reason["message"] == "Killed: it used more than 64 GiB."
    assert "more memory" in workload.reason["next_step"]
    assert stopped == [attempt.pk]


def test_an_exit_code_without_a_reason_is_told(workload: Workload, pool: Pool) -> None:
    finish(start(workload, pool), exit_code=3)
    workload.refresh_from_db()
    assert workload.reason["message"] == "It exited with code 3."


def test_it_is_tried_again_with_longer_and_longer_pauses(team: Team, owner: User, pool: Pool) -> None:
    workload = make_workload(team, owner, max_retries=2)
    pauses = []
    for _ in range(2):
        now = timezone.now() + timedelta(hours=1)
        finish(start(workload, pool), exit_code=1, at=now)
        workload.refresh_from_db()
        assert workload.status == Status.PENDING
        pauses.append((workload.backoff_until - now).total_seconds())  # type: ignore[operator]
        Workload.objects.filter(pk=workload.pk).update(status_since=timezone.now() - timedelta(hours=2))
        workload.refresh_from_db()
    assert pauses == [10, 20]
    finish(start(workload, pool), exit_code=1)
    workload.refresh_from_db()
    assert (workload.status, workload.failures, workload.attempts.count()) == (Status.FAILED, 3, 3)


def test_the_pause_has_a_bound() -> None:
    assert [lifecycle.backoff(n).total_seconds() for n in (1, 2, 6, 7, 8, 10_000)] == [
        10,
        20,
        320,
        600,
        600,
        600,
    ]


def test_refused_it_goes_back_after_a_pause_and_costs_no_retry(workload: Workload, pool: Pool) -> None:
    attempt = admit(workload, pool)
    now = timezone.now() + timedelta(seconds=1)
    assert lifecycle.refused(attempt.pk, at=now, message="The node is gone.")
    workload.refresh_from_db()
    assert (workload.status, workload.failures) == (Status.PENDING, 0)
    assert workload.backoff_until == now + timedelta(seconds=10)
    attempt.refresh_from_db()
    assert (attempt.end_reason, attempt.end_detail["message"]) == ("refused", "The node is gone.")


def test_refused_while_starting_it_goes_back_too(workload: Workload, pool: Pool) -> None:
    attempt = admit(workload, pool)
    lifecycle.pods_created(attempt.pk, timezone.now())
    assert lifecycle.refused(attempt.pk, at=timezone.now(), message="Still unbound after 60 s.")
    assert state(workload)[0] == Status.PENDING


def test_devices_are_free_once(workload: Workload, pool: Pool) -> None:
    attempt = start(workload, pool)
    assert lifecycle.released([attempt.pk], timezone.now()) == set()
    finish(attempt)
    assert lifecycle.released([attempt.pk], timezone.now()) == {attempt.pk}
    assert lifecycle.released([attempt.pk], timezone.now()) == set()
    attempt.refresh_from_db()
    assert attempt.released_at is not None
    assert workload.events.filter(kind="devices-freed").count() == 1


def test_an_attempt_nobody_knows_changes_nothing(workload: Workload) -> None:
    nobody = UUID(int=7)
    assert not lifecycle.pods_created(nobody, timezone.now())
    assert not lifecycle.finished(nobody, at=timezone.now(), exit_code=0)
    assert lifecycle.released([nobody], timezone.now()) == set()
