"""What is not known: while no cycle ends, and while a cluster with work on it is not heard, everything says so."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from pytest_django.fixtures import Settings

from agentlink.models import Cluster
from chamber import marks
from scheduling.cycle import cycle, lease
from scheduling.cycle.cycle import run_cycle
from scheduling.explain import silence
from scheduling.explain import workload as explaining
from scheduling.explain.allocations import pool_bars, queue_by_reason, team_bars
from scheduling.explain.queue import read_queue
from scheduling.models import Turn
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import run_pods
from teams.tests.factories import make_pool
from workloads.models import Workload
from workloads.tests.factories import make_workload

SINCE = timedelta(seconds=11)


def no_cycle_ends(since: timedelta = SINCE) -> None:
    """Have the last cycle have ended so long ago."""
    Turn.objects.update_or_create(pk=1, defaults={"looked_at": Now() - since})
    silence.forget()


def falls_silent(cluster: Cluster, seconds: float = 31) -> None:
    """Have the cluster's agent be last heard so long ago; no duty has marked it since."""
    Cluster.objects.filter(pk=cluster.pk).update(last_seen_at=timezone.now() - timedelta(seconds=seconds))
    silence.forget()


def body(client: Client, name: str, *args: str) -> str:
    answer = client.get(reverse(name, args=args))
    assert answer.status_code == 200
    return answer.content.decode()


# The scheduler


def test_before_the_first_cycle_nothing_was_decided(db: None) -> None:
    silence.forget()
    assert silence.look().scheduler == "The scheduler has not decided anything yet: no cycle has ended."


@pytest.mark.parametrize(("seconds", "undecided"), [(5, False), (11, True)])
def test_nothing_is_decided_once_no_cycle_has_ended_for_ten_seconds(
    acme: Acme, seconds: int, undecided: bool
) -> None:
    run_cycle()
    no_cycle_ends(timedelta(seconds=seconds))
    assert silence.look().undecided is undecided


def test_an_idle_organisation_is_not_silent(acme: Acme) -> None:
    run_cycle()
    no_cycle_ends()
    assert silence.look().undecided
    lease.forget()  # the process looks again after a while
    assert run_cycle() is None
    silence.forget()
    assert not silence.look()


def test_a_cycle_in_which_the_engine_fails_has_not_ended(acme: Acme, monkeypatch: pytest.MonkeyPatch) -> None:
    run_cycle()
    no_cycle_ends()
    make_workload(acme.research, acme.owner)

    def fail(picture: object) -> None:
        raise RuntimeError("engine")

    monkeypatch.setattr(cycle, "decide", fail)
    lease.forget()
    run_cycle()
    silence.forget()
    assert silence.look().undecided
    assert lease.is_mine()


def test_a_paused_pool_is_no_silence(acme: Acme) -> None:
    acme.pool.paused = True
    acme.pool.save()
    make_workload(acme.research, acme.owner)
    run_cycle()
    silence.forget()
    assert not silence.look()


