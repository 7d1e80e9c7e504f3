"""Whose parts of a GPU share one with others: what may not is taken with whole GPUs, and told so."""

from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from agentlink.tests.factories import make_cluster, make_node
from chamber.errors import Refusal
from chamber.models import User
from teams.actions import edit_class, narrow_class
from teams.actors import Actor
from teams.models import JobClass, Pool, Team
from teams.tests.factories import actor
from workloads.models import Workload
from workloads.requests import SubmissionRequest
from workloads.submission import submit

SYSTEM = Actor.system("test")


@pytest.fixture(autouse=True)
def _place(pool: Pool) -> None:
    make_node(make_cluster(), "n1", pool=pool)


def submitted(owner: User, **asked: Any) -> Workload:
    body = {"name": "bert", "team": "nlp", "image": "train:1", "gpus": 0.5, **asked}
    return submit(by=actor(owner), requests=[SubmissionRequest.parse(body)])[0]


def share(slug: str, sharing: str) -> None:
    row = JobClass.objects.get(slug=slug)
    edit_class(by=SYSTEM, job_class=row, version=row.version, changes={"sharing": sharing})


@pytest.mark.parametrize(
    ("job_class", "priority", "milli"),
    [
        ("training", 50, 500),
        ("training", 100, 1000),
        ("serving", 25, 1000),
        ("serving", None, 1000),
    ],
)
def test_serving_and_reserved_work_have_gpus_of_their_own(
    owner: User, job_class: str, priority: int | None, milli: int
) -> None:
    asked = {} if priority is None else {"priority": priority}
    workload = submitted(owner, job_class=job_class, **asked)
    assert workload.gpu_milli == milli
    told = "Each pod has a GPU of its own in place of 0.5 GPUs" in workload.events.get().message
    assert told == (milli == 1000)


def test_a_policy_may_let_them_share(owner: User) -> None:
    share("serving", "always")
    assert submitted(owner, job_class="serving").gpu_milli == 500
    share("serving", "elastic")
    assert submitted(owner, job_class="serving", priority=25).gpu_milli == 500
    assert submitted(owner, job_class="serving", priority=100).gpu_milli == 1000


def test_a_team_may_let_less_share(owner: User, team: Team) -> None:
    narrow_class(by=SYSTEM, team=team, slug="training", version=0, values={"sharing": "never"})
    assert submitted(owner, job_class="training", priority=25).gpu_milli == 1000


def test_whole_gpus_are_as_they_were(owner: User) -> None:
    workload = submitted(owner, job_class="serving", gpus=2)
    assert workload.gpu_milli == 2000
    assert "of its own" not in workload.events.get().message


def test_memory_of_a_gpu_is_refused_with_what_to_ask_for(owner: User) -> None:
    with pytest.raises(Refusal) as refused:
        submitted(owner, gpus=None, gpu_memory_mib=8000, priority=100)
    assert refused.value.fields == {
        "gpu_memory_mib": "Reserved work of the class Experiment shares no GPU with others, so that each pod has "
        "one of its own: give gpus 1 in place of 8,000 MiB of one, and name GPU types where its memory matters."
    }
    assert submitted(owner, gpus=None, gpu_memory_mib=8000).gpu_memory_mib == 8000


def test_api_and_page_say_so(owner: User) -> None:
    client = APIClient()
    client.force_authenticate(owner)
    body = {"name": "chat", "team": "nlp", "image": "x", "gpus": 0.25, "job_class": "serving"}
    answer = client.post("/api/v1/workloads/", body, format="json").json()
    assert answer["gpus"] == 1
    assert answer["warnings"][0] == (
        "Each pod has a GPU of its own in place of 0.25 GPUs: reserved work of the class serving shares none with "
        "others."
    )
    browser = Client()
    browser.force_login(owner)
    form = {**body, "pods": "1", "tier": "reserved", "tab": ""}
    page = browser.post("/workloads/submit/", form, follow=True).content.decode()
    assert "Each pod has a GPU of its own in place of 0.25 GPUs" in page
