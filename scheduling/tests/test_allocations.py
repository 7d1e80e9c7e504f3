"""Bars of pools and teams, from the tables."""

from datetime import timedelta

from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from agentlink.models import Cluster, Device, Node
from scheduling.cycle.cycle import run_cycle
from scheduling.explain.allocations import TeamBar, pool_bars, queue_by_reason, team_bars
from scheduling.explain.queue import read_queue
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import pods_gone, run_pods
from teams.capacity import capacity_milli
from teams.permissions import roles_by_path
from workloads import known
from workloads.models import Attempt, Workload
from workloads.tests.factories import make_workload


def bars_by_team(acme: Acme) -> dict[str, TeamBar]:
    return {bar.team.slug: bar for bar in team_bars(acme.admin, acme.pool)}


def test_a_pool_is_divided_into_reserved_elastic_in_guarantee_burst_idle_and_unavailable(acme: Acme) -> None:
    Node.objects.filter(name="n3").update(cordoned=True)
    make_workload(acme.production, acme.outsider, gpu_milli=2000, priority=100)
    make_workload(acme.production, acme.outsider, gpu_milli=2000)
    make_workload(acme.production, acme.outsider, gpu_milli=1000)
    run_cycle()

    (bar,) = pool_bars(acme.owner)

    assert (bar.capacity_milli, bar.unavailable_milli) == (12_000, 4_000)
    assert (bar.reserved_milli, bar.elastic_milli, bar.burst_milli) == (2_000, 2_000, 1_000)
    assert bar.idle_milli == 3_000


def test_slices_count_by_their_share(acme: Acme) -> None:
    cut = Device.objects.filter(node__name="n3")
    cut.update(slicing="mig", share_milli=143, gpu_type="mig-1g.10gb")
    Device.objects.filter(node__name="n3", index=0).update(foreign=True)

    (bar,) = pool_bars(acme.owner)

    assert (bar.capacity_milli, bar.unavailable_milli) == (8_000 + 4 * 143, 143)
    assert (bar.slices, bar.slices_milli) == (4, 572)
    assert bar.devices == "8 GPUs and 4 slices worth 0.572 GPUs"
    assert bars_by_team(acme)["research"].pool_milli == bar.capacity_milli
    assert capacity_milli([acme.pool]) == {acme.pool.pk: 8_000 + 3 * 143}


def test_slices_that_a_team_holds_are_told_apart(acme: Acme, client: Client) -> None:
    Device.objects.filter(node__name="n3").update(slicing="mig", share_milli=143, gpu_type="mig-1g.10gb")
    known.forget()
    make_workload(acme.research, acme.owner, pods=3, gpu_milli=1000, gpu_types=["mig-1g.10gb"])
    make_workload(acme.research, acme.owner, gpu_milli=2000)
    run_cycle()

    bars = bars_by_team(acme)

    assert [bars[slug].in_use for slug in ("research", "acme", "production")] == [
        "2 GPUs and 3 slices worth 0.429 GPUs",
        "2 GPUs and 3 slices worth 0.429 GPUs",
        "0 GPUs",
    ]
    client.force_login(acme.admin)
    page = client.get(reverse("scheduling:team-figures"), {"pool": "main"}).content.decode()
    assert "2 GPUs and 3 slices worth 0.429 GPUs in use" in page
    assert "of 8 GPUs and 4 slices worth 0.572 GPUs" in page
    rows = client.get("/api/v1/teams-figures/?pool=main").json()["results"]
    told = {row["team"]: (row["in_use"], row["slices"], row["slice_gpus"]) for row in rows}
    assert told == {"acme": (2.429, 3, 0.429), "research": (2.429, 3, 0.429), "production": (0, 0, 0)}
    overview = client.get(reverse("chamber:overview")).content.decode()
    assert "2.429 of 8.572 in use (8 GPUs and 4 slices worth 0.572 GPUs)" in overview
    assert "8.572 GPUs" not in overview


def test_who_waits_for_slices_waits_for_their_share(acme: Acme) -> None:
    Device.objects.filter(node__name="n3").update(slicing="mig", share_milli=143, gpu_type="mig-1g.10gb")
    known.forget()
    for types in (["mig-1g.10gb"], []):
        make_workload(acme.production, acme.outsider, pods=4, gpu_types=types, reason_code="waiting-for-gpus")

    (count,) = queue_by_reason(acme.admin)
    waiting = bars_by_team(acme)["production"].waiting

    assert (count.count, count.milli) == (2, 4 * 143 + 4_000)
    assert (waiting.workloads, waiting.milli) == (2, 4 * 143 + 4_000), "also of whom no cycle has told"


def test_gpus_that_the_preempted_have_not_given_back_and_nobody_was_promised_are_unavailable(
    acme: Acme,
) -> None:
    victim = make_workload(acme.production, acme.outsider, gpu_milli=4000, pods=3)
    run_cycle()
    run_pods([victim])
    make_workload(acme.research, acme.owner, gpu_milli=4000, priority=100)
    run_cycle()

    (bar,) = pool_bars(acme.owner)
    assert (bar.reserved_milli, bar.unavailable_milli, bar.idle_milli) == (4_000, 8_000, 0)

    pods_gone(Attempt.objects.filter(workload=victim))
    (bar,) = pool_bars(acme.owner)
    assert (bar.reserved_milli, bar.unavailable_milli, bar.idle_milli) == (4_000, 0, 8_000)


