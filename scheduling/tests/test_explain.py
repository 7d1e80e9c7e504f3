"""Why a workload waits, for its owner and for others."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from agentlink.models import Assignment, Cluster, Device, Node
from chamber.cli.output import in_words
from scheduling.cycle.cycle import run_cycle
from scheduling.engine import Eta
from scheduling.explain import last_cycle
from scheduling.explain import workload as explaining
from scheduling.explain.explanation import label, label_inside
from scheduling.explain.reader import eta_in_words
from scheduling.explain.workload import explain
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import make_cluster, make_nodes, run_pods
from teams.actors import Actor, Via
from teams.models import Pool, Role
from teams.tests.factories import member
from workloads import actions, dependencies, known, lifecycle
from workloads.lifecycle.refusals import MOST_LASTING
from workloads.models import Dependency, Status, Workload
from workloads.tests.factories import admit, finish, make_workload, preempt, start

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ms(minutes: float) -> int:
    return round((NOW + timedelta(minutes=minutes)).timestamp() * 1000)


def behind(acme: Acme) -> tuple[Workload, Workload]:
    """Return Production's workload that has the start reservation, and one of Research that it holds up."""
    Pool.objects.update(policy={"queueing": "strict-fifo"})
    running = [
        make_workload(acme.research, acme.owner, gpu_milli=2000, priority=100, time_limit_seconds=3600)
        for _ in range(4)
    ]
    run_cycle()
    run_pods(running)
    ahead = make_workload(acme.production, acme.outsider, gpu_milli=4000, pods=3, priority=90)
    held_up = make_workload(acme.research, acme.owner, gpu_milli=4000, priority=10)
    run_cycle()
    return ahead, held_up


def test_a_workload_that_waits_has_a_code_numbers_a_position_and_a_next_step(acme: Acme) -> None:
    ahead, _ = behind(acme)

    reason = explain(ahead, acme.outsider)

    assert reason is not None
    assert reason.kind == "wait"
    assert reason.position == 1
    assert reason.asked_milli == 12_000
    assert reason.next_step
    assert reason.starts_at is not None
    assert "in about" in reason.eta


def test_another_team_s_workload_is_named_only_to_who_may_see_it(acme: Acme) -> None:
    ahead, held_up = behind(acme)

    for_owner, for_admin = explain(held_up, acme.owner), explain(held_up, acme.admin)

    assert for_owner is not None
    assert for_admin is not None
    assert for_owner.code == "behind-reservation"
    assert "an elastic workload of Production (priority 90)" in for_owner.sentence
    assert ahead.slug in for_admin.sentence
    for text in (ahead.slug, str(ahead.pk), ahead.name):
        assert text not in for_owner.sentence


def test_who_waits_behind_one_that_may_never_start_is_told_of_it_by_no_id(acme: Acme) -> None:
    """Nobody knows when the first ends, so nobody knows when the second starts, nor the third behind it."""
    Pool.objects.update(policy={"queueing": "strict-fifo"})
    running = make_workload(acme.production, acme.outsider, gpu_milli=4000, pods=3, priority=50)
    run_cycle()
    run_pods([running])
    ahead = make_workload(acme.production, acme.outsider, gpu_milli=4000, priority=45)
    behind = make_workload(acme.research, acme.owner, gpu_milli=4000, priority=10)
    run_cycle()

    for_owner, for_admin = explain(behind, acme.owner), explain(behind, acme.admin)

    assert for_owner is not None
    assert for_admin is not None
    assert "an elastic workload of Production (priority 45) is ahead of it" in for_owner.eta
    assert f"{ahead.slug} is ahead of it" in for_admin.eta


def test_one_that_no_cycle_has_seen_yet_says_so(acme: Acme) -> None:
    run_cycle()
    workload = make_workload(acme.research, acme.owner)

    assert explain(workload, acme.owner) == explaining.NOT_LOOKED_AT


def test_a_hold_is_told_at_once(acme: Acme) -> None:
    workload = make_workload(acme.research, acme.owner, gpu_milli=8000)
    run_cycle()
    actions.hold(by=Actor.person(acme.owner, Via.PAGE), workload=workload)
    workload.refresh_from_db()

    assert explain(workload, acme.owner) == explaining.HELD
    run_cycle()
    reason = explain(workload, acme.owner)
    assert reason is not None
    assert (reason.code, reason.position) == ("held", None)


