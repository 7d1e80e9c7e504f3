"""Many at once on PostgreSQL: threads with connections of their own, and the tables looked at afterwards."""

import random
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import F
from django.utils import timezone

from agentlink import actions as cluster_actions
from agentlink import assignments, reports
from agentlink.assignments import NewAssignment
from agentlink.models import Assignment, Cluster, Device
from agentlink.protocol import Observed, ReportedPhase
from agentlink.tests.agents import report
from agentlink.tests.factories import make_cluster, make_node
from chamber.errors import Conflict, Refusal, StaleVersion
from chamber.models import User
from chamber.transactions import tried_again
from scheduling.cycle import decide
from scheduling.cycle.apply import LostTurn, apply
from scheduling.models import Clock
from scheduling.reading.snapshot import take
from teams import actions as team_actions
from teams.actors import Actor
from teams.models import AuditEvent, Pool, Role, Share, Team
from teams.tests.factories import actor, make_org, make_pool, make_team, member, set_share
from tests.truths import broken
from workloads import actions, lifecycle
from workloads.models import Status, Workload
from workloads.requests import SubmissionRequest
from workloads.submission import submit
from workloads.tests.factories import admit, finish, make_workload, preempt, start

pytestmark = [pytest.mark.postgres_only, pytest.mark.django_db(transaction=True)]

SYSTEM = Actor.system("test")
again = pytest.mark.parametrize("round_", range(4))
"""Who comes first is chance: each race is run some times."""


def at_once(*acts: Callable[[], object]) -> list[object]:
    """Start all acts together; return what each returned, or the refusal that it met. Anything else is raised."""
    ready = threading.Barrier(len(acts))
    answers: list[object] = [None] * len(acts)

    def run(index: int) -> None:
        try:
            ready.wait(90)
            answers[index] = acts[index]()
        except BaseException as error:
            answers[index] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(180)
        assert not thread.is_alive(), "somebody waits for ever"
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, Refusal | LostTurn):
            raise answer
    return answers


@dataclass
class Place:
    """Two teams, a pool of eight GPUs in two clusters."""

    root: Team
    team: Team
    other: Team
    owner: User
    pool: Pool
    clusters: list[Cluster]

    def ask(self, team: Team | None = None, **words: object) -> SubmissionRequest:
        return SubmissionRequest.parse(
            {"name": "work", "team": (team or self.team).slug, "image": "train:1", **words}
        )


@pytest.fixture
def place() -> Iterator[Place]:
    root = make_org("Acme")
    team, other = make_team(root, "NLP"), make_team(root, "Vision")
    pool = make_pool("Main")
    set_share(team, pool, gpus=4)
    clusters = [make_cluster(name, connection=uuid4()) for name in ("east", "west")]
    for cluster in clusters:
        make_node(cluster, f"{cluster.name}-1", gpus=4, pool=pool)
    Clock.objects.get_or_create(pk=1)
    yield Place(root, team, other, member(root, Role.ORG_ADMIN, "olga"), pool, clusters)
    assert broken() == []


def in_transaction(act: Callable[[], object]) -> object:
    with transaction.atomic():
        return act()


@again
def test_everything_that_may_happen_to_one_workload_happens_at_once(place: Place, round_: int) -> None:
    by, now = actor(place.owner), timezone.now()
    workload = make_workload(place.team, place.owner, max_retries=1)
    first = [admit, start][round_ % 2](workload, place.pool)
    stale = Workload.objects.get(pk=workload.pk)
    order = lifecycle.PlannedStart(stale.pk, stale.version, place.pool.pk, [], 1000, "Got 1 GPU.")
    yields = lifecycle.PreemptionOrder(stale.pk, stale.version, "Reclaimed.")
    acts: list[Callable[[], object]] = [
        lambda: actions.cancel(by=by, workload=workload),
        lambda: actions.hold(by=by, workload=workload),
        lambda: actions.requeue(by=by, workload=workload),
        lambda: finish(first),
        lambda: finish(first, exit_code=1),
        lambda: in_transaction(lambda: lifecycle.admit_many([order], by=SYSTEM, at=now)),
        lambda: in_transaction(lambda: lifecycle.preempt_many([yields], by=SYSTEM, at=now)),
        lambda: in_transaction(lambda: lifecycle.lost([first.pk], at=now, by=SYSTEM, message="Lost.")),
    ]
    random.shuffle(acts)
    at_once(*acts)
    first.refresh_from_db()
    assert first.ended_at is not None, "somebody ended it"