def test_a_team_counts_what_is_below_it_and_bursts_beyond_its_own_guarantee(acme: Acme) -> None:
    make_workload(acme.production, acme.outsider, gpu_milli=4000)
    make_workload(acme.production, acme.outsider, gpu_milli=4000)
    make_workload(acme.research, acme.owner, gpu_milli=8000)
    run_cycle()

    bars = bars_by_team(acme)

    production, root = bars["production"], bars["acme"]
    assert (production.use.elastic_milli, production.use.burst_milli) == (4_000, 4_000)
    assert (root.use.elastic_milli, root.use.burst_milli) == (4_000, 4_000)
    assert (production.limits.guarantee_milli, root.limits.guarantee_milli) == (4_000, 12_000)
    # A pod of 8 GPUs fits no node of 4, so it stands in no queue.
    assert (bars["research"].waiting.workloads, bars["research"].waiting.not_queued) == (1, 1)


def test_who_waits_is_counted_for_the_team_and_all_above_it(acme: Acme) -> None:
    for _ in range(4):
        make_workload(acme.research, acme.owner, gpu_milli=4000, priority=100)
    run_cycle()

    bars = bars_by_team(acme)

    assert (bars["research"].waiting.workloads, bars["research"].waiting.milli) == (2, 8_000)
    assert bars["acme"].waiting.workloads == 2
    assert bars["production"].waiting.workloads == 0
    (pool,) = pool_bars(acme.admin)
    assert pool.waiting == 2


def test_who_waits_for_a_paused_pool_is_counted_in_it(acme: Acme) -> None:
    acme.pool.paused = True
    acme.pool.save(update_fields=["paused"])
    make_workload(acme.production, acme.outsider, held=True)
    for _ in range(2):
        make_workload(acme.research, acme.owner, gpu_milli=4000)
    for _ in range(3):
        make_workload(acme.research, acme.owner, gpu_milli=8000)  # no node has so many
    run_cycle()

    (pool,) = pool_bars(acme.admin)

    assert (pool.waiting, pool.not_queued) == (5, 5)
    told = {row.code: row.count for row in queue_by_reason(acme.admin)}
    assert (told["pool-paused"], told["larger-than-any-node"]) == (2, 3)
    waiting = {slug: (bar.waiting.workloads, bar.waiting.milli) for slug, bar in bars_by_team(acme).items()}
    assert waiting == {"acme": (5, 32_000), "research": (5, 32_000), "production": (0, 0)}


def test_who_waits_for_clusters_that_are_away_is_counted_in_their_pool(acme: Acme) -> None:
    running = make_workload(acme.production, acme.outsider, gpu_milli=4000)
    run_cycle()
    Cluster.objects.update(connected=False)
    make_workload(acme.production, acme.outsider, held=True)
    for _ in range(2):
        make_workload(acme.research, acme.owner, gpu_milli=4000)
    make_workload(acme.research, acme.owner, gpu_milli=8000)  # no node has so many
    run_cycle()

    (pool,) = pool_bars(acme.admin)

    assert (pool.waiting, pool.not_queued) == (3, 3)
    assert {row.code: row.count for row in queue_by_reason(acme.admin)}["cluster-offline"] == 2
    waiting = {slug: (bar.waiting.workloads, bar.waiting.milli) for slug, bar in bars_by_team(acme).items()}
    assert waiting == {"acme": (3, 16_000), "research": (3, 16_000), "production": (0, 0)}
    running.refresh_from_db()
    assert running.is_open


def test_every_place_counts_the_same_that_wait_whatever_they_wait_for(acme: Acme, client: Client) -> None:
    make_workload(acme.production, acme.outsider, held=True)
    make_workload(acme.research, acme.owner, backoff_until=timezone.now() + timedelta(hours=1))
    make_workload(acme.research, acme.owner, gpu_milli=8000, pool_choice=[str(acme.pool.pk)])
    for _ in range(2):
        make_workload(acme.research, acme.owner, gpu_milli=1000)
    Node.objects.update(gone_at=timezone.now())
    run_cycle()

    (pool,) = pool_bars(acme.admin)
    queue = read_queue(acme.admin, acme.pool)
    root = bars_by_team(acme)["acme"].waiting

    pending = Workload.objects.filter(status="pending", held=False).count()
    assert pending == pool.waiting == queue.waiting == root.workloads == 4
    assert pool.not_queued == queue.outside == root.not_queued
    assert (queue.held, len(queue.rows)) == (1, 5)
    client.force_login(acme.admin)
    overview = client.get(reverse("chamber:overview")).content.decode()
    assert f"4 waiting, {pool.not_queued} of them not in the queue" in overview


def test_reasons_are_counted_only_of_workloads_that_the_viewer_may_see(acme: Acme) -> None:
    for _ in range(3):
        make_workload(acme.research, acme.owner, gpu_milli=8000)
    make_workload(acme.production, acme.outsider, held=True)
    run_cycle()

    (large,) = queue_by_reason(acme.owner)
    assert (large.code, large.count, large.milli, large.kind) == ("larger-than-any-node", 3, 24_000, "change")
    assert large.label == "Larger than any node"
    assert [row.code for row in queue_by_reason(acme.admin)] == ["larger-than-any-node", "held"]


def test_a_stranger_sees_no_pool_and_no_team(acme: Acme) -> None:
    run_cycle()

    assert pool_bars(acme.stranger) == []
    assert team_bars(acme.stranger, acme.pool) == []


def test_bars_take_as_many_queries_for_many_workloads_as_for_few(
    acme: Acme, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for count in (2, 8):
        for _ in range(count):
            make_workload(acme.research, acme.owner, gpu_milli=250)
        run_cycle()
        roles_by_path(acme.owner)
        with django_assert_num_queries(5):
            pool_bars(acme.owner)
        with django_assert_num_queries(5):
            team_bars(acme.owner, acme.pool)
