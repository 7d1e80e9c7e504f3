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
from workloads.models import Attempt, EndReason, Status, Workload
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
    told = {start(running, pool).pk: "No.", admit(queued, pool).pk: "No room."}
    [refused] = lifecycle.refuse_many(told, by=SCHEDULER, at=timezone.now())
    assert refused == Attempt.objects.get(end_reason=EndReason.REFUSED).pk
    queued.refresh_from_db()
    assert (queued.status, queued.failures) == (Status.PENDING, 0)
    assert queued.events.latest("sequence").message == "The cluster refused it: No room."


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
                done = lifecycle.refuse_many(dict.fromkeys(attempts, "No."), by=SCHEDULER, at=now)
            else:
                done = lifecycle.finish_many([Ended(pk, 1, now) for pk in attempts], by=SCHEDULER, at=now)
        assert done == set(attempts)
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 10
    assert set(Workload.objects.values_list("attempt", flat=True)) == {None}