def refused(acme: Acme, code: str, *, times: int = 1) -> Workload:
    """Return a workload of Production that its cluster refused so many times."""
    workload = make_workload(acme.production, acme.outsider, gpu_milli=1000)
    for _ in range(times):
        workload.refresh_from_db()
        attempt = admit(workload, acme.pool)
        with transaction.atomic():
            lifecycle.refused(attempt.pk, at=timezone.now(), code=code, message='pods "x" is forbidden: no')
    workload.refresh_from_db()
    return workload


def test_one_that_its_cluster_refused_is_told_why_and_when_it_is_tried_again(acme: Acme) -> None:
    workload = refused(acme, "pod-security")
    run_cycle()
    reason, foreign = explain(workload, acme.outsider), explain(workload, acme.owner)

    assert reason is not None
    assert workload.backoff_until is not None
    assert (reason.code, reason.kind) == ("pod-security", "admin")
    assert reason.sentence == (
        f'pods "x" is forbidden: no. It is tried again at {workload.backoff_until:%H:%M:%S} UTC.'
    )
    assert "pod-security.kubernetes.io/enforce=baseline" in reason.next_step
    assert foreign is not None
    assert (foreign.code, "forbidden" in foreign.sentence) == ("backing-off", False)


@pytest.mark.parametrize(
    ("code", "until"),
    [
        ("limit-range", "it is not tried again before it is released"),
        (
            "namespace-not-kept",
            "it is tried again when the agent keeps its namespace again, or it is released",
        ),
        (
            "pod-security",
            "it is tried again when it is released; in a namespace that is bound to its team, also when that has "
            "another Pod Security level or is kept by the agent again",
        ),
        (
            "namespace-missing",
            "it is tried again when it is released; in a namespace that is bound to its team, also when that is kept "
            "by the agent again",
        ),
    ],
)
def test_one_that_was_refused_too_often_is_told_so_until_it_is_released(
    acme: Acme, code: str, until: str
) -> None:
    workload = refused(acme, code, times=MOST_LASTING)
    run_cycle()
    reason = explain(workload, acme.outsider)
    assert reason is not None
    assert reason.sentence.endswith(f" It was refused so often that it is on hold: {until}.")
    release = f"Then release it, on its page or by `chamber release {workload.slug}`."
    assert reason.next_step.endswith(release)
    told = workload.events.latest("sequence").message
    assert told.endswith(f" refusals in a row: {until} (chamber release {workload.slug}).")
    actions.release(by=Actor.person(acme.outsider, Via.PAGE), workload=workload)
    run_cycle()
    workload.refresh_from_db()
    assert workload.status == Status.QUEUED


def test_one_whose_dependency_failed_is_told_which_and_what_can_be_done(
    acme: Acme,
) -> None:
    failed, foreign, done = (
        make_workload(team, owner, max_retries=0)
        for team, owner in (
            (acme.research, acme.owner),
            (acme.production, acme.outsider),
            (acme.research, acme.owner),
        )
    )
    waits, ends = (
        make_workload(acme.research, acme.owner),
        make_workload(acme.research, acme.owner, fail_if_impossible=True),
    )
    for needed, exit_code in ((failed, 1), (foreign, 1), (done, 0)):
        finish(start(needed, acme.pool), exit_code=exit_code)
        for row in (waits, ends):
            Dependency.objects.create(workload=row, needs=needed)
    run_cycle()
    reason = explain(waits, acme.owner)
    assert reason is not None
    assert (reason.code, reason.kind) == ("dependency-failed", "change")
    assert reason.sentence == (
        f"It starts only after {failed.slug} (Failed) and an elastic workload of Production (priority 50) (Failed) "
        "have completed."
    )
    assert reason.next_step == (
        f"Requeue {failed.slug} (chamber requeue {failed.slug}), and ask the owner of the other one to requeue it. Or "
        f"cancel this one (chamber cancel {waits.slug}) and submit it without the dependency: Clone on its page."
    )
    ends.refresh_from_db()
    assert (ends.status, ends.reason["code"]) == (Status.FAILED, "dependency-failed")
    assert ends.reason["message"] == (
        f"It starts only after {failed.slug} (Failed) and a workload of Production (Failed) have completed."
    )
    assert ends.reason["next_step"].endswith(f". Then requeue this one (chamber requeue {ends.slug}).")
    for row in (failed, foreign):
        actions.requeue(by=Actor.person(row.owner, Via.PAGE), workload=row)
    run_cycle()
    reason = explain(waits, acme.owner)
    assert reason is not None
    assert reason.code == "waiting-for-dependency"


