"""Two at once: exactly one wins, and the other is told."""

import pytest
from django.db import transaction
from django.utils import timezone

from chamber.errors import Conflict
from chamber.models import User
from teams.models import Pool, Role, Team
from teams.tests.factories import actor, make_org, make_pool, make_team, member
from workloads import actions, lifecycle
from workloads.models import Status, Workload
from workloads.tests.factories import SCHEDULER, finish, make_workload, start
from workloads.tests.test_idempotency import together

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def setting() -> tuple[Team, User, Pool]:
    team = make_team(make_org(), "NLP")
    return team, member(team, Role.RESEARCHER), make_pool("Main")


def test_cancelling_races_with_completion(setting: tuple[Team, User, Pool]) -> None:
    team, owner, pool = setting
    for _ in range(8):
        workload = make_workload(team, owner)
        attempt = start(workload, pool)
        cancelled, completed = together(
            lambda w=workload: actions.cancel(by=actor(owner), workload=w),  # type: ignore[misc]
            lambda a=attempt: finish(a),  # type: ignore[misc]
        )
        workload.refresh_from_db()
        if completed is True:
            assert isinstance(cancelled, Conflict)
            assert "has ended already (Completed)" in cancelled.message
            assert workload.status == Status.COMPLETED
        else:
            assert (cancelled, completed, workload.status) == (None, False, Status.CANCELLED)
        sequences = list(workload.events.order_by("sequence").values_list("sequence", flat=True))
        assert sequences == list(range(1, workload.last_event + 1))


def test_admitting_races_with_cancelling(setting: tuple[Team, User, Pool]) -> None:
    team, owner, pool = setting

    def admit_once(row: Workload) -> bool:
        order = lifecycle.PlannedStart(row.pk, row.version, pool.pk, [], 1000, "Got 1 GPU.")
        with transaction.atomic():
            return bool(lifecycle.admit_many([order], by=SCHEDULER, at=timezone.now()))

    for _ in range(8):
        workload = make_workload(team, owner)
        together(
            lambda w=workload: actions.cancel(by=actor(owner), workload=w),  # type: ignore[misc]
            lambda w=workload: admit_once(w),  # type: ignore[misc]
        )
        workload.refresh_from_db()
        assert workload.status == Status.CANCELLED
        assert not workload.attempts.filter(ended_at=None).exists()


def test_two_admissions_of_one_workload_make_one_attempt(setting: tuple[Team, User, Pool]) -> None:
    team, owner, pool = setting
    workload = make_workload(team, owner)
    order = lifecycle.PlannedStart(workload.pk, workload.version, pool.pk, [], 1000, "Got 1 GPU.")

    def admit_once() -> bool:
        with transaction.atomic():
            return bool(lifecycle.admit_many([order], by=SCHEDULER, at=timezone.now()))

    assert sorted(together(*[admit_once] * 4)) == [False, False, False, True]
    assert workload.attempts.count() == 1
