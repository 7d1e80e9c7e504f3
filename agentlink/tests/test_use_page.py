"""What a workload makes of its GPUs on pages and over the API: its chart, what stands idle, and who may see it."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agentlink.models import Assignment, Cluster, Device, GpuUse, GpuUseSample
from agentlink.tests.factories import make_cluster, make_node, place
from chamber.models import User
from teams.models import Pool, Role, Team
from teams.tests.factories import make_org, make_pool, make_team, member
from workloads.models import Attempt, Checkpoint, Workload
from workloads.tests.factories import finish, make_workload, start

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


@pytest.fixture
def org() -> Team:
    return make_org()


@pytest.fixture
def team(org: Team) -> Team:
    return make_team(org, "NLP")


@pytest.fixture
def ada(team: Team) -> User:
    return member(team, Role.RESEARCHER, "ada")


@pytest.fixture
def pool() -> Pool:
    return make_pool("Main")


@pytest.fixture
def cluster(pool: Pool) -> Cluster:
    cluster = make_cluster()
    make_node(cluster, "n0", gpus=4, pool=pool)
    return cluster


@pytest.fixture
def running(team: Team, ada: User, pool: Pool, cluster: Cluster) -> Workload:
    """Return a workload that has run for an hour."""
    workload = make_workload(team, ada, name="train", slug="train-1", gpu_milli=2000)
    attempt = start(workload, pool, at=timezone.now() - 60 * MINUTE)
    place(attempt, cluster.nodes.get(), 0)
    Assignment.objects.create(attempt=attempt, cluster=cluster, generation=1, let_go=True)
    return workload


@pytest.fixture
def reader(client: Client, ada: User) -> Client:
    client.force_login(ada)
    return client


def attempt_of(workload: Workload) -> Attempt:
    attempt = workload.attempts.get()
    assert isinstance(attempt, Attempt)
    return attempt


def measured(workload: Workload, *busy: int, **fields: Any) -> None:
    """Store a sample for each of the last minutes, the latest last."""
    now = timezone.now().replace(second=0, microsecond=0)
    GpuUseSample.objects.bulk_create(
        GpuUseSample(
            attempt=attempt_of(workload),
            minute=now - (len(busy) - number) * MINUTE,
            gpus=2,
            busy_percent=percent,
            memory_mib=81_920,
            **fields,
        )
        for number, percent in enumerate(busy)
    )


def told(workload: Workload, *, idle_milli: int = 0, ago: timedelta = MINUTE, **fields: Any) -> GpuUse:
    """Store how it is now."""
    at = timezone.now() - ago
    return GpuUse.objects.create(
        attempt=attempt_of(workload),
        at=at,
        gpus=2,
        busy_percent=fields.pop("busy_percent", 63),
        memory_mib=131_072,
        idle_milli=idle_milli,
        idle_since=at - 40 * MINUTE if idle_milli else None,
        **fields,
    )


def shown(reader: Client, path: str = "/workloads/train-1/use/", **headers: str) -> str:
    answer = reader.get(path, headers=headers)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_workloads_page_asks_for_it_once_there_is_an_attempt(
    reader: Client, running: Workload, team: Team, ada: User
) -> None:
    assert 'hx-get="/workloads/train-1/use/"' in shown(reader, "/workloads/train-1/")
    waiting = make_workload(team, ada)
    assert "/use/" not in shown(reader, f"/workloads/{waiting.slug}/")


def test_what_was_measured_of_slices_is_told_as_slices(
    reader: Client, running: Workload, cluster: Cluster
) -> None:
    """Whether its pods name them or not: a part of a GPU may be a replica."""
    running.attempt.placements.update(share_milli=250)  # type: ignore[union-attr]  # it runs
    Device.objects.filter(node__cluster=cluster).update(slicing="replicas", share_milli=250)
    told(running)
    assert "63 <small>% of 2 slices<" in shown(reader), "of which one is not known any more"
    place(attempt_of(running), cluster.nodes.get(), 1, share=250)
    assert "63 <small>% of 2 slices worth 0.5 GPUs<" in shown(reader)
    Device.objects.filter(index=0).update(slicing="whole", share_milli=1000)
    assert "63 <small>% of 1 GPU and 1 slice worth 0.25 GPUs<" in shown(reader)


def test_it_shows_how_it_is_and_was_with_a_table_behind_the_picture(
    reader: Client, running: Workload
) -> None:
    measured(running, 40, 80, tensor_percent=25, power_watts=1234)
    told(running, tensor_percent=31, power_watts=900)
    page = shown(reader)
    assert "<title>GPU use of train-1" in page
    for words in (
        "63 <small>% of 2 GPUs",
        "31 <small>%",
        "128.0 GiB",
        "900 W",
        "60 % busy in the mean",
        "80 % at most",
    ):
        assert words in page, words
    assert page.count('class="use-hit"') == 2
    assert page.count('<td class="num">1.2 kW</td>') == 2
    # A minute of life is all that there is to look at: nothing to choose, and no hour is spoken of.
    assert "1 hour" not in page
    edges = re.search(r"at most, from (.{12}) to (.{12}) UTC", page)
    assert edges is not None
    began, ended = (datetime.strptime(f"2028 {edge} +0000", "%Y %d %b %H:%M %z") for edge in edges.groups())
    assert (ended - began) % timedelta(days=366) == 10 * MINUTE


def test_a_part_of_it_is_the_section_alone_and_keeps_its_window(reader: Client, running: Workload) -> None:
    measured(running, 40)
    GpuUseSample.objects.update(minute=timezone.now() - timedelta(hours=30))
    part = shown(reader, "/workloads/train-1/use/?within=24h", **{"HX-Request": "true"})
    assert part.strip().startswith('<section class="panel" id="gpu-use"')
    assert 'data-live-url="/workloads/train-1/use/?within=24h"' in part
    assert f'data-live="workload:{running.pk}"' in part
    assert 'aria-current="true">24 hours</a>' in part
    assert ">1 hour</a>" in part
    assert 'within=all">All of it</a>' in part.replace('" hx-target="#gpu-use" hx-swap="outerHTML', "")
    assert "30 days" not in part


def test_what_is_not_known_is_left_out(reader: Client, running: Workload) -> None:
    measured(running, 40)
    told(running)
    page = shown(reader)
    assert "Tensor cores</dt>" not in page
    assert "Power</dt>" not in page
    assert 'class="use-tensor"' not in page


def test_idle_gpus_are_warned_of(reader: Client, running: Workload) -> None:
    told(running, idle_milli=1000, busy_percent=2)
    assert "1 GPU has stood idle for" in shown(reader)
    GpuUse.objects.update(idle_milli=2000)
    assert "2 GPUs have stood idle for" in shown(reader)


def test_an_old_figure_says_nothing_of_now(reader: Client, running: Workload) -> None:
    told(running, idle_milli=1000, ago=6 * MINUTE)
    page = shown(reader)
    assert "Busy now" not in page
    assert "stood idle" not in page


def test_without_figures_it_says_why(reader: Client, running: Workload, cluster: Cluster) -> None:
    assert "nobody measures the GPUs of this cluster" in shown(reader)
    other = make_workload(running.team, running.owner)
    attempt = start(other, Pool.objects.get())
    Assignment.objects.create(attempt=attempt, cluster=cluster, generation=1, let_go=True)
    told(other)
    assert "No figures yet" in shown(reader)
    finish(attempt_of(running))
    assert "it ran too briefly" in shown(reader)


def test_a_window_without_samples_says_so(reader: Client, running: Workload) -> None:
    measured(running, 40)
    GpuUseSample.objects.update(minute=timezone.now() - timedelta(hours=3))
    assert "No figures within 1 hour" in shown(reader, "/workloads/train-1/use/?within=1h")
    assert 'class="use-hit"' in shown(reader)


def test_the_chart_of_one_that_ended_ends_with_it(reader: Client, running: Workload) -> None:
    measured(running, 40, 50)
    finish(attempt_of(running))
    long_ago = timezone.now() - timedelta(days=40)
    Workload.objects.filter(pk=running.pk).update(finished_at=long_ago)
    GpuUseSample.objects.update(minutes=60)
    for number, sample in enumerate(GpuUseSample.objects.all()):
        GpuUseSample.objects.filter(pk=sample.pk).update(minute=long_ago - number * timedelta(hours=1))
    assert shown(reader).count('class="use-hit"') >= 1


@pytest.mark.parametrize("path", ["/workloads/train-1/use/", "/api/v1/workloads/train-1/usage/"])
def test_it_costs_few_queries_however_many_samples_there_are(
    reader: Client, running: Workload, path: str
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as made:
            shown(reader, path)
        return len(made)

    told(running)
    measured(running, 40)
    few = queries()
    GpuUseSample.objects.all().delete()
    measured(running, *range(50))
    assert queries() == few <= 10


# The list and the overview


def test_the_list_tells_of_idle_gpus_and_finds_their_workloads(
    reader: Client, running: Workload, team: Team, ada: User, pool: Pool
) -> None:
    busy = make_workload(team, ada, name="busy")
    start(busy, pool)
    told(busy)
    told(running, idle_milli=1500)
    assert "1.5 GPUs idle for" in shown(reader, "/workloads/")
    found = shown(reader, "/workloads/?status=idle")
    assert "/workloads/train-1/" in found
    assert f"/workloads/{busy.slug}/" not in found
    both = shown(reader, "/workloads/?status=idle&status=running")
    assert f"/workloads/{busy.slug}/" in both
    GpuUse.objects.update(at=timezone.now() - timedelta(hours=1))
    assert "/workloads/train-1/" not in shown(reader, "/workloads/?status=idle")
    assert "idle for" not in shown(reader, "/workloads/")


def test_the_overview_counts_idle_gpus_of_what_i_may_see(
    reader: Client, client: Client, running: Workload, org: Team
) -> None:
    told(running, idle_milli=2000)
    link = 'href="/workloads/?status=idle"'
    page = shown(reader, "/")
    assert link in page
    assert "2 GPUs held and idle in 1 workload<" in page
    client.force_login(member(make_team(org, "Vision"), Role.RESEARCHER, "vito"))
    assert link not in shown(client, "/")


# The API


def test_the_api_tells_the_same(reader: Client, running: Workload) -> None:
    measured(running, 40, 80, tensor_percent=25)
    use = told(running, idle_milli=1000, power_watts=900)
    answer = reader.get("/api/v1/workloads/train-1/usage/").json()
    assert answer["workload"] == "train-1"
    now = answer["now"]
    assert (now["busy_percent"], now["power_watts"], now["tensor_percent"]) == (63, 900, None)
    assert (now["idle_gpus"], now["gpus"], now["memory_mib"]) == (1, 2, 131_072)
    assert now["idle_since"].startswith(f"{use.idle_since:%Y-%m-%dT%H:%M}")
    assert (answer["within"], answer["step_seconds"]) == ("1h", 60)
    assert [(each["busy_percent"], each["tensor_percent"]) for each in answer["samples"]] == [
        (40, 25),
        (80, 25),
    ]


def test_the_api_says_that_nobody_knows(reader: Client, running: Workload) -> None:
    answer = reader.get("/api/v1/workloads/train-1/usage/?within=7d").json()
    assert answer == {"workload": "train-1", "now": None, "within": None, "step_seconds": None, "samples": []}


def test_the_api_refuses_a_window_that_there_is_not(reader: Client, running: Workload) -> None:
    answer = reader.get("/api/v1/workloads/train-1/usage/?within=ever")
    assert answer.status_code == 422
    assert "allowed are 1h, 24h, 7d, 30d" in answer.content.decode()


def test_the_api_lists_workloads_with_idle_gpus(reader: Client, running: Workload) -> None:
    assert reader.get("/api/v1/workloads/?status=idle").json()["results"] == []
    told(running, idle_milli=1000)
    assert [each["slug"] for each in reader.get("/api/v1/workloads/?status=idle").json()["results"]] == [
        "train-1"
    ]


def test_its_checkpoints_are_marked_in_the_chart_and_listed(
    client: Client, ada: User, running: Workload
) -> None:
    now = timezone.now()
    attempt = running.attempts.get()
    for minutes in (50, 30):
        GpuUseSample.objects.create(
            attempt=attempt, minute=now - minutes * MINUTE, gpus=1, busy_percent=50, memory_mib=1
        )
    ages = {
        1: 20 * 24 * 60 * MINUTE,
        2: 40 * MINUTE,
        3: 40 * MINUTE - timedelta(microseconds=1),
        4: 10 * MINUTE,
    }
    Checkpoint.objects.bulk_create(
        Checkpoint(attempt=attempt, at=now - age, step=step) for step, age in ages.items()
    )
    client.force_login(ada)
    page = client.get(f"/workloads/{running.slug}/use/").content.decode()
    assert page.count('class="use-saved"') == 2  # two of one place are one, and one is out of sight
    listed = page[page.index("Checkpoints as a table") :]
    assert re.findall(r'<td class="num">(\d)</td>', listed) == ["4", "3"]
    assert "Checkpoint <b>2</b>" in page