def test_one_that_starts_after_others_is_told_how_these_stand_and_what_helps(acme: Acme) -> None:
    def after(*needed: Workload) -> Workload:
        row = make_workload(acme.research, acme.owner)
        Dependency.objects.bulk_create(Dependency(workload=row, needs=each) for each in needed)
        return row

    runs, held = (make_workload(acme.research, acme.owner, held=hold) for hold in (False, True))
    never = make_workload(acme.production, acme.outsider, partition="zz", slug="secret")
    plain, stuck = after(runs), after(runs, held, never)
    behind = after(stuck)
    run_cycle()
    run_pods([runs])

    told = explain(plain, acme.owner)
    assert told is not None
    assert (told.code, told.kind) == ("waiting-for-dependency", "wait")
    assert told.sentence == f"It starts only after {runs.slug} (Running) has completed."
    assert told.next_step == "Nothing to do; it joins the queue when they have completed."

    told = explain(stuck, acme.owner)
    assert told is not None
    assert (told.code, told.kind) == ("waiting-for-dependency", "change")
    foreign = "an elastic workload of Production (priority 50) (Pending, no matching nodes)"
    assert told.sentence == (
        f"It starts only after {runs.slug} (Running), {held.slug} (Pending, on hold) and {foreign} have completed."
    )
    release = f"Release {held.slug} (chamber release {held.slug})."
    without = f" Or cancel this one (chamber cancel {stuck.slug}) and submit it without the dependency: Clone on its "
    without += "page."
    assert told.next_step == (
        f"{release} Ask the owner of the one of another team what keeps it from starting.{without}"
    )

    for_mate, for_admin = explain(stuck, acme.mate), explain(stuck, acme.admin)
    assert for_mate is not None
    assert for_admin is not None
    assert for_mate.next_step.startswith(
        "Ask the owner of the one on hold to release it. Ask the owner of the one"
    )
    assert "secret (Pending, no matching nodes)" in for_admin.sentence
    assert "See what keeps secret from starting (chamber why secret)." in for_admin.next_step

    told = explain(behind, acme.owner)
    assert told is not None
    assert (
        told.sentence == f"It starts only after {stuck.slug} (Pending, waiting for dependency) has completed."
    )
    assert told.next_step.startswith(f"See what keeps {stuck.slug} from starting (chamber why {stuck.slug}).")


def test_the_next_step_of_one_whose_dependencies_failed_is_the_readers_to_do(acme: Acme) -> None:
    mates = make_workload(acme.research, acme.mate, max_retries=0)
    waits, ends = (
        make_workload(acme.research, acme.owner, fail_if_impossible=late) for late in (False, True)
    )
    finish(start(mates, acme.pool), exit_code=1)
    for row in (waits, ends):
        Dependency.objects.create(workload=row, needs=mates)
    run_cycle()
    ask, again = "Ask its owner to requeue it.", f"Requeue {mates.slug} (chamber requeue {mates.slug})."
    cancel = f" Or cancel this one (chamber cancel {waits.slug}) and submit it without the dependency: Clone on its "
    cancel += "page."
    for reader, step in ((acme.owner, ask + cancel), (acme.mate, again), (acme.admin, again + cancel)):
        reason = explain(waits, reader)
        assert reason is not None
        assert f"only after {mates.slug} (Failed) has completed" in reason.sentence
        assert reason.next_step == step
    ends.refresh_from_db()
    assert f"only after {mates.slug} (Failed) has completed" in ends.reason["message"]
    assert ends.reason["next_step"] == f"{ask} Then requeue this one (chamber requeue {ends.slug})."


