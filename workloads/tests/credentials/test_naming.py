"""Naming credentials in submissions: whose may be named, what is refused, and what a copy carries along."""

from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from chamber.errors import NotVisible, Refusal
from chamber.models import User
from teams.models import Pool, Role, Team
from teams.tests.factories import actor, make_team, member, set_rules
from workloads import manifests
from workloads.credentials import actions
from workloads.models import Credential, CredentialKind, NamedCredential, Workload
from workloads.requests import SubmissionRequest
from workloads.submission import submit
from workloads.tests.credentials.conftest import CONTENTS


def make(
    by: User, name: str = "hf", kind: str = "token", team: Team | None = None, **content: Any
) -> Credential:
    return actions.create_credential(
        by=actor(by), name=name, kind=CredentialKind(kind), content=content or CONTENTS[kind], team=team
    )


def request(*credentials: str, **changes: Any) -> SubmissionRequest:
    body = {"name": "bert", "team": "nlp", "image": "train:1", "credentials": list(credentials), **changes}
    return SubmissionRequest.parse(body)


def refused(by: User, *credentials: str, **changes: Any) -> dict[str, str]:
    with pytest.raises(Refusal) as caught:
        submit(by=actor(by), requests=[request(*credentials, **changes)])
    assert not Workload.objects.exists()
    return caught.value.fields


@pytest.fixture
def admin(org: Team) -> User:
    return member(org, Role.ORG_ADMIN, "olga")


def test_ones_own_the_teams_and_those_above_are_named(
    owner: User, admin: User, org: Team, team: Team
) -> None:
    rows = [
        make(owner),
        make(admin, "s3", "s3", team=team),
        make(admin, "pull", "registry", team=org),
    ]
    (workload,) = submit(by=actor(owner), requests=[request("hf", "nlp/s3", "acme/pull", "hf")])
    workload.refresh_from_db()
    assert workload.credentials == ["hf", "nlp/s3", "acme/pull"]
    named = NamedCredential.objects.filter(workload=workload)
    assert [each.credential for each in named] == rows


def test_one_of_another_team_is_refused_with_what_is_allowed(
    owner: User, admin: User, team: Team, other_team: Team
) -> None:
    make(owner)
    make(admin, "data", team=other_team)
    make(admin, "deep", team=make_team(team, "Speech"))
    assert refused(owner, "vision/data") == {
        "credentials": "There is no credential 'vision/data' that you may use. There are: hf."
    }
    assert refused(owner, "speech/deep") == {
        "credentials": "speech/deep is a credential of Speech. Workloads of NLP may use your own, and those of NLP and "
        "the teams above it: hf."
    }


def test_somebody_elses_own_is_none(owner: User, admin: User) -> None:
    make(admin, "theirs")
    assert refused(owner, "theirs")["credentials"] == (
        "There is no credential 'theirs' that you may use. There are: none."
    )
    make(owner, "hf-token")
    assert "Did you mean 'hf-token'?" in refused(owner, "hf-tokn")["credentials"]


@pytest.mark.parametrize(
    ("environment", "second", "told"),
    [
        (
            {"HF_TOKEN": ""},
            None,
            "HF_TOKEN is set by environment and by the credential hf: leave one of them out.",
        ),
        ({}, ("hf2", "token", {}), "HF_TOKEN is set by hf and by hf2: leave one of them out."),
    ],
)
def test_what_would_be_set_twice_is_refused(
    owner: User, environment: dict[str, str], second: Any, told: str
) -> None:
    names = ["hf"]
    make(owner)
    if second:
        make(owner, second[0], second[1])
        names.append(second[0])
    assert refused(owner, *names, environment=environment) == {"credentials": told}


def test_files_of_one_name_would_lie_in_one_folder(owner: User, admin: User, team: Team) -> None:
    make(owner, "gcp", "files")
    make(admin, "gcp", "files", team=team)
    assert (
        "would lie in one folder, /var/run/chamber/credentials/gcp"
        in refused(owner, "gcp", "nlp/gcp")["credentials"]
    )


def test_more_than_eight_are_refused(owner: User) -> None:
    with pytest.raises(Refusal, match="at most 8"):
        request(*(f"t{number}" for number in range(9)))


def test_a_secret_of_a_cluster_needs_the_rules_of_the_team(owner: User, org: Team) -> None:
    make(owner, "wandb", "secret")
    assert refused(owner, "wandb") == {
        "credentials": "wandb is the Secret 'wandb' of a cluster, and the rules of NLP allow none (cluster_secrets). "
        "An admin can allow more in the rules of a team above."
    }
    set_rules(org, cluster_secrets=["nlp-jobs/wand*"])
    submit(by=actor(owner), requests=[request("wandb")])


