"""`chamber top`, and the list of the API behind it: who holds GPUs and what they make of them."""

import csv
import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agentlink.models import GpuUse
from chamber.models import User
from chamber.tests.cli.conftest import Run
from teams.models import Pool, Role, Team
from teams.tests.factories import member
from workloads.tests.factories import finish, make_workload, start

Become = Callable[..., str]


def hold(team: Team, owner: User, pool: Pool, slug: str, *, gpus: int, **use: Any) -> None:
    """Have a workload run, with a figure of its use where one is given."""
    attempt = start(make_workload(team, owner, slug=slug, gpu_milli=1000 * gpus), pool)
    if use:
        use.setdefault("at", timezone.now())
        idle_since = timezone.now() if use.get("idle_milli") else None
        GpuUse.objects.create(attempt=attempt, gpus=gpus, memory_mib=1024, idle_since=idle_since, **use)


@pytest.fixture
def busy(nlp: Team, vision: Team, ada: User, pool: Pool) -> None:
    hold(nlp, ada, pool, "small", gpus=1, busy_percent=90)
    hold(nlp, ada, pool, "large", gpus=8, busy_percent=3, idle_milli=8000)
    hold(nlp, ada, pool, "unknown", gpus=4)
    hold(nlp, ada, pool, "old", gpus=2, busy_percent=50, at=timezone.now() - timedelta(hours=1))
    hold(vision, member(vision, Role.RESEARCHER, "vera"), pool, "secret", gpus=8, busy_percent=1)
    make_workload(nlp, ada, slug="waits")
    finish(start(make_workload(nlp, ada, slug="over"), pool))


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ([], ["large", "unknown", "old", "small"]),
        (["--sort", "busy", "--limit", "1"], ["small"]),
        (["--sort", "idle", "--limit", "1"], ["large"]),
        (["--team", "nlp", "--pool", "main", "--limit", "2"], ["large", "unknown"]),
    ],
)
def test_who_holds_most_comes_first(
    run: Run, ada: User, become: Become, asked: list[str], names: list[str]
) -> None:
    become(ada)
    assert run("top", "-o", "name", *asked).stdout.split() == names


@pytest.mark.usefixtures("busy")
def test_where_nobody_measures_nothing_stands(run: Run, ada: User, become: Become) -> None:
    become(ada)
    rows = {row["Workload"]: row for row in csv.DictReader(io.StringIO(run("top", "-o", "csv").stdout))}
    assert (rows["large"]["Busy"], rows["large"]["Idle"], rows["large"]["GPUs"]) == ("3 %", "8 GPUs", "8")
    assert rows["unknown"]["Busy"] == rows["old"]["Busy"] == ""


def test_an_idle_cluster_says_so(run: Run, ada: User, become: Become) -> None:
    become(ada)
    result = run("top")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "Nothing holds GPUs.\n")


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("sort=name", 422),
        ("limit=0", 422),
        ("limit=501", 422),
        ("limit=²", 422),
        ("team=vision", 404),
        ("pool=x", 404),
    ],
)
def test_what_cannot_be_asked_is_refused(client: Client, ada: User, query: str, status: int) -> None:
    client.force_login(ada)
    assert client.get(f"/api/v1/usage/?{query}").status_code == status


@pytest.mark.usefixtures("busy")
def test_many_cost_as_many_queries_as_few(client: Client, ada: User, nlp: Team, pool: Pool) -> None:
    client.force_login(ada)

    def queries() -> int:
        with CaptureQueriesContext(connection) as made:
            assert client.get("/api/v1/usage/").status_code == 200
        return len(made)

    few = queries()
    for number in range(20):
        hold(nlp, ada, pool, f"more-{number}", gpus=1, busy_percent=5)
    assert queries() == few
