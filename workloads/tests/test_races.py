"""Two at once: exactly one wins, and the other is told."""

from collections.abc import Callable
from threading import Event
from time import sleep
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from chamber.errors import Conflict
from chamber.models import User
from teams.models import Pool, Role, Team
from teams.tests.factories import actor, make_org, make_pool, make_team, member
from workloads import actions, lifecycle
from workloads.data.actions import create_source, delete_source
from workloads.environments.actions import create_environment, delete_environment
from workloads.models import DataSource, Environment, SourceKind, Status, Workload
from workloads.requests import SubmissionRequest
from workloads.submission import submit
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


def submitted_while(owner: User, delete: Callable[[], None], **asked: Any) -> list[Any]:
    """Delete something while a submission that names it is not committed yet; return what came of both."""
    is_made, is_asked = Event(), Event()

    def submitting() -> Workload:
        with transaction.atomic():
            request = SubmissionRequest.parse({"name": "bert", "team": "nlp", "image": "i", **asked})
            [workload] = submit(by=actor(owner), requests=[request])
            is_made.set()
            is_asked.wait(5)
            # By now the other waits for this transaction, as far as it waits at all.
            sleep(0.3)
        return workload

    def deleting() -> None:
        assert is_made.wait(20)
        is_asked.set()
        delete()

    return together(submitting, deleting)


def test_data_that_is_mounted_meanwhile_is_not_deleted(setting: tuple[Team, User, Pool]) -> None:
    team, owner, _ = setting
    lead = actor(member(team, Role.LEAD, "lea"))
    row = create_source(by=lead, team=team, name="imagenet", kind=SourceKind.CLAIM, details={})
    made, refused = submitted_while(
        owner, lambda: delete_source(by=lead, source=row), mounts=["imagenet:/data"]
    )
    assert isinstance(made, Workload)
    assert isinstance(refused, Conflict)
    assert DataSource.objects.exists()


def test_an_environment_that_is_named_meanwhile_is_not_deleted(setting: tuple[Team, User, Pool]) -> None:
    team, owner, _ = setting
    lead = actor(member(team, Role.LEAD, "lea"))
    row = create_environment(by=lead, team=team, name="pytorch", values={"image": "train:1"})
    made, refused = submitted_while(
        owner, lambda: delete_environment(by=lead, environment=row), runs_in="pytorch"
    )
    assert isinstance(made, Workload)
    assert isinstance(refused, Conflict)
    assert Environment.objects.exists()
