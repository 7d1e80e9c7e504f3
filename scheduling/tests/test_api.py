"""Queue, reasons, cycles and figures over the API."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from chamber.models import User
from scheduling.cycle.cycle import run_cycle
from scheduling.tests.conftest import Acme
from workloads.models import Workload
from workloads.tests.factories import make_workload


@pytest.fixture
def waiting(acme: Acme) -> Workload:
    """Return a workload of Research that waits behind Production's reserved work."""
    for team, owner, count in ((acme.research, acme.owner, 2), (acme.production, acme.outsider, 1)):
        for _ in range(count):
            make_workload(team, owner, gpu_milli=4000, priority=100)
    make_workload(acme.production, acme.outsider, gpu_milli=500)
    workload = make_workload(acme.research, acme.owner, gpu_milli=250, pods=2, priority=60)
    run_cycle()
    return workload


def get(user: User, path: str, status: int = 200) -> Any:
    client = APIClient()
    client.force_authenticate(user)
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == status, answer.content
    return answer.json()


def test_a_queue_has_the_order_and_hides_what_others_may_not_know(acme: Acme, waiting: Workload) -> None:
    queue = get(acme.owner, "queue/?pool=main")

    own, other = queue["results"]
    assert (queue["pool"], queue["waiting"], queue["next"]) == ("main", 2, None)
    assert (own["workload"], own["owner"], own["gpus"], own["position"]) == (waiting.slug, "rita", 0.5, 1)
    assert own["code"] == "waiting-for-gpus"
    assert (other["workload"], other["owner"], other["message"]) == (None, None, None)
    assert (other["team"], other["gpus"], other["priority"]) == ("Production", 0.5, 50)


def test_a_workload_is_explained_to_who_may_see_it(acme: Acme, waiting: Workload) -> None:
    told = get(acme.mate, f"workloads/{waiting.slug}/explain/")

    assert (told["workload"], told["status"], told["position"]) == (waiting.slug, "pending", 1)
    assert (told["reason"]["code"], told["reason"]["kind"]) == ("waiting-for-gpus", "wait")
    assert (told["reason"]["asked"], told["reason"]["available"]) == (0.5, 0)
    assert set(told["eta"]) == {"earliest", "latest", "text"}
    get(acme.outsider, f"workloads/{waiting.slug}/explain/", status=404)


def test_one_that_is_admitted_tells_what_it_waits_for(acme: Acme, waiting: Workload) -> None:
    admitted = Workload.objects.filter(status="queued", team=acme.research)[0]

    assert get(acme.owner, f"workloads/{admitted.slug}/explain/")["reason"]["code"] == "pods-to-be-created"


def test_cycles_are_listed_newest_first_to_members(acme: Acme, waiting: Workload) -> None:
    make_workload(acme.research, acme.owner)
    run_cycle()

    newest, first = get(acme.owner, "plans/")["results"]

    assert newest["number"] > first["number"]
    assert (first["starts"], first["decisions"], first["waiting"]) == (3, 3, {"waiting-for-gpus": 2})
    assert get(acme.stranger, "plans/")["results"] == []


def test_figures_are_of_the_teams_that_one_may_see(acme: Acme, waiting: Workload) -> None:
    (research,) = get(acme.owner, "teams-figures/?pool=main")["results"]

    assert (research["team"], research["guarantee"], research["reserved"]) == ("research", 8, 8)
    assert (research["waiting"], research["waiting_for"]) == (1, 0.5)
    assert len(get(acme.admin, "teams-figures/")["results"]) == 3


def test_an_unknown_pool_is_not_found(acme: Acme) -> None:
    get(acme.owner, "queue/?pool=nowhere", status=404)
    get(acme.stranger, "queue/", status=404)


def test_who_is_not_signed_in_is_refused() -> None:
    assert APIClient().get("/api/v1/queue/").status_code == 401
