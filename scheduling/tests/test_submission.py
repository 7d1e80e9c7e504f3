"""What is taken and can never start is told with the answer to its submission, in the words of the cycle."""

import json
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from agentlink.models import Node
from scheduling.cycle.cycle import run_cycle
from scheduling.explain import submission
from scheduling.explain.workload import explain
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import make_nodes
from teams.actors import Actor, Via
from teams.models import Pool
from teams.tests.factories import make_pool
from workloads import actions, known
from workloads.models import Workload

BODY = {"name": "x", "team": "research", "image": "i", "priority": "low"}


@pytest.fixture(autouse=True)
def _sized(acme: Acme) -> None:
    Node.objects.update(cpu_milli=64_000, memory_mib=512_000)
    known.forget()


def warnings_of(client: Client, acme: Acme, *bodies: dict[str, Any]) -> list[list[str]]:
    client.force_login(acme.admin)
    body = {"workloads": [{**BODY, **each} for each in bodies]}
    answer = client.post("/api/v1/workloads/", json.dumps(body), content_type="application/json")
    assert answer.status_code == 201, answer.content
    return [each["warnings"] for each in answer.json()["workloads"]]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"cpu": 500}, "A pod asks for 500 CPUs"),
        ({"memory_mib": 900_000}, "A pod asks for 900000 MiB of memory"),
        ({"gpus": None, "gpu_memory_mib": 900_000}, "A pod asks for 900000 MiB of GPU memory"),
        ({"gpu_types": ["L40S"], "pools": ["main"]}, "L40S"),
        (
            {"pods": 3, "gpus": 4, "priority": 100},
            "Research and the teams above it have 8",
        ),
        ({"priority": 100, "pools": ["side"]}, "in the pool Side Research and the teams above it have none"),
        ({"pods": 4, "gpus": 3}, "It needs 4 pods of 3 GPUs at once"),
        ({"topology_required": "rakc"}, "rakc"),
        ({"partition": "zz"}, "none is of the partition zz"),
        ({"node_selector": {"gpu": "h100"}}, "none has the label gpu=h100"),
    ],
)
def test_what_can_never_start_is_told_as_the_cycle_tells_it(
    acme: Acme, client: Client, asked: dict[str, Any], words: str
) -> None:
    Pool.objects.update(order=2)
    side = make_pool("Side", order=1, node_selector={"for": "side"})
    [other] = make_nodes(acme.cluster, side, 1, cpu_milli=64_000, memory_mib=512_000, labels={"for": "side"})
    other.devices.update(gpu_type="L40S")
    [[told]] = warnings_of(client, acme, {"pools": ["main"], **asked})
    run_cycle()
    reason = explain(Workload.objects.get(), acme.admin)
    assert reason is not None
    assert told == f"{reason.sentence} {reason.next_step}"
    assert words in told


def test_what_waits_for_others_or_nodes_out_of_service_is_not_told(acme: Acme, client: Client) -> None:
    assert warnings_of(client, acme, *[{"gpus": 4}] * 9, {"hold": True}) == [[]] * 10
    Node.objects.update(cordoned=True)
    submission.forget()
    assert warnings_of(client, acme, {"gpus": 4}) == [[]]


def test_who_submits_to_a_paused_pool_is_told(acme: Acme, client: Client) -> None:
    side = make_pool("Side", order=2)
    make_nodes(acme.cluster, side, 1, cpu_milli=64_000, memory_mib=512_000)
    Pool.objects.filter(pk=acme.pool.pk).update(paused=True)
    why = (
        "The pool Main is paused and starts nothing. Ask an admin to resume the pool, or choose another one."
    )
    assert warnings_of(client, acme, {"pools": ["main"]}, {}) == [[why], []]


def test_who_submits_what_starts_after_others_in_vain_is_told_of_these(acme: Acme, client: Client) -> None:
    warnings_of(
        client,
        acme,
        {"name": "held", "hold": True},
        {"name": "never", "partition": "zz"},
        {"name": "fine"},
        {"name": "over"},
    )
    slugs = dict(Workload.objects.values_list("name", "slug"))
    over = Workload.objects.get(name="over")
    actions.cancel(by=Actor.person(acme.admin, Via.API), workload=over)
    asked = [{"depends_on": [slug]} for slug in slugs.values()]
    told = dict(zip(slugs, warnings_of(client, acme, *asked), strict=True))

    assert told["fine"] == []
    assert told["held"] == [
        f"It starts only after {slugs['held']} (Pending, on hold) has completed. Release {slugs['held']} (chamber "
        f"release {slugs['held']}), or ask its owner to."
    ]
    assert told["over"] == [
        f"It starts only after {over.slug} (Cancelled) has completed. Requeue {over.slug} (chamber requeue "
        f"{over.slug}), or ask its owner to."
    ]
    [never_starts] = told["never"]
    assert never_starts.startswith(
        f"It starts only after {slugs['never']} (Pending, cannot start as things are) has completed. "
    )
    assert "none is of the partition zz" in never_starts


def test_what_old_knowledge_tells_is_looked_at_again(
    acme: Acme, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert warnings_of(client, acme, {"partition": "zz"}) != [[]]
    Node.objects.filter(name="n1").update(partition="zz")
    monkeypatch.setattr(submission, "SURE_SECONDS", 0.0)
    assert warnings_of(client, acme, {"partition": "zz"}) == [[]]


def test_the_first_different_requests_are_looked_at_and_it_is_told_of_how_many(
    acme: Acme, client: Client
) -> None:
    several = [{"cpu": 100 + number} for number in range(submission.MOST_ASKED + 2)]
    *looked_at, first, last = warnings_of(client, acme, *several, {"cpu": 100})[:-1]
    assert all("CPUs" in told for [told] in looked_at)
    assert first == [submission.NOT_LOOKED_AT.format(more=1)]
    assert last == []


def test_requests_like_those_before_cost_no_query(
    acme: Acme, client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    warnings_of(client, acme, {"gpus": 4})
    rows = list(Workload.objects.select_related("team", "owner").with_dependence())
    with django_assert_num_queries(0):
        assert list(submission.sentences(rows).values()) == [[]]