SUSPICIOUS = [
    "HF_TOKEN",
    "DB_PASSWORD",
    "WANDB_API_KEY",
    "PRIVATE_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "apiKey",
    "SECRET",
    "TOKEN_2",
]
HARMLESS = [
    "TOKENIZER_PATH", "TOKEN_COUNT", "MAX_TOKENS", "PAD_TOKEN", "PASSWORD_FILE", "KEY", "SORT_KEY", "SECRETARY",
    "COMPASS", "PWD", "HF_HOME", "MONKEY", "TOKENS",
]  # fmt: skip


@pytest.mark.parametrize("name", SUSPICIOUS)
def test_a_variable_that_names_a_secret_is_refused_with_the_advice(owner: User, name: str) -> None:
    told = refused(owner, environment={name: "x"})["environment"]
    assert told.startswith(f"{name} looks like a secret by its name.")
    assert "chamber credentials add" in told
    assert "plain_variables" in told


@pytest.mark.parametrize("name", HARMLESS)
def test_words_are_judged_and_no_parts_of_them(owner: User, name: str) -> None:
    submit(by=actor(owner), requests=[request(environment={name: "x"})])


def test_the_rules_of_a_team_allow_a_harmless_one(owner: User, org: Team) -> None:
    refused(owner, environment={"PREFIX_TOKEN": "<s>"})
    set_rules(org, plain_variables=["PREFIX_*"])
    submit(by=actor(owner), requests=[request(environment={"PREFIX_TOKEN": "<s>"})])


def test_every_door_refuses_it(owner: User, client: Client, pool: Pool) -> None:
    body = {"name": "bert", "team": "nlp", "image": "train:1", "environment": {"HF_TOKEN": "x"}}
    api = APIClient()
    api.force_authenticate(owner)
    answer = api.post("/api/v1/workloads/", body, format="json")
    assert (answer.status_code, "environment" in answer.json()["errors"]) == (422, True)
    client.force_login(owner)
    form = {**body, "environment": "HF_TOKEN=x", "job_class": "experiment", "gpus": "1", "pods": "1"}
    for posted in (form, {"tab": "yaml", "manifest": manifests.to_yaml(body)}):
        page = client.post("/workloads/submit/", posted)
        assert page.status_code == 422
        assert "looks like a secret by its name" in page.content.decode()


def test_a_form_names_them_too(owner: User, client: Client, pool: Pool) -> None:
    make(owner)
    make(owner, "git", "git")
    client.force_login(owner)
    form = {"name": "bert", "team": "nlp", "image": "i:1", "credentials": "hf, git", "gpus": "1", "pods": "1"}
    assert client.post("/workloads/submit/", form).status_code == 302
    assert Workload.objects.get().credentials == ["hf", "git"]


def test_the_api_and_the_page_tell_the_names(owner: User, client: Client, pool: Pool) -> None:
    make(owner)
    (workload,) = submit(by=actor(owner), requests=[request("hf")])
    api = APIClient()
    api.force_authenticate(owner)
    assert api.get(f"/api/v1/workloads/{workload.slug}/").json()["credentials"] == ["hf"]
    client.force_login(owner)
    page = client.get(f"/workloads/{workload.slug}/").content.decode()
    assert "<dt>Credentials</dt>" in page


def test_a_copy_by_somebody_else_leaves_what_is_not_theirs_and_says_so(
    owner: User, admin: User, team: Team, client: Client, pool: Pool
) -> None:
    make(owner)
    make(admin, "data", "s3", team=team)
    (workload,) = submit(by=actor(owner), requests=[request("hf", "nlp/data")])
    mate = member(team, Role.RESEARCHER, "grace")
    make(mate)  # called alike, and another one
    client.force_login(mate)
    page = client.get("/workloads/submit/", {"clone": workload.slug}).content.decode()
    assert 'name="credentials" value="nlp/data"' in page
    assert "Not copied, for you may not use it here: the credential hf." in page
    client.force_login(owner)
    assert (
        'value="hf,nlp/data"' in client.get("/workloads/submit/", {"clone": workload.slug}).content.decode()
    )


def test_where_the_team_is_not_there_nothing_else_is_told(owner: User) -> None:
    with pytest.raises(NotVisible):
        submit(by=actor(owner), requests=[request("hf", team="nowhere")])