@pytest.mark.parametrize(
    ("own", "others", "step"),
    [
        (0, 2, "Ask their owners to requeue them"),
        (1, 3, "Requeue a-0 (chamber requeue a-0), and ask the owners of the other 3 to requeue them"),
        (8, 0, "Requeue a-0, a-1, a-2, a-3, a-4 and 3 more (chamber requeue a-0 a-1 a-2 a-3 a-4)"),
    ],
)
def test_many_failed_dependencies_are_counted_where_not_named(own: int, others: int, step: str) -> None:
    assert dependencies.requeue([f"a-{number}" for number in range(own)], others=others) == step


def test_one_whose_attempt_failed_is_told_how_while_it_waits_for_the_next(acme: Acme) -> None:
    workload = make_workload(acme.production, acme.outsider, gpu_milli=1000, max_retries=1)
    attempt = start(workload, acme.pool)
    finish(attempt, exit_code=None, reason_code="image-not-pulled", message="It has no image.")
    workload.refresh_from_db()
    run_cycle()
    reason = explain(workload, acme.outsider)
    assert reason is not None
    assert (reason.code, reason.kind) == ("image-not-pulled", "wait")
    assert reason.sentence.startswith("It has no image. It is tried again at ")
    assert "logs" not in reason.next_step


def test_a_pool_whose_cluster_was_released_is_told_with_it(acme: Acme) -> None:
    waits = make_workload(acme.research, acme.owner, gpu_milli=1000)
    at = timezone.now().replace(hour=3, minute=4, second=5, microsecond=0)
    Cluster.objects.update(released_at=at, connected=False)
    Node.objects.update(gone_at=at, ready=False)
    other = make_cluster("other")
    Cluster.objects.filter(pk=other.pk).update(released_at=at)  # it had no nodes in this pool
    run_cycle()
    name = acme.cluster.name
    reason = explain(waits, acme.owner)
    assert reason is not None
    assert (reason.code, reason.sentence, reason.next_step) == (
        "no-matching-nodes",
        "The pool Main has no node that takes workloads. "
        f"The cluster {name} was released by an operator at 03:04:05 UTC: its nodes are gone.",
        f"Ask an operator to connect {name} again (start its agent), or choose another pool.",
    )
    make_nodes(make_cluster("third"), acme.pool, 1, gpus=2)
    large = make_workload(acme.research, acme.owner, gpu_milli=4000)
    run_cycle()
    reason = explain(large, acme.owner)
    assert reason is not None
    assert reason.code == "larger-than-any-node"
    assert f"The cluster {name} was released" in reason.sentence
    assert "The cluster other was" not in reason.sentence


def test_gpus_that_a_lost_claim_has_are_told_to_who_waits_and_the_claim_to_operators(acme: Acme) -> None:
    node = Node.objects.filter(pool=acme.pool).order_by("name")[0]
    claim = (
        "GPU 0 is allocated to a claim that no pod uses: kubectl delete resourceclaim c-1 -n lab frees it."
    )
    Node.objects.filter(pk=node.pk).update(problem=claim)
    node.devices.filter(index=0).update(foreign=True)
    gpus = Device.objects.filter(node__pool=acme.pool).count()
    waits = make_workload(acme.research, acme.owner, gpu_milli=1000, pods=gpus)
    run_cycle()
    others = "pods or claims that Chamber does not manage have it"
    told = f"1 device of the pool is no capacity: {others} (node {node.name})."
    for reader, ends in ((acme.owner, told), (acme.admin, f"{told} {node.name}: {claim}")):
        reason = explain(waits, reader)
        assert reason is not None
        assert reason.code == "larger-than-pool"
        assert reason.sentence.endswith(f" {ends}")
    actions.hold(by=Actor.person(acme.owner, Via.PAGE), workload=waits)
    waits.refresh_from_db()
    run_cycle()
    reason = explain(waits, acme.admin)
    assert reason is not None
    assert (reason.code, reason.sentence) == ("held", "It is on hold.")