@again
def test_one_key_from_ten_threads_is_one_workload(place: Place, round_: int) -> None:
    by, asked = actor(place.owner), [place.ask(), place.ask()]
    answers = at_once(*[lambda: submit(by=by, requests=asked, key="k", body_sha256="x")] * 10)
    assert all(answer == answers[0] for answer in answers)
    assert Workload.objects.count() == 2


@again
def test_an_archived_team_takes_nothing_that_was_submitted_meanwhile(place: Place, round_: int) -> None:
    by, asked = actor(place.owner), [place.ask(), place.ask(place.other)]
    *submitted, archived = at_once(
        *[lambda: submit(by=by, requests=asked)] * 3,
        lambda: team_actions.archive_team(by=SYSTEM, team=place.team),
    )
    taken = [answer for answer in submitted if isinstance(answer, list)]
    assert isinstance(archived, Conflict if taken else Team)
    assert Workload.objects.filter(team=place.team).count() == len(taken)


@again
def test_what_ended_is_not_requeued_in_a_team_that_is_archived_meanwhile(place: Place, round_: int) -> None:
    by, workload = actor(place.owner), make_workload(place.team, place.owner)
    actions.cancel(by=by, workload=workload)
    requeued, archived = at_once(
        lambda: actions.requeue(by=by, workload=workload),
        lambda: team_actions.archive_team(by=SYSTEM, team=place.team),
    )
    assert isinstance(requeued, Conflict) != isinstance(archived, Conflict)


def test_teams_are_renamed_and_moved_while_many_submit_to_several(place: Place) -> None:
    by = actor(place.owner)
    teams = [make_team(place.root) for _ in range(6)]

    def rename() -> None:
        some = random.sample(teams, 6)
        edits = [
            team_actions.TeamEdit(team=team, version=team.version, changes={"slug": f"{team.slug}-{key}"})
            for key in [threading.get_ident()]
            for team in some
        ]
        team_actions.set_many(by=SYSTEM, edits=edits)

    def submit_to_all() -> object:
        return submit(by=by, requests=[place.ask(team) for team in random.sample(teams, 6)])

    def move() -> object:
        return team_actions.move_team(by=SYSTEM, team=teams[0], parent=place.other)

    answers = at_once(*[submit_to_all] * 4, *[rename] * 2, move)
    assert any(isinstance(answer, StaleVersion) for answer in answers[4:6])


def at_once_with(values: Iterable[Any], act: Callable[[Any], object]) -> list[str]:
    """Do the act with all values at once; return the types of the answers, sorted."""
    return sorted(type(answer).__name__ for answer in at_once(*(partial(act, value) for value in values)))


def test_of_admins_who_save_one_row_one_is_heard_and_the_others_are_told(place: Place) -> None:
    share = Share.objects.get(team=place.team, pool=place.pool)
    given: Any = {"by": SYSTEM, "team": place.team, "pool": place.pool, "version": share.version}
    found = at_once_with(
        (1, 2, 3), lambda gpus: team_actions.set_share(**given, changes={"reservation_milli": gpus * 1000})
    )
    assert found == ["Share", "StaleVersion", "StaleVersion"]
    given = {"by": SYSTEM, "pool": place.pool, "version": place.pool.version}
    found = at_once_with("abc", lambda name: team_actions.edit_pool(**given, changes={"name": name}))
    assert found == ["Pool", "StaleVersion", "StaleVersion"]
    found = at_once_with(
        "abc", lambda name: team_actions.create_pool(by=SYSTEM, values={"name": name, "slug": "later"})
    )
    assert found == ["Pool", "Refusal", "Refusal"]
    assert AuditEvent.objects.count() == 3