def test_it_is_asked_once_a_second(acme: Acme, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    run_cycle()
    silence.forget()
    with django_assert_num_queries(1):
        silence.look()
    silence._kept = (float("inf"), silence.Silence())
    with django_assert_num_queries(0):
        silence.look()


# Who waits


def test_who_waits_is_counted_from_the_tables_while_nothing_is_decided(acme: Acme) -> None:
    make_workload(acme.research, acme.owner, gpu_milli=12_000, pods=1, slug="too-large")
    here = [make_workload(acme.research, acme.owner, gpu_milli=4000, priority=100) for _ in range(4)]
    run_cycle()
    gone = next(row for row in here if Workload.objects.get(pk=row.pk).status == "pending")
    no_cycle_ends()
    Workload.objects.filter(pk=gone.pk).update(status="cancelled", finished_at=timezone.now())
    make_workload(acme.production, acme.outsider, slug="undecided", gpu_milli=2000)
    make_workload(acme.production, acme.outsider, slug="on-hold", held=True)

    [pool] = pool_bars(acme.admin)
    assert (pool.waiting, pool.not_queued) == (3, 1)
    bars = {bar.team.slug: bar.waiting for bar in team_bars(acme.admin, acme.pool)}
    assert (bars["research"].workloads, bars["research"].milli) == (2, 16_000)
    assert (bars["production"].workloads, bars["production"].milli) == (1, 2_000)
    assert bars["acme"].workloads == 3
    reasons = {row.code: row.count for row in queue_by_reason(acme.admin)}
    assert reasons["not-decided-yet"] == 2
    queue = read_queue(acme.admin, acme.pool)
    assert (queue.waiting, queue.outside, queue.held) == (3, 1, 1)
    assert [row.workload.slug for row in queue.rows if row.workload][-2:] == ["undecided", "on-hold"]
    assert gone.slug not in [row.workload.slug for row in queue.rows if row.workload]


def test_who_was_shut_out_and_has_gone_since_is_not_counted_while_nothing_is_decided(acme: Acme) -> None:
    Cluster.objects.update(connected=False)
    gone, _ = (make_workload(acme.research, acme.owner, gpu_milli=4000) for _ in range(2))
    run_cycle()
    no_cycle_ends()
    Workload.objects.filter(pk=gone.pk).update(status="cancelled", finished_at=timezone.now())

    [pool] = pool_bars(acme.admin)
    assert pool.waiting == 1
    bars = {bar.team.slug: bar.waiting for bar in team_bars(acme.admin, acme.pool)}
    assert (bars["research"].workloads, bars["research"].milli) == (1, 4_000)


def test_holds_of_the_tables_count_while_nothing_is_decided(acme: Acme) -> None:
    Cluster.objects.update(connected=False)
    waits, on_hold = (make_workload(acme.research, acme.owner, held=held) for held in (False, True))
    run_cycle()
    no_cycle_ends()
    Workload.objects.filter(pk=on_hold.pk).update(held=False)

    def told() -> tuple[int, int]:
        [pool] = pool_bars(acme.admin)
        return pool.waiting, read_queue(acme.admin, acme.pool).waiting

    assert told() == (2, 2)
    Workload.objects.filter(pk=waits.pk).update(held=True)
    assert told() == (1, 1)


def test_one_that_no_cycle_has_looked_at_waits_in_the_pools_that_it_accepts(acme: Acme) -> None:
    other = make_pool("Other")
    run_cycle()
    make_workload(acme.research, acme.owner, pool_choice=[str(acme.pool.pk)])
    make_workload(acme.research, acme.owner)
    assert {bar.pool.slug: bar.waiting for bar in pool_bars(acme.admin)} == {"main": 2, "other": 1}
    assert read_queue(acme.admin, other).waiting == 1


def test_pages_say_since_when_nothing_was_decided(acme: Acme, client: Client) -> None:
    run_cycle()
    no_cycle_ends()
    for number in range(25):
        make_workload(acme.research, acme.owner, slug=f"undecided-{number}")
    client.force_login(acme.admin)
    sentence = silence.look().scheduler
    assert sentence.startswith("The scheduler has decided nothing since ")
    for name in (
        "chamber:overview",
        "scheduling:queue",
        "workloads:list",
        "workloads:submit",
        "teams:tree",
        "agentlink:pools",
    ):
        assert sentence in body(client, name), name
    overview = body(client, "chamber:overview")
    assert "25 workloads are pending; what is submitted now may wait too" in overview
    assert "Nothing waits" not in overview
    assert "Not decided yet" in overview
    assert "25 waiting" in overview
    assert "starts as soon as it fits" not in body(client, "scheduling:queue")
    assert "undecided-3" in body(client, "scheduling:queue")


def test_an_empty_queue_promises_no_start_while_nothing_is_decided(acme: Acme, client: Client) -> None:
    run_cycle()
    client.force_login(acme.admin)
    assert "starts as soon as it fits" in body(client, "scheduling:queue")
    no_cycle_ends()
    assert "starts as soon as it fits" not in body(client, "scheduling:queue")


def test_why_promises_no_start_while_nothing_is_decided(acme: Acme, client: Client) -> None:
    waits = [
        make_workload(acme.research, acme.owner, gpu_milli=4000, time_limit_seconds=60) for _ in range(4)
    ]
    run_cycle()
    [blocked] = Workload.objects.filter(pk__in=[row.pk for row in waits], status="pending")
    fresh = make_workload(acme.research, acme.owner)
    before, new = explaining.explain(blocked, acme.owner), explaining.explain(fresh, acme.owner)
    assert before is not None
    assert (before.position, new) == (1, explaining.NOT_LOOKED_AT)
    [kept] = read_queue(acme.owner, acme.pool).kept
    assert kept.at is not None
    no_cycle_ends()
    stale, undecided = explaining.explain(blocked, acme.owner), explaining.explain(fresh, acme.owner)
    assert stale is not None
    assert (stale.position, stale.starts_at, stale.starts_by) == (None, None, None)
    assert stale.eta == "not known"
    assert before.sentence in stale.sentence
    assert (stale.kind, stale.next_step) == ("admin", silence.CALL_AN_OPERATOR)
    assert [kept.at for kept in read_queue(acme.owner, acme.pool).kept] == [None]
    assert undecided is not None
    assert (undecided.code, undecided.kind) == ("scheduler-silent", "admin")
    assert "within seconds" not in undecided.next_step


def test_open_pages_are_told_of_newcomers_while_no_cycle_tells_them(acme: Acme) -> None:
    run_cycle()
    no_cycle_ends()
    before = silence.mark()
    make_workload(acme.research, acme.owner)
    silence.forget()
    assert silence.mark() != before


# Clusters


@pytest.mark.parametrize(("seconds", "silent"), [(20, False), (31, True)])
def test_a_cluster_with_work_that_is_not_heard_is_told_of_whatever_a_duty_has_marked(
    acme: Acme, seconds: int, silent: bool
) -> None:
    make_workload(acme.research, acme.owner)
    run_cycle()
    falls_silent(acme.cluster, seconds)
    assert bool(silence.look().clusters) is silent


def test_a_cluster_without_work_is_silent_for_nobody(acme: Acme) -> None:
    marks.part_lives("live", now=timezone.now())
    run_cycle()
    falls_silent(acme.cluster)
    assert not silence.look()


def test_no_agent_is_blamed_while_nothing_runs_to_which_agents_connect(
    acme: Acme, client: Client, settings: Settings
) -> None:
    runs = make_workload(acme.research, acme.owner, gpu_milli=4000)
    run_cycle()
    falls_silent(acme.cluster)
    Cluster.objects.update(connected=False)
    waits = make_workload(acme.research, acme.owner)
    run_cycle()
    runs.refresh_from_db()

    def steps() -> list[str]:
        silence.forget()
        settings.REDIS = "redis://nobody.invalid/0"  # else one process is all parts
        unknown = silence.look()
        settings.REDIS = ""
        silence._kept = (float("inf"), unknown)
        told = [explaining.explain(Workload.objects.get(pk=each.pk), acme.owner) for each in (runs, waits)]
        return [reason.next_step for reason in told if reason is not None]

    told = steps()
    assert len(told) == 2
    assert all(step.startswith(silence.START_LIVE) for step in told)
    client.force_login(acme.admin)
    assert "chamber serve --part live" in body(client, "chamber:overview")
    marks.part_lives("live", now=timezone.now())
    running, pending = steps()
    assert running.startswith("Ask an operator to look after the cluster east: ")
    assert pending == "Ask an admin to reconnect them."


def test_of_work_in_a_silent_cluster_pages_say_when_it_was_last_seen(acme: Acme, client: Client) -> None:
    workload = make_workload(acme.research, acme.owner, slug="runs-on")
    run_cycle()
    run_pods([workload])
    workload.refresh_from_db()
    assert explaining.explain(workload, acme.owner) is None
    falls_silent(acme.cluster)
    reason = explaining.explain(workload, acme.owner)
    assert reason is not None
    assert reason.code == "cluster-offline"
    assert reason.sentence.endswith("what it does since is not known.")
    client.force_login(acme.admin)
    [silent] = silence.look().clusters
    for name, *args in (
        ("chamber:overview",),
        ("workloads:detail", "runs-on"),
        ("agentlink:workload-logs", "runs-on"),
        ("workloads:list",),
        ("agentlink:cluster", "east"),
    ):
        assert silent.sentence in body(client, name, *args), name
    assert "Connected" not in body(client, "agentlink:cluster", "east")
    assert reason.sentence in body(client, "scheduling:explain", "runs-on")
    assert reverse("scheduling:explain", args=["runs-on"]) in body(client, "workloads:detail", "runs-on")
