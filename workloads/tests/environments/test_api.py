"""Environments over the API."""

from typing import Any

from rest_framework.test import APIClient

from chamber.models import User
from teams.models import Role, Team
from teams.tests.factories import member
from workloads.models import Environment
from workloads.tests.environments.conftest import IMAGE, VALUES, make

LIST = "/api/v1/environments/"
ONE = "/api/v1/teams/nlp/environments/pytorch/"


def api(user: User) -> APIClient:
    client = APIClient()
    client.force_authenticate(user)
    return client


def send(user: User, **body: Any) -> Any:
    return api(user).post(LIST, {"name": "pytorch", "team": "nlp", **VALUES, **body}, format="json")


def test_one_is_made_shown_and_listed(lead: User, owner: User) -> None:
    answer = send(lead, note="First")
    assert answer.status_code == 201, answer.content
    assert answer.json()["reference"] == "nlp/pytorch"
    shown = api(owner).get(ONE).json()
    assert shown["newest"] == {**shown["versions"][0]}
    assert {name: shown["newest"][name] for name in VALUES} == VALUES
    assert (shown["newest"]["note"], shown["newest"]["made_by"], shown["archived"]) == ("First", "lea", False)
    assert [each["name"] for each in api(owner).get(LIST).json()["results"]] == ["pytorch"]


def test_a_new_version_is_201_and_the_same_again_200(lead: User, team: Team) -> None:
    make(lead, team)
    for status, newest in ((201, 2), (200, 2)):
        answer = api(lead).post(f"{ONE}versions/", {"image": "train:2"}, format="json")
        assert (answer.status_code, answer.json()["newest"]["number"]) == (status, newest)


def test_it_is_archived_and_deleted(lead: User, team: Team) -> None:
    make(lead, team)
    assert api(lead).patch(ONE, {"archived": True}, format="json").json()["archived"] is True
    assert api(lead).delete(ONE).status_code == 204
    assert not Environment.objects.exists()


def test_what_is_wrong_is_told_by_field(lead: User) -> None:
    answer = send(lead, image="train@sha256:1", variables=["A"], shm_mib="much")
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {"image", "variables", "shm_mib"}


def test_one_of_no_team_that_is_seen_is_404(lead: User, team: Team, other_team: Team) -> None:
    make(lead, team)
    outsider = member(other_team, Role.LEAD)
    assert api(outsider).get(ONE).status_code == 404
    assert api(outsider).post(f"{ONE}versions/", {"image": "i"}, format="json").status_code == 404
    assert send(outsider).status_code == 404
    assert api(lead).get("/api/v1/teams/nlp/environments/pytorhc/").status_code == 404


def test_readers_may_see_and_not_change(lead: User, owner: User, team: Team) -> None:
    make(lead, team)
    assert api(owner).get(ONE).status_code == 200
    assert send(owner).status_code == 403
    assert api(owner).post(f"{ONE}versions/", {"image": "i"}, format="json").status_code == 403
    assert api(owner).patch(ONE, {"archived": True}, format="json").status_code == 403
    assert api(owner).delete(ONE).status_code == 403


def test_one_above_the_teams_that_one_sees_is_shown(owner: User, admin: User, org: Team) -> None:
    make(admin, org, "base")
    answer = api(owner).get("/api/v1/teams/acme/environments/base/")
    assert (answer.status_code, answer.json()["team"]) == (200, "acme")


def test_a_workload_tells_its_environment(lead: User, owner: User, team: Team) -> None:
    make(lead, team, **VALUES)
    body = {"name": "bert", "team": "nlp", "environment": "pytorch", "variables": {"EPOCHS": 9}}
    answer = api(owner).post("/api/v1/workloads/", body, format="json")
    assert answer.status_code == 201, answer.content
    told = answer.json()
    assert (told["runs_in"], told["image"], told["working_dir"]) == ("nlp/pytorch@1", IMAGE, "/workspace")
    assert told["environment"] == {"NCCL_DEBUG": "INFO", "EPOCHS": "9"}
    assert api(owner).get(ONE).json()["workloads"] == [told["slug"]]