def test_of_plans_that_were_decided_at_once_one_is_applied(place: Place) -> None:
    for _ in range(6):
        make_workload(place.team, place.owner)
    ready = threading.Barrier(4)

    def decide_and_apply() -> object:
        decided = decide.decide(take(timezone.now()))
        ready.wait(90)
        return apply(decided).number

    answers = at_once(*[decide_and_apply] * 4)
    assert sum(isinstance(answer, LostTurn) for answer in answers) == 3
    assert Workload.objects.filter(status=Status.QUEUED).count() == 6


def assigned(place: Place) -> list[Assignment]:
    """Return workloads on all devices of both clusters, let go."""
    devices = list(Device.objects.select_related("node").order_by("pk"))
    made = {
        device: admit(make_workload(place.team, place.owner, max_retries=3), place.pool) for device in devices
    }
    for device, attempt in made.items():
        item = NewAssignment(attempt.pk, device.node.cluster_id, [(0, device.pk, 1000)])
        with transaction.atomic():
            assignments.assign_many([item])
    return list(Assignment.objects.select_related("attempt").order_by("pk"))


@again
def test_reports_cancels_losses_and_cycles_do_not_wait_in_a_circle(place: Place, round_: int) -> None:
    """Each locks many rows of both clusters, in whatever order they come to it."""
    by, rows = actor(place.owner), assigned(place)
    some = random.sample(list(Workload.objects.open().select_related("team")), len(rows) // 2)
    waiting = [make_workload(place.team, place.owner) for _ in range(4)]
    Cluster.objects.filter(name="west").update(connected=False, last_seen_at="2020-01-01T00:00Z")

    def tell(cluster: Cluster, phase: ReportedPhase) -> object:
        mine = [row for row in random.sample(rows, len(rows)) if row.cluster_id == cluster.pk]
        told = tuple(report(row.attempt, phase, 1 + (phase is ReportedPhase.GONE)) for row in mine)
        return reports.take(cluster, Observed(reports=told), connection=cluster.connection)

    def cycle() -> object:
        try:
            return apply(decide.decide(take(timezone.now())))
        except IntegrityError:  # the picture holds no more; the next cycle decides anew
            return None

    acts: list[Callable[[], object]] = [
        *(
            partial(tell, cluster, phase)
            for cluster in place.clusters
            for phase in (ReportedPhase.RUNNING, ReportedPhase.GONE)
        ),
        lambda: actions.act_on_many(by=by, act="cancel", workloads=some),
        lambda: actions.act_on_many(by=by, act="cancel", workloads=waiting),
        lambda: cluster_actions.declare_lost(by=SYSTEM, cluster=place.clusters[1]),
        cycle,
        cycle,
    ]
    random.shuffle(acts)
    at_once(*acts)


@again
def test_who_is_cancelled_while_he_is_preempted_is_ended_once(place: Place, round_: int) -> None:
    victim = make_workload(place.team, place.owner)
    attempt = start(victim, place.pool)
    cancelled, _ = at_once(
        lambda: actions.cancel(by=actor(place.owner), workload=victim), lambda: preempt(victim)
    )
    victim.refresh_from_db()
    attempt.refresh_from_db()
    assert cancelled is None
    assert victim.status == Status.CANCELLED
    assert attempt.end_reason in {"cancelled", "preempted"}


def test_a_duty_that_meets_somebody_in_a_circle_or_waits_too_long_is_done_again(place: Place) -> None:
    both = [place.team.pk, place.other.pk]
    met = threading.Barrier(2)
    tries: list[UUID] = []

    def lock(order: list[UUID]) -> None:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '2s'; SET LOCAL deadlock_timeout = '50ms'")
            for pk in order:
                Team.objects.select_for_update().get(pk=pk)
                if len(tries) < 2:
                    tries.append(pk)
                    met.wait(90)
            Team.objects.filter(pk__in=order).update(bursting_priority=F("bursting_priority") + 1)

    at_once(
        lambda: tried_again("one", lambda: lock(both)), lambda: tried_again("other", lambda: lock(both[::-1]))
    )
    assert sorted(tries) == sorted(both)
    assert set(Team.objects.filter(pk__in=both).values_list("bursting_priority", flat=True)) == {3}
