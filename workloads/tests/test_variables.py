"""Who sees the values of a workload's variables: page, manifest, form, API, and whatever is kept of a page."""

import json
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from chamber.models import Scope, User
from chamber.tokens import create_token
from teams.models import Role, Team
from teams.tests.factories import member
from workloads.models import Workload
from workloads.tests.factories import make_workload

SECRET = "hunter2-and-more"
LIST = "/api/v1/workloads/"
ONE = f"{LIST}bert-1/"


@pytest.fixture
def workload(team: Team, owner: User) -> Workload:
    return make_workload(team, owner, name="bert", slug="bert-1", environment={"WANDB_KEY": SECRET})


@pytest.fixture
def reader(request: pytest.FixtureRequest, team: Team, org: Team, owner: User) -> User:
    where, role = {
        "owner": (None, None),
        "lead": (team, Role.LEAD),
        "admin": (team, Role.ADMIN),
        "org-admin": (org, Role.ORG_ADMIN),
        "viewer": (team, Role.VIEWER),
        "researcher": (team, Role.RESEARCHER),
        "operator": (org, Role.OPERATOR),
        "auditor": (org, Role.AUDITOR),
    }[request.param]
    return owner if where is None or role is None else member(where, role, "reader")


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def answers(user: User) -> dict[str, Any]:
    """Return what the API answers of the variables, at each place that shows a workload."""
    client = signed_in(user)
    return {
        "one": client.get(ONE).json()["environment"],
        "list": client.get(LIST).json()["results"][0]["environment"],
    }


@pytest.mark.parametrize("reader", ["owner", "lead", "admin", "org-admin"], indirect=True)
def test_the_owner_and_who_manages_its_team_see_the_values(workload: Workload, reader: User) -> None:
    assert answers(reader) == {key: {"WANDB_KEY": SECRET} for key in ("one", "list")}
    page = signed_in(reader).get("/workloads/bert-1/").content.decode()
    assert f"WANDB_KEY: {SECRET}" in page
    assert "The values of its variables are shown to" not in page


@pytest.mark.parametrize("reader", ["viewer", "researcher", "operator", "auditor"], indirect=True)
def test_others_see_the_names(workload: Workload, reader: User) -> None:
    assert answers(reader) == {key: {"WANDB_KEY": None} for key in ("one", "list")}
    for headers in ({}, {"X-Chamber-Fragment": "1"}):
        page = signed_in(reader).get("/workloads/bert-1/", headers=headers).content.decode()
        assert "WANDB_KEY: null" in page
        assert SECRET not in page
        assert (
            "The values of its variables are shown to its owner and to whoever manages workloads in NLP."
            in page
        )


def test_a_part_that_was_kept_for_the_owner_is_given_to_nobody_else(
    workload: Workload, team: Team, owner: User
) -> None:
    cache.clear()
    part = {"X-Chamber-Fragment": "1"}
    colleague = member(team, Role.RESEARCHER, "colleague")  # of the same kind as the owner
    assert SECRET in signed_in(owner).get("/workloads/bert-1/", headers=part).content.decode()
    assert SECRET not in signed_in(colleague).get("/workloads/bert-1/", headers=part).content.decode()
    assert SECRET in signed_in(owner).get("/workloads/bert-1/", headers=part).content.decode()


def test_an_act_tells_its_doer_no_more(workload: Workload, team: Team, owner: User) -> None:
    lead = member(team, Role.LEAD, "lead")
    held = signed_in(lead).post(f"{ONE}hold/")
    assert held.json()["environment"] == {"WANDB_KEY": SECRET}
    refused = signed_in(member(team, Role.VIEWER, "viewer")).post(f"{ONE}release/")
    assert (refused.status_code, SECRET in refused.content.decode()) == (403, False)


def test_submitted_again_by_somebody_else_the_values_are_written_anew(workload: Workload, team: Team) -> None:
    client = signed_in(member(team, Role.RESEARCHER, "colleague"))
    for tab in ("", "yaml"):
        page = client.get("/workloads/submit/", {"clone": "bert-1", "tab": tab})
        assert SECRET not in page.content.decode()
    form = page.context["form"]
    assert form["environment"].value() == "WANDB_KEY"
    posted = {name: form[name].value() or "" for name in form.fields}

    refused = client.post("/workloads/submit/", {**posted, "tab": ""})
    assert refused.status_code == 422
    assert "Line 1 is &#x27;WANDB_KEY&#x27;; write NAME=value on each line." in refused.content.decode()
    refused = client.post("/workloads/submit/", {**posted, "tab": "yaml"})
    assert refused.status_code == 422
    assert "WANDB_KEY" in refused.content.decode()
    assert Workload.objects.count() == 1


def test_by_the_api_too_null_is_no_value(workload: Workload, team: Team) -> None:
    body = {"name": "x", "team": "nlp", "image": "x", "environment": {"WANDB_KEY": None}}
    client = signed_in(member(team, Role.RESEARCHER, "colleague"))
    refused = client.post(LIST, json.dumps(body), content_type="application/json")
    assert refused.status_code == 422
    assert "WANDB_KEY" in json.dumps(refused.json()["errors"])


def test_a_token_of_the_owner_reads_them_too(workload: Workload, owner: User) -> None:
    _, secret = create_token(user=owner, name="x", scope=Scope.READ, days=1)
    answer = Client().get(ONE, headers={"Authorization": f"Bearer {secret}"})
    assert answer.json()["environment"] == {"WANDB_KEY": SECRET}


@pytest.mark.parametrize("scope", [Scope.READ, Scope.SUBMIT])
def test_a_token_reads_as_its_holder_whatever_it_may_change(
    workload: Workload, team: Team, scope: Scope
) -> None:
    seen = []
    for role in (Role.LEAD, Role.VIEWER):
        _, secret = create_token(user=member(team, role), name="x", scope=scope, days=1)
        seen.append(Client().get(ONE, headers={"Authorization": f"Bearer {secret}"}).json()["environment"])
    assert seen == [{"WANDB_KEY": SECRET}, {"WANDB_KEY": None}]
