"""What a plan does: admit, preempt, resize, tell reasons, give up."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.test import TestCase
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chamber.models import User
from teams.models import Pool, Team
from workloads import dependencies, known, lifecycle
from workloads.lifecycle.status import IllegalChange, change_status, lock
from workloads.models import Dependency, EventKind, OnPreemption, Status, Workload
from workloads.tests.factories import SCHEDULER, admit, make_array, make_workload, preempt, start


def admission(workload: Workload, pool: Pool) -> lifecycle.PlannedStart:
    return lifecycle.PlannedStart(workload.pk, workload.version, pool.pk, [], 1000, "Got 1 GPU.")


def gapless(workload: Workload) -> bool:
    workload.refresh_from_db()
    sequences = list(workload.events.order_by("sequence").values_list("sequence", flat=True))
    return sequences == list(range(1, workload.last_event + 1))


def test_admitted_it_is_queued_with_an_attempt(team: Team, owner: User, pool: Pool) -> None:
    workload = make_workload(team, owner, reason_code="waiting-for-gpus")
    attempt = admit(workload, pool)
    assert (workload.status, workload.attempt, workload.pool) == (Status.QUEUED, attempt, pool)
    assert (attempt.number, attempt.phase, workload.reason_code) == (1, "queued", "")
    event = workload.events.get(sequence=2)
    assert (event.actor, event.attempt_number, event.data["status"]) == ("scheduler", 1, "queued")
    assert gapless(workload)


@pytest.mark.parametrize("change", [{"version": 2}, {"held": True}])
def test_who_changed_since_the_snapshot_is_left_out(
    team: Team, owner: User, pool: Pool, change: dict[str, object]
) -> None:
    changed, same = make_workload(team, owner), make_workload(team, owner)
    orders = [admission(changed, pool), admission(same, pool)]
    Workload.objects.filter(pk=changed.pk).update(**change)
    assert lifecycle.admit_many(orders, by=SCHEDULER, at=timezone.now()).keys() == {same.pk}
    changed.refresh_from_db()
    assert changed.status == Status.PENDING
    assert not changed.attempts.exists()


def test_who_cannot_run_at_once_has_the_reason_and_nobody_else(team: Team, owner: User, pool: Pool) -> None:
    codes = ("waiting-for-victims", "", "waiting-for-cluster", "waiting-for-victims")
    orders = [
        replace(admission(make_workload(team, owner, reason_code="held"), pool), reason_code=code)
        for code in codes
    ]
    assert len(lifecycle.admit_many(orders, by=SCHEDULER, at=timezone.now())) == len(codes)
    stored = dict(Workload.objects.values_list("pk", "reason_code"))
    assert tuple(stored[order.workload_id] for order in orders) == codes


def test_admitting_many_takes_as_many_queries_as_admitting_two(team: Team, owner: User, pool: Pool) -> None:
    known.slugs()
    counts = []
    for size in (2, 40):
        orders = [admission(make_workload(team, owner), pool) for _ in range(size)]
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert len(lifecycle.admit_many(orders, by=SCHEDULER, at=timezone.now())) == size
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 8


def test_preempted_it_goes_back_with_its_place_in_the_queue(
    team: Team, owner: User, pool: Pool, stopped: list[UUID]
) -> None:
    early = timezone.now() - timedelta(hours=3)
    victim = make_workload(team, owner, submitted_at=early)
    winner = make_workload(team, owner, priority=100)
    attempt = start(victim, pool)
    assert preempt(victim, by_workload=winner, rule="reclaim", level="Acme") == {victim.pk}
    assert (victim.status, victim.requeues, victim.submitted_at, victim.attempt) == (
        "pending",
        1,
        early,
        None,
    )
    attempt.refresh_from_db()
    assert (attempt.end_reason, attempt.released_at) == ("preempted", None)
    assert attempt.end_detail["by"] == str(winner.pk)
    assert attempt.end_detail["rule"] == "reclaim"
    assert stopped == [attempt.pk]
    told = winner.events.get(kind=EventKind.PREEMPTED_OTHERS)
    assert told.data["victims"][0]["workload"] == str(victim.pk)
    assert gapless(victim)
    assert gapless(winner)


@pytest.mark.parametrize(
    ("asked", "code"),
    [({"on_preemption": OnPreemption.STOP}, "preempted"), ({"max_requeues": 0}, "too-many-requeues")],
)
def test_who_may_not_return_ends_as_preempted_with_a_reason(
    team: Team, owner: User, pool: Pool, asked: dict[str, object], code: str
) -> None:
    victim = make_workload(team, owner, **asked)
    start(victim, pool)
    preempt(victim, by_workload=make_workload(team, owner), level="NLP")
    assert (victim.status, victim.requeues, victim.reason_code) == (Status.PREEMPTED, 0, code)
    assert victim.finished_at is not None
    assert victim.reason["next_step"]
    assert victim.reason["level"] == "NLP"
    assert victim.reason["by"] == "a workload of NLP"


def test_a_preemption_of_what_changed_meanwhile_does_nothing(
    team: Team, owner: User, pool: Pool, stopped: list[UUID]
) -> None:
    victim = make_workload(team, owner)
    admit(victim, pool)
    stale = Workload.objects.get(pk=victim.pk)
    lifecycle.pods_running(victim.attempt_id or UUID(int=0), timezone.now())
    assert preempt(stale) == set()
    assert (stale.status, stopped) == (Status.RUNNING, [])


def test_a_victim_of_two_is_preempted_once_for_the_first(team: Team, owner: User, pool: Pool) -> None:
    victim, first, second = (make_workload(team, owner) for _ in range(3))
    start(victim, pool)
    orders = [
        lifecycle.PreemptionOrder(victim.pk, victim.version, "Reclaimed.", by_workload_id=winner.pk)
        for winner in (first, second)
    ]
    assert lifecycle.preempt_many(orders, by=SCHEDULER, at=timezone.now()) == {victim.pk}
    assert victim.attempts.get().end_detail["by"] == str(first.pk)
    assert not second.events.filter(kind=EventKind.PREEMPTED_OTHERS).exists()


def test_preempting_many_takes_as_many_queries_as_preempting_two(team: Team, owner: User, pool: Pool) -> None:
    counts = []
    for size in (2, 30):
        victims = [make_workload(team, owner) for _ in range(size)]
        for victim in victims:
            start(victim, pool)
        orders = [lifecycle.PreemptionOrder(v.pk, v.version, "Reclaimed.") for v in victims]
        with CaptureQueriesContext(connection) as queries:
            assert len(lifecycle.preempt_many(orders, by=SCHEDULER, at=timezone.now())) == size
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 12


def test_growing_and_shrinking_are_events(team: Team, owner: User, pool: Pool) -> None:
    workload = make_workload(team, owner, pods=4, min_pods=1)
    attempt = start(workload, pool, gpus_milli=1000)
    for milli in (3000, 2000):
        assert lifecycle.resize(
            attempt.pk, gpus_milli=milli, allocation=[], message="As told.", by=SCHEDULER, at=timezone.now()
        )
    attempt.refresh_from_db()
    assert attempt.gpus_milli == 2000
    assert list(workload.events.order_by("sequence").values_list("kind", flat=True))[-2:] == [
        "grew",
        "shrank",
    ]


def test_reasons_are_stored_without_a_new_version(team: Team, owner: User, pool: Pool) -> None:
    waiting, running = make_workload(team, owner), make_workload(team, owner)
    start(running, pool)
    lifecycle.set_reasons({waiting.pk: "waiting-for-gpus", running.pk: "waiting-for-gpus"})
    waiting.refresh_from_db()
    running.refresh_from_db()
    assert (waiting.reason_code, waiting.version, running.reason_code) == ("waiting-for-gpus", 1, "")


def test_storing_many_reasons_takes_as_many_queries_as_storing_two(
    team: Team, owner: User, pool: Pool
) -> None:
    known.slugs()
    counts = []
    for size in (2, 40):
        rows = [make_workload(team, owner, pool_choice=[str(pool.pk)]) for _ in range(size)]
        codes = {row.pk: "held" if index % 2 else "waiting-for-gpus" for index, row in enumerate(rows)}
        with CaptureQueriesContext(connection) as queries:
            lifecycle.set_reasons(codes)
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 3


def test_only_reasons_that_changed_are_announced(team: Team, owner: User, rung: list[str]) -> None:
    same, other = make_workload(team, owner, reason_code="held"), make_workload(team, owner)
    with TestCase.captureOnCommitCallbacks(execute=True):
        lifecycle.set_reasons({same.pk: "held", other.pk: "held"})
    assert [topic for topic in rung if topic.startswith("workload:")] == [f"workload:{other.pk}"]


def test_what_can_never_run_and_asked_to_be_told_fails_with_its_reason(team: Team, owner: User) -> None:
    workload = make_workload(team, owner)
    failure = lifecycle.WaitingFailure(workload.pk, 1, "larger-than-pool", "It needs 9 GPUs; there are 8.")
    assert lifecycle.fail_waiting([failure], by=SCHEDULER, at=timezone.now()) == {workload.pk}
    workload.refresh_from_db()
    assert (workload.status, workload.reason["message"]) == (Status.FAILED, "It needs 9 GPUs; there are 8.")
    assert lifecycle.fail_waiting([failure], by=SCHEDULER, at=timezone.now()) == set()


@pytest.mark.parametrize("kind", ["afterok", "afternotok"])
def test_what_it_starts_after_may_be_run_again_meanwhile(team: Team, owner: User, kind: str) -> None:
    array = make_array(team, owner, statuses=["completed" if kind == "afternotok" else "failed"])
    lates = [make_workload(team, owner) for _ in range(2)]
    for late in lates:
        Dependency.objects.create(workload=late, needs_array=array, kind=kind)

    def failed(late: Workload) -> bool:
        failure = lifecycle.WaitingFailure(late.pk, 1, dependencies.FAILED, "It cannot start.")
        return bool(lifecycle.fail_waiting([failure], by=SCHEDULER, at=timezone.now()))

    assert failed(lates[0])
    Workload.objects.filter(array=array).update(status=Status.PENDING, finished_at=None)
    assert not failed(lates[1])
    lates[1].refresh_from_db()
    assert (lates[1].status, lates[1].last_event) == (Status.PENDING, 1)


def test_an_illegal_change_is_refused_with_a_sentence(team: Team, owner: User) -> None:
    workload = make_workload(team, owner, slug="bert-1")
    with (
        pytest.raises(IllegalChange, match="bert-1 is Pending and cannot become Running"),
        transaction.atomic(),
    ):
        change_status(list(lock([workload.pk]).values()), Status.RUNNING, at=timezone.now())


def test_pages_hear_of_it_and_the_scheduler_is_rung(
    team: Team, owner: User, pool: Pool, rung: list[str], django_capture_on_commit_callbacks: object
) -> None:
    workload = make_workload(team, owner)
    start(workload, pool)
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        preempt(workload)
    assert {"workloads", "overview", f"workload:{workload.pk}", "queue:main", "ring"} <= set(rung)