def test_one_that_waits_out_a_pause_is_told_one_time_in_sentence_and_forecast(acme: Acme) -> None:
    workload = make_workload(acme.research, acme.owner, gpu_milli=1000)
    until = timezone.now() + timedelta(seconds=50)
    Workload.objects.filter(pk=workload.pk).update(backoff_until=until)
    workload.refresh_from_db()
    run_cycle()
    reason = explain(workload, acme.owner)
    assert reason is not None
    assert reason.code == "backing-off"
    assert reason.sentence == f"Its last attempt ended early; the next one is due at {until:%H:%M:%S} UTC."
    assert reason.eta == f"not before {until:%H:%M:%S} UTC"


def test_what_is_done_to_a_workload_is_advised_to_those_who_may_do_it(acme: Acme, client: Client) -> None:
    held = make_workload(acme.research, acme.owner, gpu_milli=1000)
    large = make_workload(acme.research, acme.owner, gpu_milli=8000)
    failed = make_workload(acme.research, acme.owner, max_retries=0)
    finish(start(failed, acme.pool), exit_code=3)
    failed.refresh_from_db()
    actions.hold(by=Actor.person(acme.owner, Via.PAGE), workload=held)
    held.refresh_from_db()
    run_cycle()
    others = "Its owner, or who manages workloads in Research, can do this: "
    viewer = member(acme.research, Role.VIEWER, "vera")
    for workload, step in (
        (held, "Release the hold."),
        (large, "Ask for less per pod, and for more pods if need be, for example --pods 2 --gpus 4."),
        (failed, "Read the end of its logs, mend the cause, and requeue it."),
    ):
        for reader, told in (
            (acme.owner, step),
            (acme.admin, step),
            (acme.mate, others + step),
            (viewer, others + step),
        ):
            reason = explain(workload, reader)
            assert reason is not None
            assert (reason.next_step, reason.is_for_reader) == (told, told == step)
            client.force_login(reader)
            part = "workloads:detail" if workload is failed else "scheduling:explain"
            page = client.get(reverse(part, args=[workload.slug])).content.decode()
            assert told in page
            assert ("You can change this" in page) is (told == step and workload is not failed)


def test_one_on_hold_for_refusals_is_released_by_those_who_may(acme: Acme) -> None:
    workload = refused(acme, "pod-security", times=MOST_LASTING)
    run_cycle()
    viewer = member(acme.production, Role.VIEWER, "vera")
    reason = explain(workload, viewer)
    assert reason is not None
    assert reason.next_step.startswith(
        "Its owner, or who manages workloads in Production, can do this: Ask an admin to label its namespace"
    )
    waits = refused(acme, "pod-security")
    run_cycle()
    reason = explain(waits, viewer)
    assert reason is not None
    assert reason.next_step.startswith("Ask an admin to label its namespace")


def test_a_queued_one_waits_for_victims_or_for_its_pods(acme: Acme) -> None:
    for _ in range(3):
        make_workload(acme.research, acme.owner, gpu_milli=4000)
    run_cycle()
    elastic = list(Workload.objects.all())
    assert explain(elastic[0], acme.owner) == explaining.LET_GO
    run_pods(elastic)
    newcomer = make_workload(acme.production, acme.outsider, gpu_milli=4000, priority=100)
    run_cycle()
    newcomer.refresh_from_db()

    reason = explain(newcomer, acme.outsider)

    assert reason is not None
    assert reason.code == "waiting-for-victims"


def test_a_queued_one_in_a_cluster_that_is_not_heard_is_told_so(acme: Acme) -> None:
    workload = make_workload(acme.research, acme.owner)
    run_cycle()
    workload.refresh_from_db()
    Cluster.objects.update(connected=False, last_seen_at=NOW)

    reason = explain(workload, acme.owner)

    assert reason is not None
    assert (reason.code, reason.kind) == ("cluster-offline", "admin")
    assert "which was last seen 2026-01-01 12:00:00 UTC" in reason.sentence


