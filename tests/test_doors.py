"""Whichever way in a submission takes, it has the same by its job class: the same row is stored."""

from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from agentlink import adoption, spaces
from agentlink.protocol import Discovered, DiscoveredJob
from agentlink.tests.factories import make_cluster, make_node
from chamber.cli import manifests as files
from chamber.cli.commands.submit import asked_for
from chamber.models import User
from teams import actions
from teams.actors import Actor
from teams.models import JobClass, Role, Team
from teams.tests.factories import actor, make_org, make_pool, make_team, member
from workloads import manifests
from workloads.models import Workload
from workloads.requests import SubmissionRequest
from workloads.submission import submit

SYSTEM = Actor.system("test")
BY_CLASS = (
    "job_class",
    "priority",
    "time_limit_seconds",
    "max_retries",
    "on_preemption",
    "max_requeues",
    "grace_seconds",
)
LITTLE = {"name": "little", "team": "nlp", "image": "train:1"}
API = "/api/v1/workloads/"
FORM = "/workloads/submit/"


def as_sent(form: Any) -> dict[str, Any]:
    """Return what a browser sends of a form that nobody touched."""
    values = {name: form[name].value() for name in form.fields}
    return {name: "" if value is None or value is False else value for name, value in values.items()}


def by_form(owner: User, asked: dict[str, Any]) -> None:
    """As a browser: the form is fetched, its class chosen, filled in and sent as it then stands."""
    browser = Client()
    browser.force_login(owner)
    form = browser.get(FORM).context["form"]
    shown = as_sent(form)
    if "job_class" in asked:
        chosen = {**shown, "job_class": asked["job_class"], "team": "nlp", "propose": "1"}
        before = {"proposed_for": "experiment", "proposed_in": "nlp"}
        form = browser.post(FORM, {**chosen, **before}).context["form"]
        shown = as_sent(form)
    answer = browser.post(FORM, {**shown, **asked, "tab": ""})
    assert answer.status_code == 302, answer.content.decode()


def by_yaml(owner: User, asked: dict[str, Any]) -> None:
    browser = Client()
    browser.force_login(owner)
    answer = browser.post(FORM, {"tab": "yaml", "manifest": manifests.to_yaml(asked)})
    assert answer.status_code == 302, answer.content.decode()


def by_api(owner: User, asked: dict[str, Any]) -> None:
    client = APIClient()
    client.force_authenticate(owner)
    assert client.post(API, asked, format="json").status_code == 201


def by_command_line(owner: User, asked: dict[str, Any]) -> None:
    """What the flags become; the server then takes it as from any program."""
    found: files.File = asked_for(None, {**asked, "command": ()})
    by_api(owner, found.documents[0])


def by_kubectl(owner: User, asked: dict[str, Any]) -> None:
    """A Job names no class: it is of the default."""
    cluster = make_cluster("kube")
    spaces.bind_namespace(by=SYSTEM, cluster=cluster, team=Team.objects.get(slug="nlp"), namespace="nlp-jobs")
    job = DiscoveredJob(uid="u1", namespace="nlp-jobs", name=asked["name"], image=asked["image"], gpus=1)
    told = adoption.take(cluster, Discovered(type="discovered", jobs=(job,), version=0, last=True))
    assert not any(verdict.refused for verdict in told), told


DOORS = {each.__name__: each for each in (by_form, by_yaml, by_api, by_command_line, by_kubectl)}


@pytest.fixture
def team(db: None) -> Team:
    make_node(make_cluster(), "n1", pool=make_pool("Main"))
    return make_team(make_org("Acme"), "NLP")


@pytest.fixture
def owner(team: Team) -> User:
    return member(team, Role.RESEARCHER, "ada")


def stored() -> dict[str, Any]:
    return {name: getattr(Workload.objects.get(name="little"), name) for name in BY_CLASS}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("narrowed", [False, True], ids=["as-the-organisation", "narrowed"])
def test_the_default_class_is_the_same_by_every_way_in(
    owner: User, team: Team, door: str, narrowed: bool
) -> None:
    if narrowed:
        values = {"tier": "low", "time_limit_seconds": 7200}
        actions.narrow_class(by=SYSTEM, team=team, slug="experiment", version=0, values=values)
    DOORS[door](owner, LITTLE)
    assert stored() == {
        "job_class": "experiment",
        "priority": 25 if narrowed else 50,
        "time_limit_seconds": 7200 if narrowed else 14400,
        "max_retries": 0,
        "on_preemption": "requeue",
        "max_requeues": 20,
        "grace_seconds": 30,
    }


@pytest.mark.parametrize("door", [name for name in DOORS if name != "by_kubectl"])
def test_a_named_class_is_the_same_by_every_way_in(owner: User, team: Team, door: str) -> None:
    training = JobClass.objects.get(slug="training")
    changes = {"on_preemption": "stop", "max_retries": 4, "tier": "high", "time_limit_seconds": None}
    actions.edit_class(by=SYSTEM, job_class=training, version=1, changes=changes)
    actions.narrow_class(by=SYSTEM, team=team, slug="training", version=0, values={"max_retries": 3})
    DOORS[door](owner, {**LITTLE, "job_class": "training"})
    assert stored() == {
        "job_class": "training",
        "priority": 75,
        "time_limit_seconds": None,
        "max_retries": 3,
        "on_preemption": "stop",
        "max_requeues": 20,
        "grace_seconds": 30,
    }


@pytest.mark.parametrize("door", [name for name in DOORS if name != "by_kubectl"])
def test_what_is_said_wins_over_the_class(owner: User, door: str) -> None:
    limit = {"time_limit_seconds": ""} if door == "by_form" else {"time_limit": "none"}
    tier = {"tier": "high"} if door == "by_form" else {"priority": "high"}
    DOORS[door](owner, {**LITTLE, **limit, **tier, "max_retries": 2})
    found = stored()
    assert (found["priority"], found["time_limit_seconds"], found["max_retries"]) == (75, None, 2)


@pytest.mark.parametrize("tab", ["", "yaml"])
def test_submitted_again_it_is_the_same_though_its_class_is_another_now(owner: User, tab: str) -> None:
    (first,) = submit(by=actor(owner), requests=[SubmissionRequest.parse({**LITTLE, "time_limit": "none"})])
    before = stored()
    changes = {"tier": "low", "time_limit_seconds": 60, "max_retries": 9, "on_preemption": "stop"}
    actions.edit_class(
        by=SYSTEM, job_class=JobClass.objects.get(slug="experiment"), version=1, changes=changes
    )
    browser = Client()
    browser.force_login(owner)
    form = browser.get(FORM, {"clone": first.slug}).context["form"]
    Workload.objects.filter(pk=first.pk).update(name="before")
    shown = as_sent(form)
    assert browser.post(FORM, {**shown, "tab": tab}).status_code == 302
    assert stored() == before
