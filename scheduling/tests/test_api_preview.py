"""What would become of a submission, asked by programs; nothing is written."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from chamber.models import User
from scheduling.cycle.cycle import run_cycle
from scheduling.reading import recent
from scheduling.tests.conftest import Acme
from scheduling.tests.factories import run_pods
from workloads.models import Workload
from workloads.tests.factories import make_workload

URL = "/api/v1/preview/"
ONE = {"name": "bert", "team": "research", "image": "train:1", "gpus": 4}


@pytest.fixture(autouse=True)
def _fresh_picture() -> None:
    recent.forget()


def ask(user: User, body: dict[str, Any]) -> Any:
    client = APIClient()
    client.force_authenticate(user)
    before = Workload.objects.count()
    answer = client.post(URL, body, format="json")
    assert Workload.objects.count() == before
    return answer


def test_what_starts_is_told_with_what_it_gets(acme: Acme) -> None:
    answer = ask(acme.owner, ONE)
    assert answer.status_code == 200
    assert answer.json() == {
        "workloads": [
            {
                "name": "bert",
                "outcome": "starts",
                "message": "Starts now with 4 GPUs on n1, of the guarantee of Research.",
                "reason": None,
                "eta": None,
            }
        ],
        "others": 0,
    }


def test_what_waits_is_told_with_why_and_when(acme: Acme) -> None:
    elastic = [
        make_workload(acme.research, acme.owner, time_limit_seconds=3600, priority=70) for _ in range(12)
    ]
    run_cycle()
    run_pods(elastic)
    (told,) = ask(acme.owner, {**ONE, "gpus": 1, "priority": "low"}).json()["workloads"]
    assert (told["outcome"], told["reason"]["code"]) == ("waits", "waiting-for-gpus")
    assert "60 min" in told["eta"]["text"]
    (other,) = ask(acme.outsider, {**ONE, "team": "production", "gpus": 2, "priority": "reserved"}).json()[
        "workloads"
    ]
    assert (other["outcome"], other["reason"]) == ("preempts", None)
    assert "Would preempt 2 elastic workloads (2 GPUs) of Research." in other["message"]


def test_several_are_answered_each_by_itself_up_to_a_bound(acme: Acme) -> None:
    answer = ask(acme.owner, {"workloads": [{**ONE, "name": f"n{index}"} for index in range(12)]}).json()
    assert [each["name"] for each in answer["workloads"]] == [f"n{index}" for index in range(10)]
    assert answer["others"] == 2


def test_mistakes_are_told_as_by_a_submission(acme: Acme) -> None:
    answer = ask(acme.owner, {**ONE, "gpus": 1.25, "pools": ["nix"]})
    assert answer.status_code == 422
    assert answer.json()["errors"].keys() == {"gpus", "pools"}
    assert ask(acme.owner, {**ONE, "team": "nix"}).status_code == 404