def test_one_that_runs_has_nothing_to_explain_one_that_ended_has(acme: Acme) -> None:
    runs, fails, completes = (make_workload(acme.research, acme.owner) for _ in range(3))
    run_cycle()
    run_pods([runs, fails, completes])
    assert fails.attempt is not None
    assert completes.attempt is not None
    finish(fails.attempt, exit_code=3)
    finish(completes.attempt, exit_code=0)
    completes.refresh_from_db()
    told = explain(completes, acme.owner)
    assert told is not None
    assert (told.kind, told.code) == ("done", "completed")
    assert f"Its logs: chamber logs {completes.slug}." in told.next_step
    fails.refresh_from_db()

    assert explain(runs, acme.owner) is None
    reason = explain(fails, acme.owner)
    assert reason is not None
    assert (reason.kind, reason.code) == ("failed", "exit-code")


def test_one_that_was_preempted_for_good_tells_why(acme: Acme) -> None:
    victim = make_workload(acme.research, acme.owner, on_preemption="stop")
    run_cycle()
    run_pods([victim])
    preempt(victim)

    reason = explain(victim, acme.owner)

    assert reason is not None
    assert reason.code == "preempted"


@pytest.mark.parametrize(
    ("eta", "words"),
    [
        (Eta(why="Too little has a limit."), "not known: too little has a limit."),
        (Eta(ms(40)), "in about 40 min at the earliest"),
        (Eta(ms(40), ms(40)), "in about 40 min, at 12:40 UTC"),
        (Eta(ms(-5), ms(-5)), "any moment"),
        (Eta(ms(0)), "any moment at the earliest"),
        (Eta(ms(0), ms(180)), "within about 3 h"),
        (Eta(ms(20), ms(180)), "in 20 min to 3 h"),
        (Eta(ms(60 * 72)), "in about 3 d at the earliest"),
    ],
)
def test_an_eta_reads_as_a_time_a_range_or_unknown_and_why(eta: Eta, words: str) -> None:
    assert eta_in_words(eta, NOW) == words


def test_codes_read_as_words() -> None:
    assert label("waiting-for-gpus") == "Waiting for GPUs"
    assert label("no-matching-gpu-type") == "No matching GPU type"
    assert label("waiting-for-cpu") == "Waiting for CPU"
    assert label_inside("waiting-for-cpu") == "waiting for CPU"
    assert label_inside("gpu-broken") == "GPU broken"
    assert (
        Workload(reason_code="waiting-for-cpu").reason_words
        == in_words("waiting-for-cpu")
        == "Waiting for CPU"
    )


def test_another_process_explains_from_the_stored_cycle(acme: Acme) -> None:
    ahead, _ = behind(acme)
    here = explain(ahead, acme.outsider)

    last_cycle.forget()

    elsewhere = explain(ahead, acme.outsider)
    assert here is not None
    assert elsewhere is not None
    assert (elsewhere.code, elsewhere.position, elsewhere.starts_at) == (
        here.code,
        here.position,
        here.starts_at,
    )


def test_the_fragment_is_for_who_may_see_the_workload(acme: Acme, client: Client) -> None:
    workload = make_workload(acme.research, acme.owner, gpu_milli=8000)
    run_cycle()
    url = reverse("scheduling:explain", args=[workload.slug])

    client.force_login(acme.mate)
    answer = client.get(url, headers={"X-Chamber-Fragment": "1"})
    words = '<span title="larger-than-any-node">Larger than any node</span>'
    assert words in answer.content.decode()
    assert "<code>" not in answer.content.decode()
    assert "<html" not in answer.content.decode()
    assert "<html" in client.get(url).content.decode()

    client.force_login(acme.outsider)
    assert client.get(url).status_code == 404


