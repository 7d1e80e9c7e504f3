"""A workload that has been Running for its time limit is ended."""

from datetime import timedelta
from uuid import UUID

from django.utils import timezone

from chamber.models import User
from teams.models import Pool, Team
from workloads.models import Status
from workloads.tasks import enforce_time_limits
from workloads.tests.factories import admit, make_workload, start


def test_it_fails_with_the_reason_and_is_not_tried_again(
    team: Team, owner: User, pool: Pool, stopped: list[UUID]
) -> None:
    workload = make_workload(team, owner, time_limit_seconds=60, max_retries=3)
    attempt = start(workload, pool, at=timezone.now() + timedelta(seconds=0))
    attempt.running_at = timezone.now() - timedelta(seconds=61)
    attempt.save(update_fields=["running_at"])
    assert enforce_time_limits() == 1
    workload.refresh_from_db()
    assert (workload.status, workload.reason_code) == (Status.FAILED, "time-limit")
    assert workload.reason["message"] == "It ran for its time limit of 1m."
    assert stopped == [attempt.pk]
    assert enforce_time_limits() == 0


def test_who_has_time_left_or_no_limit_or_does_not_run_yet_goes_on(
    team: Team, owner: User, pool: Pool
) -> None:
    start(make_workload(team, owner, time_limit_seconds=3600), pool)
    start(make_workload(team, owner), pool)
    admit(make_workload(team, owner, time_limit_seconds=1), pool, at=timezone.now() - timedelta(hours=1))
    assert enforce_time_limits() == 0
