"""Cancel, hold, release and requeue: what they do, when they are too late, and who may."""

from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chamber.errors import Conflict, NotAllowed, NotVisible
from chamber.models import User
from teams.models import Binding, Pool, Role, Team
from teams.tests.factories import actor, member
from workloads import actions
from workloads.actions import may_control
from workloads.models import Status, Workload
from workloads.tests.factories import finish, make_workload, start

ACTIONS = {
    "cancel": actions.cancel,
    "hold": actions.hold,
    "release": actions.release,
    "requeue": actions.requeue,
}


@pytest.fixture
def workload(team: Team, owner: User) -> Workload:
    return make_workload(team, owner, slug="bert-1")


def test_cancelled_it_ends_and_its_pods_are_stopped(
    workload: Workload, owner: User, pool: Pool, stopped: list[UUID]
) -> None:
    attempt = start(workload, pool)
    actions.cancel(by=actor(owner), workload=workload)
    workload.refresh_from_db()
    attempt.refresh_from_db()
    assert (workload.status, workload.attempt, attempt.end_reason) == (Status.CANCELLED, None, "cancelled")
    assert workload.reason["by"] == "ada"
    assert stopped == [attempt.pk]


def test_cancelled_while_it_waits_it_has_no_pods_to_stop(
    workload: Workload, owner: User, stopped: list[UUID]
) -> None:
    actions.cancel(by=actor(owner), workload=workload)
    workload.refresh_from_db()
    assert (workload.status, stopped) == (Status.CANCELLED, [])


def test_held_it_is_not_admitted_until_released(workload: Workload, owner: User) -> None:
    actions.hold(by=actor(owner), workload=workload)
    workload.refresh_from_db()
    assert (workload.held, workload.reason_code, workload.version) == (True, "held", 2)
    actions.release(by=actor(owner), workload=workload)
    workload.refresh_from_db()
    assert (workload.held, workload.reason_code) == (False, "")
    assert list(workload.events.values_list("kind", flat=True)) == ["submitted", "held", "released"]


def test_a_hold_and_its_release_do_not_shorten_the_pause_after_a_failed_attempt(
    team: Team, owner: User, pool: Pool
) -> None:
    workload = make_workload(team, owner, max_retries=3)
    finish(start(workload, pool), exit_code=1)
    workload.refresh_from_db()
    pause = workload.backoff_until
    assert pause is not None
    actions.hold(by=actor(owner), workload=workload)
    actions.release(by=actor(owner), workload=workload)
    workload.refresh_from_db()
    assert (workload.held, workload.backoff_until) == (False, pause)


def test_requeued_it_keeps_its_submission_and_begins_counting_anew(
    workload: Workload, owner: User, pool: Pool
) -> None:
    finish(start(workload, pool), exit_code=1)
    submitted = workload.submitted_at
    actions.requeue(by=actor(owner), workload=workload)
    workload.refresh_from_db()
    assert (workload.status, workload.failures, workload.submitted_at) == (Status.PENDING, 0, submitted)
    assert (workload.reason, workload.finished_at, workload.pool) == ({}, None, None)


def test_nothing_of_an_archived_team_is_requeued(workload: Workload, owner: User, team: Team) -> None:
    actions.cancel(by=actor(owner), workload=workload)
    team.archived_at = timezone.now()
    team.save()
    with pytest.raises(Conflict, match="NLP was archived"):
        actions.requeue(by=actor(owner), workload=Workload.objects.get())


TOO_LATE = {
    "cancel what has ended": (
        "cancel",
        "ended",
        "bert-1 has ended already (Completed), so it was not cancelled.",
    ),
    "hold what runs": ("hold", "running", "bert-1 is Running: only what waits and is not held can be held."),
    "hold what has ended": ("hold", "ended", "bert-1 has ended already (Completed), so it was not held."),
    "hold what is held": ("hold", "held", "bert-1 is held: only what waits and is not held can be held."),
    "release what is not held": (
        "release",
        "pending",
        "bert-1 is Pending: only what is held can be released.",
    ),
    "requeue what runs": ("requeue", "running", "bert-1 is Running: only what has ended can be requeued."),
}


@pytest.mark.parametrize("case", TOO_LATE.values(), ids=TOO_LATE.keys())
def test_too_late_it_says_how_things_stand(
    workload: Workload, owner: User, pool: Pool, case: tuple[str, str, str]
) -> None:
    act, state, sentence = case
    if state == "held":
        actions.hold(by=actor(owner), workload=workload)
    elif state != "pending":
        attempt = start(workload, pool)
        if state == "ended":
            finish(attempt)
    with pytest.raises(Conflict) as refused:
        ACTIONS[act](by=actor(owner), workload=workload)
    assert refused.value.message == sentence


MAY = {
    Role.LEAD: None,
    Role.ADMIN: None,
    Role.ORG_ADMIN: None,
    Role.RESEARCHER: NotAllowed,
    Role.VIEWER: NotAllowed,
    "outsider": NotVisible,
}


@pytest.mark.parametrize("act", ["cancel", "hold"])
@pytest.mark.parametrize("role", MAY.keys())
def test_who_may(org: Team, other_team: Team, workload: Workload, role: Role | str, act: str) -> None:
    if role == "outsider":
        user = member(other_team, Role.ADMIN)
    else:
        user = member(org if role == Role.ORG_ADMIN else workload.team, role)
    refusal = MAY[role]
    if refusal is None:
        ACTIONS[act](by=actor(user), workload=workload)
    else:
        with pytest.raises(refusal):
            ACTIONS[act](by=actor(user), workload=workload)
    assert Workload.objects.get().version == (2 if refusal is None else 1)


@pytest.mark.parametrize("act", ["release", "requeue"])
def test_a_team_mate_may_not_release_or_requeue(workload: Workload, team: Team, act: str) -> None:
    with pytest.raises(NotAllowed, match="bert-1 belongs to ada"):
        ACTIONS[act](by=actor(member(team, Role.RESEARCHER)), workload=workload)


def test_an_owner_who_left_the_team_may_not(workload: Workload, owner: User) -> None:
    Binding.objects.all().delete()
    with pytest.raises(NotVisible):
        actions.cancel(by=actor(User.objects.get(pk=owner.pk)), workload=workload)


def test_many_at_once_leaves_out_what_is_not_mine_or_too_late(
    team: Team, owner: User, pool: Pool, workload: Workload
) -> None:
    theirs = make_workload(team, member(team, Role.RESEARCHER))
    over = make_workload(team, owner)
    finish(start(over, pool))
    rows = list(Workload.objects.select_related("team"))
    assert len(rows) == 3
    assert actions.act_on_many(by=actor(owner), act="cancel", workloads=rows) == {workload.pk}
    theirs.refresh_from_db()
    assert theirs.status == Status.PENDING


def test_many_take_as_many_queries_as_two(team: Team, owner: User, pool: Pool) -> None:
    may_control(actor(owner), make_workload(team, owner))  # reads the roles, once for the person
    counts = []
    for size in (2, 20):
        made = [make_workload(team, owner) for _ in range(size)]
        for workload in made:
            start(workload, pool)
        rows = list(Workload.objects.select_related("team").filter(pk__in=[w.pk for w in made]))
        with CaptureQueriesContext(connection) as queries:
            assert len(actions.act_on_many(by=actor(owner), act="cancel", workloads=rows)) == size
        counts.append(len(queries))
    assert counts[0] == counts[1]
