"""Attempts that go well, many at once: each keeps its own times, and whoever is further stays there."""

from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chamber.models import User
from teams.models import Pool, Team
from workloads import lifecycle
from workloads.lifecycle import Progress
from workloads.models import Attempt, Status, Workload
from workloads.tests.factories import SCHEDULER, admit, make_workload

pytestmark = pytest.mark.django_db


@pytest.fixture
def attempts(team: Team, owner: User, pool: Pool) -> list[Attempt]:
    """Return the attempts of three Queued workloads, admitted a minute ago."""
    then = timezone.now() - timedelta(minutes=1)
    return [admit(make_workload(team, owner, submitted_at=then), pool, at=then) for _ in range(3)]


def statuses(attempts: list[Attempt]) -> list[str]:
    found = dict(Workload.objects.values_list("pk", "status"))
    return [found[attempt.workload_id] for attempt in attempts]


def test_each_comes_as_far_as_was_told_with_its_own_times(attempts: list[Attempt]) -> None:
    now = timezone.now()
    times = [now - timedelta(seconds=seconds) for seconds in (40, 30, 20)]
    told = [
        Progress(attempts[0].pk, times[0]),
        Progress(attempts[1].pk, times[0], times[1]),
        Progress(attempts[2].pk, times[0], times[1], times[2]),
    ]
    with transaction.atomic():
        assert lifecycle.progress_many(told, by=SCHEDULER, at=now) == {attempt.pk for attempt in attempts}
    assert statuses(attempts) == [Status.STARTING, Status.RUNNING, Status.COMPLETED]
    last = Attempt.objects.get(pk=attempts[2].pk)
    assert (last.starting_at, last.running_at, last.ended_at) == tuple(times)


def test_several_steps_write_the_row_once_and_count_as_changes_of_their_own(
    attempts: list[Attempt],
) -> None:
    now = timezone.now()
    before = Workload.objects.get(pk=attempts[0].workload_id)
    with transaction.atomic(), CaptureQueriesContext(connection) as seen:
        lifecycle.progress_many([Progress(attempts[0].pk, now, now, now, gone=True)], by=SCHEDULER, at=now)
    assert sum('UPDATE "workloads_workload"' in query["sql"] for query in seen.captured_queries) == 1
    after = Workload.objects.get(pk=before.pk)
    assert (after.version - before.version, after.last_event - before.last_event) == (3, 4)
    told = after.events.filter(sequence__gt=before.last_event).values_list("sequence", "kind", "data__status")
    numbers = iter(range(before.last_event + 1, after.last_event + 1))
    assert list(told) == [
        *((next(numbers), "status", status) for status in ("starting", "running", "completed")),
        (next(numbers), "devices-freed", None),
    ]


def test_who_completed_and_left_no_pod_is_released_with_it(
    attempts: list[Attempt], stopped: list[UUID]
) -> None:
    now = timezone.now()
    with transaction.atomic():
        lifecycle.progress_many(
            [
                Progress(attempts[0].pk, now, now, now, gone=True),
                Progress(attempts[1].pk, now, now, now),
            ],
            by=SCHEDULER,
            at=now,
        )
    released = Attempt.objects.filter(released_at__isnull=False).values_list("pk", flat=True)
    assert list(released) == [attempts[0].pk]
    assert set(stopped) == {attempts[0].pk, attempts[1].pk}


def test_what_is_as_far_already_or_over_stays_as_it_is(attempts: list[Attempt]) -> None:
    now = timezone.now()
    running = [Progress(attempt.pk, now, now) for attempt in attempts]
    with transaction.atomic():
        lifecycle.progress_many(running[:1], by=SCHEDULER, at=now)
        lifecycle.cancel_many([attempts[1].workload_id], by=SCHEDULER, at=now)
        assert lifecycle.progress_many(running, by=SCHEDULER, at=now) == {attempts[2].pk}
    assert statuses(attempts) == [Status.RUNNING, Status.CANCELLED, Status.RUNNING]


def test_the_number_of_queries_does_not_depend_on_the_number_of_attempts(attempts: list[Attempt]) -> None:
    now = timezone.now()
    counts = []
    for chosen in (attempts[:1], attempts[1:]):
        told = [Progress(attempt.pk, now, now, now) for attempt in chosen]
        with transaction.atomic(), CaptureQueriesContext(connection) as queries:
            lifecycle.progress_many(told, by=SCHEDULER, at=now)
        counts.append(len(queries))
    assert counts[0] == counts[1]
