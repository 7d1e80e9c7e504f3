"""A workload that runs with fewer pods than it asks for, as it is told everywhere, and why the others wait."""

from collections.abc import Callable

import pytest
from django.test import Client

from agentlink.logs import kept
from agentlink.logs.kept import Whole
from agentlink.models import Hold, Placement
from chamber.cli.columns import WORKLOAD, WORKLOADS
from scheduling.cycle.cycle import run_cycle
from scheduling.explain.workload import explain
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import make_nodes, run_pods
from teams.models import Pool
from teams.tests.factories import set_share
from workloads.models import Workload
from workloads.tests.factories import make_workload


def partly(acme: Acme, **fields: int) -> Workload:
    """Return one that asks for 30 pods of 1 GPU, and runs with as many as the pool of 12 GPUs takes."""
    workload = make_workload(
        acme.research, acme.owner, slug="sweep", pods=30, min_pods=1, gpu_milli=1000, priority=50, **fields
    )
    run_cycle()
    run_pods([workload])
    return workload


def test_it_is_told_with_the_pods_and_gpus_that_it_has(acme: Acme, client: Client) -> None:
    whole = make_workload(acme.research, acme.owner, slug="whole", gpu_milli=1000)
    workload = partly(acme)
    run_pods([whole])
    client.force_login(acme.owner)

    assert workload.events.filter(message="11 of its 30 pods run.").exists()
    assert whole.events.filter(message="All its pods run.").exists()

    rows = {row["slug"]: row for row in client.get("/api/v1/workloads/").json()["results"]}
    told = [(row["pods"], row["placed_pods"], row["total_gpus"], row["held_gpus"]) for row in rows.values()]
    assert sorted(told) == [(1, 1, 1, 1), (30, 11, 30, 11)]
    assert client.get("/api/v1/workloads/sweep/").json() == rows["sweep"] | {"depends_on": []}
    shown = {column.heading: column.value for column in (*WORKLOAD, *WORKLOADS)}
    assert [(shown["Pods"](row), shown["GPUs"](row)) for row in (rows["sweep"], rows["whole"])] == [
        ("11 of 30", "11 (of 30 x 1)"),
        (1, "1"),
    ]

    text = client.get("/workloads/").content.decode()
    assert '11<span class="sub">11 of 30 pods, 30 asked</span>' in text
    page = client.get("/workloads/sweep/").content.decode()
    assert "11 of 30 pods, 11 GPUs" in page
    assert "Research, 11 of 30 pods" in client.get("/").content.decode()


def test_logs_are_offered_of_pods_that_there_are_or_were(acme: Acme, client: Client) -> None:
    workload = partly(acme)
    attempt = workload.attempt
    assert attempt is not None
    Placement.objects.filter(attempt=attempt, pod_index__gt=2).delete()
    Placement.objects.filter(attempt=attempt, pod_index=1).update(hold=Hold.RELEASED)  # it had that one
    kept.keep(acme.cluster.pk, [Whole(attempt.pk, 5, "gone\n", cut=False)])
    client.force_login(acme.owner)

    refused = client.get("/api/v1/workloads/sweep/logs/?pod=17")
    assert refused.status_code == 422
    assert refused.json()["detail"] == "pod is 17; attempt 1 of sweep had 4 of its 30 pods, 0 to 2, 5."
    page = client.get("/workloads/sweep/logs/?pod=17", headers={"X-Chamber-Fragment": "1"}).content.decode()
    offered = [index for index in range(30) if f">{index}</option>" in page]
    assert offered == [0, 1, 2, 5]
    assert "<option selected>5</option>" in page


def paused(acme: Acme) -> None:
    Pool.objects.filter(pk=acme.pool.pk).update(paused=True)


def limited(acme: Acme) -> None:
    make_nodes(acme.cluster, acme.pool, 1)
    set_share(acme.research, acme.pool, gpus=8, maximum=12)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda _: None, "Main has 0 GPUs free; each pod needs 1 GPU."),
        (paused, "The pool Main is paused: nothing is added there."),
        (limited, "Research may use 12 GPUs of Main at most and uses 12 GPUs; each pod needs 1 GPU."),
    ],
)
def test_why_says_what_the_other_pods_wait_for(acme: Acme, change: Callable[[Acme], None], why: str) -> None:
    workload = partly(acme)
    change(acme)
    run_cycle()

    told = explain(workload, acme.mate)

    assert told is not None
    assert told.sentence == f"It runs with 12 of its 30 pods, on 12 GPUs; the other 18 wait. {why}"
    assert (told.code, told.kind) == ("waiting-for-more-pods", "wait")
    assert told.next_step.startswith("Nothing to do")


def test_of_one_that_has_all_its_pods_nothing_is_told(acme: Acme) -> None:
    workload = make_workload(acme.research, acme.owner, pods=4, min_pods=1, gpu_milli=1000)
    run_cycle()
    run_pods([workload])

    assert explain(workload, acme.owner) is None
    assert workload.events.filter(message="All its pods run.").exists()