def test_a_page_of_explanations_takes_one_query_however_many_there_are(
    acme: Acme, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    behind(acme)
    for _ in range(20):
        make_workload(acme.research, acme.owner, gpu_milli=4000, priority=10)
    run_cycle()
    waiting = list(Workload.objects.select_related("team").filter(status="pending"))
    explain(waiting[0], acme.owner)
    last = last_cycle.last()

    with django_assert_num_queries(1):
        found = explaining.explain_many(waiting, acme.owner, last=last)

    assert len(found) == len(waiting) > 20


def test_one_whose_pods_are_being_created_says_so_and_what_keeps_the_first_from_starting(acme: Acme) -> None:
    workload = make_workload(acme.research, acme.owner, gpu_milli=1000, max_retries=0)
    run_cycle()
    workload.refresh_from_db()
    assert workload.attempt is not None
    lifecycle.pods_created(workload.attempt.pk, timezone.now())
    workload.refresh_from_db()
    reason = explain(workload, acme.owner)
    assert reason is not None
    cluster = Cluster.objects.get().name
    assert (reason.code, reason.kind, reason.next_step) == ("pods-being-created", "wait", "Nothing to do.")
    assert f"Its pods are being created in the cluster {cluster} since " in reason.sentence

    words = {"index": 1, "node": "n", "state": "pending", "message": 'persistentvolumeclaim "data" not found'}
    Assignment.objects.update(pods=[{"index": 0, "node": "n", "state": "pending"}, words])
    reason = explain(workload, acme.owner)
    assert reason is not None
    assert reason.kind == "change"
    assert reason.sentence.endswith('Pod 1 is kept from starting: persistentvolumeclaim "data" not found.')
    Assignment.objects.update(pods=[{**words, "message": "It waits for its claim."}])
    reason = explain(workload, acme.owner)
    assert reason is not None
    assert reason.sentence.endswith("kept from starting: It waits for its claim.")

    until = {"until": "2026-11-24T12:05:00Z"}
    for cause, kind, step in (
        ("image-not-pulled", "change", "If that lasts, it ends as Failed at 12:05:00 UTC."),
        ("registry-unreachable", "wait", "it returns to the queue at 12:05:00 UTC at no charge"),
        ("quota-too-small", "change", "the cluster refuses it at 12:05:00 UTC, and it is tried again"),
        ("plan-quota", "wait", "`kubectl get pods -n NAMESPACE`. If that lasts, the cluster refuses it at"),
    ):
        Assignment.objects.update(pods=[{**words, "cause": cause, **until}])
        reason = explain(workload, acme.owner)
        assert reason is not None
        assert reason.kind == kind
        assert step in reason.next_step
    Workload.objects.update(max_retries=2)
    Assignment.objects.update(pods=[{**words, "cause": "image-not-pulled", **until}])
    workload.refresh_from_db()
    reason = explain(workload, acme.owner)
    assert reason is not None
    assert "it fails at 12:05:00 UTC and is tried again (2 retries left)" in reason.next_step


def test_what_no_node_can_hold_is_taken_with_the_reason_as_a_warning(acme: Acme, client: Client) -> None:
    known.forget()
    for small in make_nodes(acme.cluster, acme.pool, 2, gpus=2):
        small.devices.update(gpu_type="A100")
    client.force_login(acme.owner)
    body = {"name": "big", "team": "research", "image": "i", "gpus": 5, "pods": 2, "command": ["x"]}
    for changed, largest, example in (
        ({}, 4, "--pods 6 --gpus 2"),
        ({"gpu_types": ["A100"], "pods": 1, "gpus": 3}, 2, "--pods 2 --gpus 2"),
        ({"pods": 2, "min_pods": 1}, 4, "--pods 2 --gpus 4"),
    ):
        answer = client.post("/api/v1/workloads/", {**body, **changed}, content_type="application/json")
        assert answer.status_code == 201, answer.content
        told = answer.json()
        run_cycle()
        reason = explain(Workload.objects.get(slug=told["slug"]), acme.owner)
        assert reason is not None
        assert reason.code == "larger-than-any-node"
        assert told["warnings"] == [f"{reason.sentence} {reason.next_step}"]
        assert f"the largest node it may use has {largest}." in reason.sentence
        assert example in reason.next_step
    for fits in ({"gpus": 4}, {"gpus": 1}, {"gpus": 0.5, "pods": 1}):
        answer = client.post("/api/v1/workloads/", {**body, **fits}, content_type="application/json")
        assert answer.json()["warnings"] == [], answer.content
    form = {"team": "research", "name": "typed", "image": "i", "gpus": "9", "pods": "1", "tier": "low"}
    page = client.post(reverse("workloads:submit"), form, follow=True).content.decode()
    assert "typed: A pod asks for 9 GPUs, but the largest node it may use has 4." in page
    assert "--pods 3 --gpus 4" in page
