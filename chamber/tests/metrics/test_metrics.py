"""The page that Prometheus reads: who may, what stands on it, and what it costs."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from pytest_django.fixtures import Settings

from agentlink.models import Cluster, Device, GpuUse, Node
from chamber import marks
from chamber.metrics import tables, totals
from scheduling.cycle.cycle import run_cycle
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import run_pods
from teams.tests.factories import make_team
from workloads.models import Attempt, Workload
from workloads.tests.factories import make_workload

pytestmark = pytest.mark.django_db
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(client: Client, **headers: str) -> Samples:
    """Return every sample by name and labels."""
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.content
    found: Samples = {}
    for family in text_string_to_metric_families(answer.content.decode()):
        assert family.documentation.endswith("."), family.name
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, f"{key} comes twice"
            found[key] = sample.value
    return found


def value(found: Samples, name: str, **labels: str) -> float:
    return found[f"chamber_{name}", tuple(sorted(labels.items()))]


def names(found: Samples) -> set[str]:
    return {name for name, _ in found}


def test_teams_as_the_tables_and_the_last_cycle_have_them(client: Client, acme: Acme) -> None:
    run_cycle()
    make_workload(acme.research, acme.owner, gpu_milli=4000, pods=2, min_pods=2, priority=100)
    make_workload(acme.production, acme.outsider, gpu_milli=1000, pods=6, min_pods=1)
    run_cycle()
    found = scrape(client)
    research, production = ({"team": team.slug, "pool": "main"} for team in (acme.research, acme.production))
    assert value(found, "team_guarantee_gpus", **research) == 8
    assert value(found, "team_in_use_gpus", **research) == 8
    assert value(found, "team_burst_gpus", **research) == 0
    assert value(found, "team_in_use_gpus", **production) == 4
    assert value(found, "team_entitlement_gpus", **production) == 4
    assert value(found, "team_in_use_gpus", team=acme.root.slug, pool="main") == 12


def test_burst_and_what_waits(client: Client, acme: Acme) -> None:
    for _ in range(15):
        make_workload(acme.production, acme.outsider)
    run_cycle()
    found = scrape(client)
    production = {"team": acme.production.slug, "pool": "main"}
    assert value(found, "team_burst_gpus", **production) == 8
    assert value(found, "team_pending_gpus", **production) == 3
    assert value(found, "workloads_pending", reason="waiting-for-gpus") == 3
    assert value(found, "workloads", status="pending") == 3
    assert value(found, "workloads", status="queued") == 12
    assert value(found, "workloads", status="running") == 0


def test_who_no_cycle_has_looked_at_waits_for_a_decision(client: Client, acme: Acme) -> None:
    make_workload(acme.research, acme.owner)
    assert value(scrape(client), "workloads_pending", reason="not-decided-yet") == 1


def test_a_team_that_has_and_wants_nothing_is_left_out(client: Client, acme: Acme) -> None:
    make_team(acme.root, "Idle")
    run_cycle()
    assert not any(("team", "idle") in labels for _, labels in scrape(client))


def test_gpus_that_are_held_and_idle_by_team_with_all_above_it(client: Client, acme: Acme) -> None:
    for gpu_milli in (4000, 1000):
        make_workload(acme.research, acme.owner, gpu_milli=gpu_milli)
    run_cycle()
    now = timezone.now()
    for attempt, age in zip(Attempt.objects.order_by("-gpus_milli"), (1, 6), strict=True):
        at = now - timedelta(minutes=age)
        idle = {"idle_milli": 1500, "idle_since": at - timedelta(hours=1)}
        GpuUse.objects.create(attempt=attempt, at=at, gpus=4, busy_percent=9, memory_mib=1, **idle)
    found = scrape(client)
    for team in (acme.research, acme.root):
        assert value(found, "team_idle_gpus", team=team.slug, pool="main") == 1.5
    assert value(found, "pool_workloads_idle", pool="main") == 1
    assert not any(("team", acme.production.slug) in labels for name, labels in found if "idle_gpus" in name)


def test_pools_with_what_is_idle_and_what_nobody_can_get(client: Client, acme: Acme) -> None:
    make_workload(acme.research, acme.owner, gpu_milli=500)
    run_cycle()
    taken = Device.objects.get(allocated_milli=500).node_id
    cordoned = Node.objects.exclude(pk=taken).order_by("pk")[0]
    Node.objects.filter(pk=cordoned.pk).update(cordoned=True)
    found = scrape(client)
    assert value(found, "pool_gpus", pool="main") == 12
    assert value(found, "pool_in_use_gpus", pool="main") == 0.5
    assert value(found, "pool_unavailable_gpus", pool="main") == 4
    assert value(found, "pool_idle_gpus", pool="main") == 7.5
    assert value(found, "pool_largest_free_block_gpus", pool="main") == 4
    assert value(found, "pool_fragmentation_ratio", pool="main") >= 0


def test_slices_of_a_pool_are_told_apart(client: Client, acme: Acme) -> None:
    cut = Device.objects.filter(node__name="n3")
    cut.update(slicing="mig", share_milli=143, gpu_type="mig-1g.10gb")
    found = scrape(client)
    whole = 12 - cut.count()
    assert value(found, "pool_gpus", pool="main") == pytest.approx(whole + 0.143 * cut.count())
    assert value(found, "pool_whole_gpus", pool="main") == whole
    assert value(found, "pool_slices", pool="main", gpu_type="mig-1g.10gb") == cut.count()
    assert value(found, "pool_slice_gpus", pool="main", gpu_type="mig-1g.10gb") == pytest.approx(0.572)
    assert value(found, "pool_largest_free_block_gpus", pool="main") == 4


def test_waits_preemptions_and_cycles_are_counted(client: Client, acme: Acme) -> None:
    elastic = [make_workload(acme.research, acme.owner, job_class="training") for _ in range(12)]
    Workload.objects.update(status_since=timezone.now() - timedelta(seconds=100))
    run_cycle()
    run_pods(elastic)
    make_workload(acme.production, acme.outsider, gpu_milli=4000, priority=100)
    run_cycle()
    totals.add_up()
    found = scrape(client)
    burst = {"charge": "burst", "job_class": "training"}
    assert value(found, "workload_wait_seconds_count", **burst) == 4
    assert value(found, "workload_wait_seconds_bucket", **burst, le="60.0") == 0
    assert value(found, "workload_wait_seconds_bucket", **burst, le="300.0") == 4
    assert value(found, "workload_wait_seconds_bucket", **burst, le="+Inf") == 4
    assert value(found, "preemptions_total", rule="reserved", level=acme.root.slug) == 4
    assert value(found, "preemption_lost_gpu_seconds_total", rule="reserved", level=acme.root.slug) >= 0
    assert value(found, "cycle_duration_seconds_count") == 2
    assert value(found, "cycle_decisions_total") == 17
    assert value(found, "cycle_last_success_timestamp_seconds") > timezone.now().timestamp() - 60


def test_the_link_of_each_cluster(client: Client, acme: Acme) -> None:
    seen = timezone.now() - timedelta(seconds=90)
    Cluster.objects.update(
        connected=False, last_seen_at=seen, desired_generation=9, seen_generation=7, rejected_messages=3
    )
    Cluster.objects.create(name="new")
    Cluster.objects.create(name="released", released_at=seen, last_seen_at=seen)
    found = scrape(client)
    assert ("chamber_cluster_connected", (("cluster", "released"),)) not in found
    assert value(found, "cluster_connected", cluster="east") == 0
    assert 90 <= value(found, "cluster_lag_seconds", cluster="east") < 120
    assert value(found, "cluster_generations_behind", cluster="east") == 2
    assert value(found, "cluster_rejected_messages_total", cluster="east") == 3
    assert ("chamber_cluster_lag_seconds", (("cluster", "new"),)) not in found


def test_marks_of_beat_and_workers(client: Client) -> None:
    marks.beaten(now=timezone.now())
    totals.add_up()
    found = scrape(client)
    recent = timezone.now().timestamp() - 60
    assert value(found, "beat_last_seen_timestamp_seconds") > recent
    assert value(found, "worker_last_seen_timestamp_seconds", queue="duties") > recent


def test_without_the_database_it_says_so_and_what_it_knows(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Any:
        raise DatabaseError("gone")

    monkeypatch.setattr(tables.LabelNames, "read", broken)
    found = scrape(client)
    assert value(found, "database_up") == 0
    assert "chamber_build_info" in names(found)


def test_a_constant_number_of_queries(client: Client, acme: Acme) -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            scrape(client)
        return len(queries)

    before = count()
    for number in range(5):
        team = make_team(acme.root, f"Team {number}")
        make_workload(team, acme.owner)
        Cluster.objects.create(name=f"c{number}")
    run_cycle()
    totals.add_up()
    assert count() == before == 17


def test_labels_come_back_as_they_were_written(client: Client, acme: Acme) -> None:
    acme.pool.slug = 'a "quoted" \\ name'
    acme.pool.save(update_fields=["slug"])
    run_cycle()
    assert value(scrape(client), "team_guarantee_gpus", team=acme.research.slug, pool=acme.pool.slug) == 8


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_without_a_token_a_program_on_the_machine_may_read(client: Client, address: str) -> None:
    assert client.get("/metrics", REMOTE_ADDR=address).status_code == 200


@pytest.mark.parametrize("address", ["10.0.0.7", "2001:db8::1", ""])
def test_without_a_token_nobody_else_may(client: Client, address: str) -> None:
    assert client.get("/metrics", REMOTE_ADDR=address).status_code == 403


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
def test_what_a_proxy_on_the_machine_passes_on_does_not_come_from_it(client: Client, header: str) -> None:
    assert client.get("/metrics", headers={header: "127.0.0.1"}).status_code == 403


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", "Basic secret", "Bearer sécret"])
def test_with_a_token_set_nobody_may_read_without_it(client: Client, settings: Settings, given: str) -> None:
    settings.METRICS_TOKEN = "secret"
    answer = client.get("/metrics", headers={"Authorization": given})
    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, 'Bearer realm="metrics"')


def test_with_the_token_it_may_be_read_from_anywhere(client: Client, settings: Settings) -> None:
    settings.METRICS_TOKEN = "secret"
    answer = client.get("/metrics", headers={"Authorization": "bearer secret"}, REMOTE_ADDR="10.0.0.7")
    assert answer.status_code == 200
